"""Scans that have all of a body in view."""

from __future__ import annotations

import math

from duotomo.geometry import Acquisition, VolumeGrid


def acquisition_covering(grid: VolumeGrid) -> Acquisition:
    """Return 11 views over 50 degrees on a detector that holds the projections of a whole grid."""
    source_mm, half_angle_rad = 660.0, math.radians(25)
    high_z, high_y, high_x = grid.high_mm
    # The outermost source sees the grid's upper corner furthest out.
    source_x, source_z = source_mm * math.sin(half_angle_rad), source_mm * math.cos(half_angle_rad)
    reach_mm = high_x + (high_x + source_x) * high_z / (source_z - high_z)
    depth_mm = high_y * source_z / (source_z - high_z)
    pixel_mm = grid.spacing_mm[0]
    return Acquisition.arc(
        n_views=11,
        angle_range_rad=2 * half_angle_rad,
        source_to_detector_mm=source_mm,
        pivot_height_mm=0.0,
        detector_shape=(math.ceil(depth_mm / pixel_mm), 2 * math.ceil(reach_mm / pixel_mm)),
        pixel_spacing_mm=(pixel_mm, pixel_mm),
    )
