"""An uncompressed breast, moved by fifteen random affine transforms."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Breast, BreastShape, Density, Phantom, Sampled
from duotomo.phantoms.phantom import Cached
from duotomo.reproduction.case import Case, Scans, acquisition_covering
from duotomo.reproduction.compared_method import compared_methods
from duotomo.reproduction.experiment import Experiment, Published, SetUp
from duotomo.reproduction.motions import MODERATE, random_affine
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.transforms import Affine

NAME = "breast-mr"
SHAPE, SPACING_MM = (60, 140, 128), 0.48
N_MOTIONS = 15
FIRST_SEED = 2000
"""Motion k is drawn with seed FIRST_SEED + k - 1."""

WALL_MM, MARGIN_MM = 16.0, 12.0
"""From the detector's edge to the box of the breast, and all around that box.

Both visits need the room: the one that moves for its motions, and each for what few views smear along z.
"""

AIR_VOXELS = 4
"""Between the skin and the box of the breast."""

PATIENTS = ("A", "C")
REAL_SPACING_MM = 1.2
NIPPLE_MM = 3.0


@lru_cache(maxsize=1)
def _small_breast() -> tuple[Phantom, VolumeGrid]:
    """Return a whole breast, and the box that it fits into: the paper's grid."""
    n_z, n_y, _ = SHAPE
    low_z, low_y = MARGIN_MM + 5.0, WALL_MM
    center = (low_z + n_z * SPACING_MM / 2, low_y + n_y * SPACING_MM / 2, 0.0)
    grid = VolumeGrid(shape=SHAPE, spacing_mm=(SPACING_MM,) * 3, center_mm=center)
    air_mm = AIR_VOXELS * SPACING_MM
    wall_mm, length_mm = low_y + air_mm, grid.size_mm[1] - 2 * air_mm - NIPPLE_MM
    radii_mm = (grid.size_mm[2] / 2 - air_mm, length_mm, grid.size_mm[0] / 2 - air_mm)
    shape = BreastShape(center_mm=(0.0, wall_mm, center[0]), radii_mm=radii_mm)
    breast = Breast(shape=shape, density=Density.C, seed=1, skin_mm=1.0, nipple_radius_mm=NIPPLE_MM)
    return Cached(breast.voxels), grid


def _real_breast(plan: Plan, patient: str) -> tuple[Phantom, VolumeGrid]:
    """Return a woman's breast, and the box that it fits into."""
    from duotomo.reproduction.third_party.breast_mr import breast_mr

    found = breast_mr(plan.data_folder(NAME), patient=patient, mediolateral=True)
    center_z, center_y, x = found.grid.center_mm
    placed = replace(found.grid, center_mm=(center_z + MARGIN_MM, center_y + WALL_MM, x))
    n_z, n_y, n_x = (math.ceil(size / REAL_SPACING_MM) + 2 * AIR_VOXELS for size in found.grid.size_mm)
    grid = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(REAL_SPACING_MM,) * 3, center_mm=placed.center_mm)
    return _smooth(Sampled(volume=found.volume, grid=placed)), grid


def _smooth(body: Sampled) -> Sampled:
    """Return a body on twice finer voxels, linear between the centres of the coarse ones.

    Tissue has no edges along the voxels of the scanner that imaged it; X-rays would see them.
    """
    volume = torch.from_numpy(body.volume).float()[None, None]
    finer = torch.nn.functional.interpolate(volume, scale_factor=2, mode="trilinear", align_corners=False)
    return Sampled(volume=finer[0, 0].numpy(), grid=body.grid.refine(2))


def _around(grid: VolumeGrid) -> VolumeGrid:
    """Return the grid that holds a breast wherever it moves, around its box."""
    n_z, n_y, n_x = (
        n + 2 * math.ceil(MARGIN_MM / d) for n, d in zip(grid.shape, grid.spacing_mm, strict=True)
    )
    return replace(grid, shape=(n_z, n_y, n_x))


def _body(plan: Plan, number: int) -> tuple[Phantom, VolumeGrid]:
    if plan.level is DataLevel.REAL:
        phantom, box = _real_breast(plan, PATIENTS[(number - 1) % len(PATIENTS)])
        coarser = 3
    else:
        phantom, box = _small_breast()
        coarser = 4
    return phantom, _around(box.coarsen((coarser,) * 3) if plan.quick else box)


def _at(plan: Plan) -> SetUp:
    if plan.level is DataLevel.REAL:
        plan.data_folder(NAME)

    def make(number: int) -> Case:
        phantom, grid = _body(plan, number)
        scans = Scans(
            grid=grid,
            acquisition=acquisition_covering(grid),
            seed=None if plan.level is DataLevel.AS_PUBLISHED else number,
            device=plan.device,
        )
        transform, seed = Affine(grid), FIRST_SEED + number - 1
        about: dict[str, Any] = {"motion_seed": seed, "grid": repr(grid)}
        if plan.level is DataLevel.REAL:
            about["patient"] = PATIENTS[(number - 1) % len(PATIENTS)]
        return scans.moved_by(phantom, random_affine(transform, seed, MODERATE), about)

    n_cases = 2 if plan.quick else N_MOTIONS
    about = {
        "body": "breasts of two women, segmented from magnetic resonance images, mediolateral view"
        if plan.level is DataLevel.REAL
        else "a small procedural breast, density C, in air",
        "energy": "20 keV",
        "acquisition": "11 views over 50 degrees, source to detector 660 mm, pixels as wide as voxels",
        "motions": f"{n_cases} random affine motions: rotations up to {MODERATE.rotation_deg:g} degrees "
        f"about each axis, scales within {MODERATE.scale:g} of 1, shears up to {MODERATE.shear:g}, "
        f"translations up to {MODERATE.translation_mm:g} mm",
    }
    # Settings depend on the grid; that of the women differs a little, in the number of voxels only.
    methods = compared_methods(plan, _body(plan, 1)[1], Affine)
    return SetUp(about=about, n_cases=n_cases, make=make, shown=min(8, n_cases), methods=methods)


BREAST_MR = Experiment(
    name=NAME,
    title="Uncompressed breast, fifteen random affine motions",
    paper=Published.of(
        2.0,
        (1.0, 0.0051, 0.0026),
        (1.18e6, 6.04e3, 3.01e3),
        "The paper's 128 x 140 x 60 mm at 0.48 mm can only mean voxels.",
    ),
    at=_at,
)
