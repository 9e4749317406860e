"""One visit reconstructed by three algorithms, beside the truth.

Run as `python docs/gallery/one_visit.py`; it writes one_visit.png next to itself.
"""

from __future__ import annotations

from pathlib import Path

import torch

from duotomo.geometry import VolumeGrid, paper
from duotomo.phantoms import EllipticCylinder, Toroid
from duotomo.reconstruct import FilteredBackProjection, Sart, TvLeastSquares, reconstruct
from duotomo.report.slices import draw_slices
from duotomo.simulate import scan


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw the slices, and return the relative error of each algorithm."""
    spacing_mm = 3.5 if quick else 1.4
    n = round(70 / spacing_mm)
    grid = VolumeGrid.on_detector((n, n, n), (spacing_mm,) * 3, gap_mm=5.0)
    detector_shape = (round(84 / spacing_mm), round(168 / spacing_mm))
    acquisition = paper(detector_shape=detector_shape, pixel_mm=spacing_mm)
    z, y, x = grid.center_mm
    body = EllipticCylinder(center_mm=(x, y, z), radii_mm=(32.0, 32.0), height_mm=70.0, value=0.046)
    ring = Toroid(center_mm=(x, y, z), major_radius_mm=16.0, minor_radius_mm=7.0, value=0.034, body=body)
    projections = scan(ring, grid, acquisition, generator=torch.Generator().manual_seed(0))
    truth = torch.from_numpy(ring.voxels(grid)).float()

    algorithms = {
        "filtered backprojection": FilteredBackProjection(),
        "SART": Sart(n_sweeps=2 if quick else 5),
        "total variation": TvLeastSquares(n_steps=20 if quick else 100),
    }
    rows = {"truth": truth}
    for title, algorithm in algorithms.items():
        # Total variation converges sooner from a volume that already explains the data.
        start = rows.get("SART") if title == "total variation" else None
        rows[title] = reconstruct(
            projections, grid=grid, acquisition=acquisition, algorithm=algorithm, start=start
        ).value
    figure = draw_slices(rows=rows, grid=grid, unit="1/mm")
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    return {title: float((rows[title] - truth).norm() ** 2 / truth.norm() ** 2) for title in algorithms}


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
