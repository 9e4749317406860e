"""A third-party breast in air, with room for any motion, where the paper has a ring or a head."""

from __future__ import annotations

import math
from dataclasses import replace

from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Sampled
from duotomo.reproduction.plan import Plan

VOXEL_MM, QUICK_VOXEL_MM = 1.0, 3.0
GAP_MM = 5.0


def breast_in_air(
    plan: Plan, experiment: str, *, room_mm: float, voxel_mm: float = VOXEL_MM
) -> tuple[Sampled, VolumeGrid]:
    """Return the FDA's compressed VICTRE phantom without its plates, and a grid with `room_mm` all around it.

    The grid stands above the detector from its chest-wall edge on, so that no motion within the room leaves
    the views. voxel_mm: its voxels, unless the size is reduced.
    """
    from duotomo.reproduction.third_party.victre import victre

    found = victre(plan.data_folder(experiment))
    spacing_mm = QUICK_VOXEL_MM if plan.quick else voxel_mm
    n_z, n_y, n_x = (math.ceil((size + 2 * room_mm) / spacing_mm) for size in found.grid.size_mm)
    grid = VolumeGrid.on_detector((n_z, n_y, n_x), (spacing_mm,) * 3, gap_mm=GAP_MM)
    return Sampled(volume=found.volume, grid=replace(found.grid, center_mm=grid.center_mm)), grid


ABOUT = {
    "body": "the FDA's VICTRE phantom, compressed by its makers, without the plates, in air",
    "energy": "20 keV",
    "acquisition": "11 views over 50 degrees, source to detector 660 mm, pixels as wide as voxels",
}
