"""A ring in soft tissue, moved by affine transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duotomo.geometry import Acquisition, VolumeGrid, paper
from duotomo.phantoms import Box, Ellipsoid, Phantom, Toroid
from duotomo.reproduction.case import Case, Scans, acquisition_covering
from duotomo.reproduction.compared_method import compared_methods, splits
from duotomo.reproduction.experiment import Experiment, Published, SetUp
from duotomo.reproduction.motions import LARGE, published_motion, random_affine
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.reproduction.third_party.victre import ABOUT, breast_in_air
from duotomo.transforms import Affine, Motion

EDGE_MM, GAP_MM = 70.0, 5.0
N_MOTIONS = 20
FIRST_SEED = 1000
"""Motion k is drawn with seed FIRST_SEED + k - 1."""

LARGE_ROOM_MM, ROOM_MM = 45.0, 22.0
"""Around a breast that makes the paper's large motion, and around one that makes a random motion."""


def grid_of(spacing_mm: float) -> VolumeGrid:
    """Return the cube of 70 mm, 5 mm above the detector."""
    n = round(EDGE_MM / spacing_mm)
    return VolumeGrid.on_detector((n, n, n), (spacing_mm,) * 3, gap_mm=GAP_MM)


def acquisition_of(spacing_mm: float) -> Acquisition:
    """Return 11 views over 50 degrees, 660 mm from the source to the detector, pixels as wide as voxels."""
    # As wide as the cube's projection in the outermost views, so that no view is cut off.
    shape = round(84 / spacing_mm), round(168 / spacing_mm)
    return paper(detector_shape=shape, pixel_mm=spacing_mm)


def phantom_of(*, fills_the_cube: bool) -> Toroid:
    """Return the ring, in tissue that fills the cube, or in a rounded body that stays inside it.

    The published errors are so small that tissue must have filled the field of view, and what a motion took
    out of it was lost. Then most random motions have local minima between the initial guess and the truth.
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


def random_motion(number: int) -> Motion:
    """Return random motion 1, 2, ...: the same at every size of the voxels, in mm."""
    return random_affine(Affine(grid_of(1.0)), FIRST_SEED + number - 1, LARGE)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What moves, and how it is scanned."""

    phantom: Phantom
    grid: VolumeGrid
    acquisition: Acquisition
    about: dict[str, Any]

    def scans(self, plan: Plan, number: int) -> Scans:
        """Return how a case is scanned."""
        seed = None if plan.level is DataLevel.AS_PUBLISHED else number
        return Scans(grid=self.grid, acquisition=self.acquisition, seed=seed, device=plan.device)


def setting_of(plan: Plan, experiment: str, *, fills_the_cube: bool, room_mm: float) -> Setting:
    """Return the ring, or at DataLevel.REAL a breast with `room_mm` around it."""
    if plan.level is DataLevel.REAL:
        body, grid = breast_in_air(plan, experiment, room_mm=room_mm)
        about = ABOUT | {"grid": repr(grid)}
        return Setting(phantom=body, grid=grid, acquisition=acquisition_covering(grid), about=about)
    spacing_mm = 2.0 if plan.quick else 1.0
    phantom = phantom_of(fills_the_cube=fills_the_cube)
    acquisition = acquisition_of(spacing_mm)
    about = {
        "grid": repr(grid_of(spacing_mm)),
        "acquisition": "11 views over 50 degrees, source to detector 660 mm, static detector of "
        f"{acquisition.detector_shape} pixels (v, u) of {acquisition.pixel_spacing_mm[0]:g} mm",
        "phantom": repr(phantom),
    }
    return Setting(phantom=phantom, grid=grid_of(spacing_mm), acquisition=acquisition, about=about)


def _iterative(plan: Plan) -> SetUp:
    setting = setting_of(
        plan, "toroid-iterative", fills_the_cube=plan.level is DataLevel.AS_PUBLISHED, room_mm=LARGE_ROOM_MM
    )

    def make(number: int) -> Case:
        transform = Affine(full_grid(setting.grid, plan))
        return setting.scans(plan, 21).moved_by(setting.phantom, published_motion(transform), {})

    about = setting.about | {"motion": "the body moves by (10, 0, -20) mm and turns by -30 degrees about y"}
    methods = compared_methods(plan, setting.grid, Affine, with_iterative=True)
    return SetUp(about=about, n_cases=1, make=make, shown=1, methods=methods)


def _simultaneous(plan: Plan) -> SetUp:
    setting = setting_of(plan, "toroid-simultaneous", fills_the_cube=False, room_mm=ROOM_MM)

    def make(number: int) -> Case:
        seed = FIRST_SEED + number - 1
        transform = Affine(full_grid(setting.grid, plan))
        motion = random_affine(transform, seed, LARGE)
        return setting.scans(plan, number).moved_by(setting.phantom, motion, {"motion_seed": seed})

    n_cases = 2 if plan.quick else N_MOTIONS
    about = setting.about | {
        "motions": f"{n_cases} random affine motions: rotations up to {LARGE.rotation_deg:g} degrees about "
        f"each axis, scales within {LARGE.scale:g} of 1, shears up to {LARGE.shear:g}, translations up to "
        f"{LARGE.translation_mm:g} mm",
    }
    return SetUp(
        about=about, n_cases=n_cases, make=make, shown=1, methods=compared_methods(plan, setting.grid, Affine)
    )


def full_grid(grid: VolumeGrid, plan: Plan) -> VolumeGrid:
    """Return the grid that scales a transform's parameters: the same at every size of the ring's voxels."""
    return grid if plan.level is DataLevel.REAL else grid_of(1.0)


TOROID_LARGE_MOTION = Experiment(
    name="toroid-iterative",
    title="Toroid, one large motion: sequential against iterative",
    paper=Published(
        better="iterative",
        ratio=1.6,
        relative_error={},
        mse={"sequential": 2.01e4, "iterative": 1.26e4},
        remark="The captions of the sequential and the iterative panels are swapped in the paper.",
    ),
    at=_iterative,
)
TOROID_RANDOM_MOTIONS = Experiment(
    name="toroid-simultaneous",
    title="Toroid, twenty random affine motions: sequential against simultaneous",
    paper=Published.of(31.0, (1.0, 0.0057, 0.0002), (1.31e6, 7.46e3, 0.24e3)),
    at=_simultaneous,
)


SPLITS = ((1, 1), (2, 2), (5, 5), (10, 10), (50, 50), (4, 1), (8, 2), (40, 10))
"""Steps of the volume and of the motion in one turn."""


def _at(plan: Plan) -> SetUp:
    setting = setting_of(
        plan, "inner-outer", fills_the_cube=plan.level is DataLevel.AS_PUBLISHED, room_mm=ROOM_MM
    )

    def make(number: int) -> Case:
        transform = Affine(full_grid(setting.grid, plan))
        motion = random_affine(transform, FIRST_SEED + number - 1, LARGE)
        return setting.scans(plan, number).moved_by(setting.phantom, motion, {})

    n_total = 100 if plan.quick else 1000
    chosen = SPLITS[2:5:2] if plan.quick else SPLITS
    about = setting.about | {
        "motion": "the first random motion of toroid-simultaneous",
        "steps": f"{n_total} in all, of volume and motion together, split into turns",
    }
    methods = splits(plan, setting.grid, Affine, n_total, chosen)
    return SetUp(about=about, n_cases=1, make=make, shown=1, methods=methods)


INNER_OUTER = Experiment(
    name="inner-outer",
    title="Inner and outer iterations of the alternation",
    at=_at,
)
