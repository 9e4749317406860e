"""A study of two visits that a run takes seconds for: a ball that moves by 3 mm."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import Coupled, Priors, Settings, Stage, Study, Visit
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import scan
from duotomo.transforms import Affine, Motion, Rigid, Translation
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((16, 16, 16), (3.0, 3.0, 3.0), gap_mm=5.0)
SCAN = arc((20, 32), 3.0)
SHIFT_MM = (3.0, 0.0, 0.0)


def tiny_study() -> Study:
    """Return the study; the same every time."""
    ball = Ellipsoid(center_mm=(0.0, 22.0, 28.0), radii_mm=(12.0, 10.0, 14.0), value=0.05)
    generator = torch.Generator().manual_seed(0)
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=SHIFT_MM))
    views = (
        scan(ball, GRID, SCAN, generator=generator),
        scan(ball, GRID, SCAN, generator=generator, motion=motion),
    )
    return Study(grid=GRID, visits=tuple(Visit(projections=view, acquisition=SCAN) for view in views))


def short_blocks() -> Settings:
    """Return settings with a checkpoint after every few steps, on two levels."""
    return Settings(
        stages=(
            Stage(coarsen=(2, 2, 2), model=Translation, n_steps=9),
            Stage(coarsen=(2, 2, 2), model=Rigid, n_steps=24),
            Stage(coarsen=(1, 1, 1), model=Affine, n_steps=36),
        ),
        solver=Coupled(block=3, memory=5),
        priors=Priors(total_variation=0.3),
        tolerance=0.0,
    )
