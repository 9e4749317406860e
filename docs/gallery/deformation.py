"""A B-spline deforms a breast: the control points, and where they go.

Run as `python docs/gallery/deformation.py`; it writes deformation.png next to itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.phantoms import Breast, BreastShape, Density
from duotomo.report.control_grids import draw_control_grids
from duotomo.transforms import BSpline, Motion, folding


def draw(path: Path, *, quick: bool = False) -> dict[str, float]:
    """Draw the lattice before and after, over the volume as the moving visit sees it."""
    spacing_mm = 4.0 if quick else 1.0
    n_z, n_y, n_x = (round(size / spacing_mm) for size in (44, 48, 88))
    grid = VolumeGrid.on_detector((n_z, n_y, n_x), (spacing_mm,) * 3)
    shape = BreastShape(center_mm=(0.0, 0.0, 22.0), radii_mm=(40.0, 40.0, 20.0))
    volume = torch.from_numpy(Breast(shape=shape, density=Density.C, seed=2).voxels(grid)).float()

    spline = BSpline.over(grid, (5, 7, 9))
    noise = torch.Generator().manual_seed(1)
    shifts_mm = 3.0 * torch.randn(3, *spline.lattice.shape, generator=noise, dtype=torch.float64)
    params = spline.params(coefficients_mm=shifts_mm)

    middle = spline.lattice.shape[0] // 2
    index = np.stack(
        np.meshgrid([middle], *(np.arange(n) for n in spline.lattice.shape[1:]), indexing="ij"), axis=-1
    )[0]
    points = voxel_to_world(spline.lattice, index).copy()
    moved = spline.points(params, torch.from_numpy(points)).numpy()
    figure = draw_control_grids(
        lattices={"control points": points, "where T takes them": moved},
        grid=grid,
        volume=spline.warp(params)(volume),
    )
    figure.savefig(path, format="png", dpi=110, metadata={"Software": None})
    found = folding(Motion(spline, params), grid)
    return {"least determinant": found.lowest_determinant, "folded voxels": float(found.n_folded)}


if __name__ == "__main__":
    print(draw(Path(__file__).with_suffix(".png")))
