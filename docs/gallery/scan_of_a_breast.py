"""The scan of a breast with a mass: eight of the views of one machine.

Run as `python docs/gallery/scan_of_a_breast.py`; it writes scan_of_a_breast.png next to itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid, victre
from duotomo.phantoms import Breast, BreastShape, Density, SpiculatedMass, WithLesions
from duotomo.report.projections import draw_projections
from duotomo.simulate import scan


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw the projections, and return the largest line integral."""
    shape = BreastShape(center_mm=(0.0, 0.0, 28.0), radii_mm=(75.0, 70.0, 25.0))
    breast = Breast(shape=shape, density=Density.B, seed=3)
    mass = SpiculatedMass(center_mm=(12.0, 34.0, 30.0), radius_mm=5.0, seed=1)
    body = WithLesions(phantom=breast, lesions=(mass,))
    spacing_mm = 4.0 if quick else 1.6
    n_z, n_y, n_x = (round(size / spacing_mm) for size in (56, 80, 160))
    grid = VolumeGrid.on_detector((n_z, n_y, n_x), (spacing_mm,) * 3)
    machine = victre().bin(24 if quick else 8)  # pixels of 0.085 mm united
    acquisition = machine[np.linspace(0, machine.n_views - 1, 8).round().astype(int)]
    projections = scan(body, grid, acquisition, generator=torch.Generator().manual_seed(0), photons=1e5)
    title = "a breast of density B with a mass"
    figure = draw_projections(visits={title: (projections, acquisition)}, n_columns=4)
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    return {"largest line integral": float(projections.max())}


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
