"""Scans that have all of a body in view."""

from __future__ import annotations

import math

from duotomo.geometry import Acquisition, VolumeGrid, paper


def acquisition_covering(grid: VolumeGrid) -> Acquisition:
    """Return 11 views over 50 degrees on a detector that holds the projections of a whole grid."""
    high_z, high_y, high_x = grid.high_mm
    # The outermost source sees the grid's upper corner furthest out.
    source_x, _, source_z = paper().sources_mm[-1].tolist()
    reach_mm = high_x + (high_x + source_x) * high_z / (source_z - high_z)
    depth_mm = high_y * source_z / (source_z - high_z)
    pixel_mm = grid.spacing_mm[0]
    return paper(
        detector_shape=(math.ceil(depth_mm / pixel_mm), 2 * math.ceil(reach_mm / pixel_mm)),
        pixel_mm=pixel_mm,
    )
