"""Small studies: three balls whose motion is known, and random numbers where only the form counts."""

from __future__ import annotations

import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import Motion, Rigid, Translation
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((14, 14, 16), (3.0, 3.0, 3.0), gap_mm=5.0)
SCAN = arc((16, 26), 3.0)

BALLS = (
    Ellipsoid(center_mm=(-4.0, 20.0, 24.0), radii_mm=(12.0, 10.0, 11.0), value=0.05),
    Ellipsoid(center_mm=(6.0, 25.0, 30.0), radii_mm=(5.0, 5.0, 5.0), value=0.08),
    Ellipsoid(center_mm=(-8.0, 14.0, 19.0), radii_mm=(4.0, 4.0, 5.0), value=0.08),
)


def truth(grid: VolumeGrid = GRID, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the balls on a grid, (z, y, x)."""
    return sum(torch.from_numpy(ball.voxels(grid)) for ball in BALLS).to(dtype)  # type: ignore[union-attr]


def shifted(*translation_mm: float, grid: VolumeGrid = GRID) -> Motion:
    """Return a translation, xyz."""
    shift = Translation(grid)
    return Motion(shift, shift.params(translation_mm=translation_mm))


def turned(
    *rotation_deg: float, translation_mm: tuple[float, float, float], grid: VolumeGrid = GRID
) -> Motion:
    """Return a rigid motion, xyz."""
    rigid = Rigid(grid)
    return Motion(rigid, rigid.params(rotation_deg=rotation_deg, translation_mm=translation_mm))


def seen(
    motion: Motion | None = None,
    *,
    acquisition: Acquisition = SCAN,
    grid: VolumeGrid | None = None,
    dtype: torch.dtype = torch.float32,
    finer: int = 1,
) -> Visit:
    """Return a visit of the balls without noise.

    finer: voxels along each edge of a voxel of the reconstruction. From 3 on they have moved as balls move;
    with 1, what moves are the voxels, interpolated linearly, which only a volume of voxels explains.
    """
    reference, moving = GRID.refine(finer), (grid or GRID).refine(finer)
    volume = truth(reference, dtype=dtype)
    if motion is not None:
        volume = motion.warp(reference, moving)(volume)
    projections = Projector(grid=moving, acquisition=acquisition)(volume)
    return Visit(projections=projections, acquisition=acquisition, grid=grid)


def study(*motions: Motion, dtype: torch.dtype = torch.float32, finer: int = 1) -> Study:
    """Return a study of the balls: the reference, and one visit after each motion; finer: as for `seen`."""
    visits = [seen(motion, dtype=dtype, finer=finer) for motion in (None, *motions)]
    return Study(grid=GRID, visits=tuple(visits))


def random_study(
    grid: VolumeGrid, acquisition: Acquisition, *, n_visits: int = 2, moving_grid: VolumeGrid | None = None
) -> Study:
    """Return visits whose projections are random numbers between 0 and 1."""
    visits = [
        Visit(
            projections=torch.rand(acquisition.shape, generator=torch.Generator().manual_seed(seed)),
            acquisition=acquisition,
            grid=moving_grid if seed else None,
        )
        for seed in range(n_visits)
    ]
    return Study(grid=grid, visits=tuple(visits))
