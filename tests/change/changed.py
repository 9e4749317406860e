"""A small breast at two visits: it has moved, and a mass is new or gone."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from duotomo.change import Change, change_of
from duotomo.geometry import VolumeGrid
from duotomo.methods import Result, Settings, Study, Visit, simultaneous
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import Translation
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((11, 18, 21), (4.0, 4.0, 4.0), gap_mm=4.0)
SCAN = arc((22, 32), 4.0)
SHIFT_MM = (4.0, -3.0, 2.0)
MASS_MM, SIZE_MM, CONTRAST = (6.0, 26.0, 26.0), 9.0, 0.03
NOISE = 0.003


def _scan(shift_mm: tuple[float, float, float], mass: float, seed: int) -> Visit:
    """Return a visit; mass: what is added to the attenuation there."""
    rng = np.random.default_rng(1)
    fine = GRID.refine(3)
    parts = [Ellipsoid(center_mm=(0.0, 20.0, 26.0), radii_mm=(34.0, 38.0, 19.0), value=0.05)]
    for _ in range(25):
        x, y, z = rng.uniform((-20, 5, 15), (20, 45, 37))
        radius = rng.uniform(2.5, 6.0)
        parts.append(Ellipsoid(center_mm=(x, y, z), radii_mm=(radius,) * 3, value=0.015))
    if mass:
        parts.append(Ellipsoid(center_mm=MASS_MM, radii_mm=(SIZE_MM / 2,) * 3, value=mass))
    moved = [
        Ellipsoid(
            center_mm=tuple(c + s for c, s in zip(part.center_mm, shift_mm, strict=True)),  # type: ignore[arg-type]
            radii_mm=part.radii_mm,
            value=part.value,
        )
        for part in parts
    ]
    volume = sum(torch.from_numpy(part.voxels(fine)) for part in moved).float()  # type: ignore[union-attr]
    views = Projector(grid=fine, acquisition=SCAN)(volume)
    noise = torch.randn(views.shape, generator=torch.Generator().manual_seed(seed))
    return Visit(projections=views + NOISE * noise, acquisition=SCAN)


@cache
def solved(current: float, prior: float) -> tuple[Study, Settings, Result]:
    """Return a study whose visits have a mass of some contrast each, and its joint result."""
    visits = (_scan((0.0, 0.0, 0.0), current, 1), _scan(SHIFT_MM, prior, 2))
    study = Study(grid=GRID, visits=visits)
    settings = Settings.for_study(study, Translation)
    return study, settings, simultaneous(study, settings)


@cache
def found(current: float, prior: float) -> Change:
    """Return what changed in such a study."""
    return change_of(*solved(current, prior))
