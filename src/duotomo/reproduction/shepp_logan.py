"""The Shepp-Logan head, deformed by random offsets of the control points of a B-spline."""

from __future__ import annotations

import math
from typing import Any

from duotomo.geometry import Acquisition, VolumeGrid, paper
from duotomo.phantoms import Phantom, SheppLogan
from duotomo.reproduction.case import Case, Scans, acquisition_covering
from duotomo.reproduction.compared_method import compared_methods
from duotomo.reproduction.experiment import Experiment, SetUp
from duotomo.reproduction.motions import random_offsets
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.reproduction.third_party.victre import ABOUT, breast_in_air
from duotomo.transforms import BSpline

NAME = "shepp-logan-bspline"
EDGE_MM, GAP_MM, ROOM_MM = 65.0, 5.0, 10.0
N_CONTROL, N_CONTROL_QUICK = 9, 6
OFFSETS_MM = (8.0, 4.0, 2.0)
REAL_VOXEL_MM = 0.8


def _grid(plan: Plan) -> VolumeGrid:
    n = 33 if plan.quick else 65
    return VolumeGrid.on_detector((n, n, n), (EDGE_MM / n,) * 3, gap_mm=GAP_MM)


def _acquisition(plan: Plan) -> Acquisition:
    pixel_mm = _grid(plan).spacing_mm[0]
    return paper(detector_shape=(math.ceil(80 / pixel_mm), math.ceil(160 / pixel_mm)), pixel_mm=pixel_mm)


def _phantom(grid: VolumeGrid) -> SheppLogan:
    z, y, x = grid.center_mm
    return SheppLogan(center_mm=(x, y, z), size_mm=EDGE_MM)


def _at(plan: Plan) -> SetUp:
    phantom: Phantom
    n_control = N_CONTROL_QUICK if plan.quick else N_CONTROL
    if plan.level is DataLevel.REAL:
        phantom, grid = breast_in_air(plan, NAME, room_mm=ROOM_MM, voxel_mm=REAL_VOXEL_MM)
        acquisition, about = acquisition_covering(grid), dict[str, Any](ABOUT)
        spline = BSpline.over(grid, (n_control,) * 3)
    else:
        grid, acquisition = _grid(plan), _acquisition(plan)
        phantom = _phantom(grid)
        about = {
            "acquisition": "11 views over 50 degrees, source to detector 660 mm, static detector of "
            f"{acquisition.detector_shape} pixels (v, u) of {acquisition.pixel_spacing_mm[0]:g} mm",
            "phantom": repr(phantom),
        }
        # The same motion at every size of the voxels.
        spline = BSpline.over(_grid(Plan(level=plan.level)), (n_control,) * 3)

    def make(number: int) -> Case:
        scans = Scans(
            grid=grid,
            acquisition=acquisition,
            seed=None if plan.level is DataLevel.AS_PUBLISHED else number,
            device=plan.device,
        )
        motion = random_offsets(spline, number - 1, OFFSETS_MM)
        return scans.moved_by(phantom, motion, {"motion_seed": number - 1})

    about |= {
        "grid": repr(grid),
        "motion": f"{n_control}^3 control points of a cubic B-spline, offset by up to {OFFSETS_MM} mm "
        "along (x, y, z)",
    }
    model = BSpline.shaped((n_control,) * 3)
    return SetUp(about=about, n_cases=1, make=make, shown=1, methods=compared_methods(plan, grid, model))


SHEPP_LOGAN = Experiment(
    name=NAME,
    title="Shepp-Logan phantom, deformed by a B-spline",
    at=_at,
)
