"""A ring in soft tissue, moved by affine transforms."""

from __future__ import annotations

import math
from typing import Any

import torch

from duotomo.experiments.case import Case, Scans
from duotomo.experiments.experiment import Experiment, SetUp
from duotomo.experiments.motions import LARGE, published_motion, random_affine
from duotomo.experiments.paper import TOROID_ITERATIVE, TOROID_SIMULTANEOUS
from duotomo.experiments.plan import Level, Plan
from duotomo.experiments.way import Way, oracle, plain_ways, staged_ways
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Model
from duotomo.phantoms import Box, Ellipsoid, Toroid
from duotomo.transforms import Affine

EDGE_MM, GAP_MM = 70.0, 5.0
N_MOTIONS = 20
FIRST_SEED = 1000
"""Motion k is drawn with seed FIRST_SEED + k - 1."""

AFFINE = Model("affine")


def grid_of(spacing_mm: float) -> VolumeGrid:
    """Return the cube of 70 mm, 5 mm above the detector."""
    n = round(EDGE_MM / spacing_mm)
    return VolumeGrid.on_detector((n, n, n), (spacing_mm,) * 3, gap_mm=GAP_MM)


def acquisition_of(spacing_mm: float) -> Acquisition:
    """Return 11 views over 50 degrees, 660 mm from the source to the detector, pixels as wide as voxels."""
    return Acquisition.arc(
        n_views=11,
        angle_range_rad=math.radians(50),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        # As wide as the cube's shadow in the outermost views, so that no view is cut off.
        detector_shape=(round(84 / spacing_mm), round(168 / spacing_mm)),
        pixel_spacing_mm=(spacing_mm, spacing_mm),
    )


def phantom_of(*, fills_the_cube: bool) -> Toroid:
    """Return the ring, in tissue that fills the cube, or in a rounded body that stays inside it.

    The published errors are so small that tissue must have filled the field of view, and what a motion took
    out of it was lost. Then most random motions have local minima between the first guess and the truth.
    """
    z, y, x = grid_of(1.0).center_mm
    body: Box | Ellipsoid = Ellipsoid(center_mm=(x, y, z), radii_mm=(22.0, 22.0, 11.0), value=0.046)
    if fills_the_cube:
        body = Box(center_mm=(x, y, z), size_mm=(EDGE_MM,) * 3, value=0.046)
    return Toroid(
        center_mm=(x, y, z),
        major_radius_mm=14.0,
        minor_radius_mm=6.0,
        value=0.034,
        modulation=0.5,
        body=body,
    )


def random_motion(number: int) -> torch.Tensor:
    """Return the parameters of random motion 1, 2, ...: the same at every size of the voxels, in mm."""
    return random_affine(Affine(grid_of(1.0)), FIRST_SEED + number - 1, LARGE)


def _scans(plan: Plan, number: int) -> Scans:
    spacing_mm = 2.0 if plan.quick else 1.0
    return Scans(
        grid=grid_of(spacing_mm),
        acquisition=acquisition_of(spacing_mm),
        seed=None if plan.level is Level.AS_PUBLISHED else number,
        device=plan.device,
    )


def _ways(plan: Plan, *, with_iterative: bool = False) -> tuple[Way, ...]:
    grid = _scans(plan, 1).grid
    ours = (*staged_ways(grid, AFFINE), oracle(grid, AFFINE))
    if plan.level is not Level.AS_PUBLISHED:
        return ours
    n_total = 100 if plan.quick else 1000
    return (*plain_ways(AFFINE, n_total=n_total, with_iterative=with_iterative), *ours)


def _about(plan: Plan, phantom: Toroid) -> dict[str, Any]:
    scans = _scans(plan, 1)
    return {
        "grid": repr(scans.grid),
        "acquisition": "11 views over 50 degrees, source to detector 660 mm, static detector of "
        f"{scans.acquisition.detector_shape} pixels (v, u) of {scans.acquisition.pixel_spacing_mm[0]:g} mm",
        "phantom": repr(phantom),
    }


def _iterative(plan: Plan) -> SetUp:
    phantom = phantom_of(fills_the_cube=plan.level is Level.AS_PUBLISHED)

    def make(number: int) -> Case:
        transform = Affine(grid_of(1.0))
        scans = _scans(plan, 21)
        return scans.moved_by(phantom, transform, published_motion(transform))

    about = _about(plan, phantom) | {
        "motion": "the body moves by (10, 0, -20) mm and turns by -30 degrees about y",
    }
    return SetUp(about=about, n_cases=1, make=make, shown=1, ways=_ways(plan, with_iterative=True))


def _simultaneous(plan: Plan) -> SetUp:
    phantom = phantom_of(fills_the_cube=False)

    def make(number: int) -> Case:
        return _scans(plan, number).moved_by(
            phantom,
            Affine(grid_of(1.0)),
            random_motion(number),
            motion_seed=FIRST_SEED + number - 1,
        )

    n_cases = 2 if plan.quick else N_MOTIONS
    about = _about(plan, phantom) | {
        "motions": f"{n_cases} random affine motions: rotations up to {LARGE.rotation_deg:g} degrees about "
        f"each axis, scales within {LARGE.scale:g} of 1, shears up to {LARGE.shear:g}, translations up to "
        f"{LARGE.translation_mm:g} mm",
    }
    return SetUp(about=about, n_cases=n_cases, make=make, shown=1, ways=_ways(plan))


_LEVELS = (Level.AS_PUBLISHED, Level.HONEST)

TOROID_LARGE_MOTION = Experiment(
    name="toroid-iterative",
    title="Toroid, one large motion: sequential against iterative",
    paper=TOROID_ITERATIVE,
    levels=_LEVELS,
    at=_iterative,
)
TOROID_RANDOM_MOTIONS = Experiment(
    name="toroid-simultaneous",
    title="Toroid, twenty random affine motions: sequential against simultaneous",
    paper=TOROID_SIMULTANEOUS,
    levels=_LEVELS,
    at=_simultaneous,
)
