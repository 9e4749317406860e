"""The same least-squares problem solved by duotomo's CGLS and by SciPy's LSQR, on the same projector.

Run as `python docs/gallery/with_scipy.py`; it writes with_scipy.png next to itself. Needs SciPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy.sparse.linalg import lsqr

from duotomo import Projector, VolumeGrid
from duotomo.geometry import paper
from duotomo.objectives import ProjectionMisfit
from duotomo.phantoms import Ellipsoid
from duotomo.report.curves import draw_objective_curves
from duotomo.simulate import scan
from duotomo.solvers import Cgls


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw how the residual falls; return how far the two solutions are apart, as a part of either."""
    n_steps = 8 if quick else 20
    grid = VolumeGrid.on_detector((12, 16, 20), (4.0, 4.0, 4.0), gap_mm=5.0)
    acquisition = paper().bin(4)
    ball = Ellipsoid(center_mm=(0, 32, 28), radii_mm=(30, 25, 20), value=0.05)
    data = scan(ball, grid, acquisition, generator=torch.Generator().manual_seed(0)).double()
    A = Projector(grid=grid, acquisition=acquisition)

    ours = Cgls(n_steps=n_steps).minimise(ProjectionMisfit(A, data))
    operator, right = A.to_scipy(), data.numpy().ravel()
    theirs = [
        lsqr(operator, right, iter_lim=step, atol=0, btol=0, conlim=0)[0] for step in range(1, n_steps + 1)
    ]
    left = [np.linalg.norm(operator @ x - right) / np.linalg.norm(right) for x in theirs]
    curve = [(2 * step.objective) ** 0.5 / float(data.norm()) for step in ours.history]
    figure = draw_objective_curves(
        curves={
            "duotomo, CGLS": (range(len(curve)), curve),
            "SciPy, LSQR": (range(1, n_steps + 1), left),
        },
        x_label="step",
        y_label="|A f - p| / |p|",
    )
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    difference = np.linalg.norm(theirs[-1] - ours.value.numpy().ravel()) / np.linalg.norm(theirs[-1])
    return {"difference": float(difference)}


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
