"""Scans of a trial of change detection: grids, views, and what the detector makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.change_anatomies import SUPPORT_MM, Placements
from benchmarks.change_arrangement import Arrangement
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.geometry.binning import bin_projections
from duotomo.methods import Visit
from duotomo.simulate.detector import detect, scattered

N_VIEWS, ANGLE_DEG, SOURCE_MM = 15, 50.0, 660.0
PHOTONS_PER_MM2 = 2e6
"""Of a whole scan, in air."""

SCATTER = 0.3
"""Share of scattered photons, which are subtracted again, by an estimate that is wrong by some per cent."""


def study_grid(body: Placements, hows: Sequence[Arrangement], voxel_mm: float) -> VolumeGrid:
    """Return the grid of a study: between the plates, from the detector's edge, around both visits."""
    margin_mm = 8.0
    used = [how.placement for how in hows]
    low_x, high_x = body.low_mm[used, 0].min() - margin_mm, body.high_mm[used, 0].max() + margin_mm
    high_y = max(body.high_mm[how.placement, 1] + max(how.shift_mm[1], 0.0) for how in hows) + margin_mm
    # A breast of uneven height need not touch the upper plate.
    height_mm = float(np.minimum(body.thickness_mm, body.high_mm[:, 2] + 2.0 - SUPPORT_MM)[used].max())
    n_z, n_y, n_x = (math.ceil(size / voxel_mm) for size in (height_mm, high_y, high_x - low_x))
    n_z += 2
    return VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(voxel_mm,) * 3,
        center_mm=(
            SUPPORT_MM + (n_z / 2 - 1) * voxel_mm,
            n_y / 2 * voxel_mm,
            float(low_x + high_x) / 2,
        ),
    )


def scanned_grid(grid: VolumeGrid) -> VolumeGrid:
    """Return the grid that scans are made on: twice as fine, larger, and off by a part of a voxel."""
    n_z, n_y, n_x = (2 * n + 4 for n in grid.shape)
    z, y, x = (c + 0.15 * d for c, d in zip(grid.center_mm, grid.spacing_mm, strict=True))
    half_z, half_y, half_x = (d / 2 for d in grid.spacing_mm)
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(half_z, half_y, half_x), center_mm=(z, y, x))


def acquisition_over(
    grid: VolumeGrid, pixel_mm: float, *, n_views: int = N_VIEWS, angle_deg: float = ANGLE_DEG
) -> Acquisition:
    """Return views on a detector that begins at the chest wall and holds the projections of a whole grid."""
    high_z, high_y, high_x = grid.high_mm
    angle_rad = math.radians(angle_deg)
    source_x, source_z = SOURCE_MM * math.sin(angle_rad / 2), SOURCE_MM * math.cos(angle_rad / 2)
    half_mm = max(high_x, -grid.low_mm[2])
    reach_mm = half_mm + (half_mm + source_x) * high_z / (source_z - high_z)
    depth_mm = high_y * source_z / (source_z - high_z)
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=angle_rad,
        source_to_detector_mm=SOURCE_MM,
        pivot_height_mm=0.0,
        detector_shape=(2 * math.ceil(depth_mm / pixel_mm / 2), 4 * math.ceil(reach_mm / pixel_mm / 2)),
        pixel_spacing_mm=(pixel_mm, pixel_mm),
    )


def scanned_visit(expected: torch.Tensor, acquisition: Acquisition, how: Arrangement, device: str) -> Visit:
    """Return the scan of exact line integrals (view, v, u): 2 x 2 pixels united, scatter subtracted."""
    d_v, d_u = acquisition.pixel_spacing_mm
    photons = how.exposure * PHOTONS_PER_MM2 / acquisition.n_views * d_v * d_u
    seen = detect(
        expected,
        acquisition,
        generator=torch.Generator().manual_seed(how.seed),
        photons=photons,
        blur_mm=how.blur_mm,
        scatter=SCATTER,
    )
    intensity = bin_projections(torch.exp(-seen.double()), 2)
    scatter = bin_projections(scattered(expected.double(), (d_v, d_u), share=SCATTER), 2)
    primary = (intensity - (1 + how.scatter_error) * scatter).clamp(min=1 / photons)
    # The variance of log(primary), by that of the counts of four pixels.
    weights = 4 * photons * primary**2 / intensity
    return Visit(
        projections=-torch.log(primary).float().to(device),
        acquisition=acquisition.bin(2),
        weights=weights.float().to(device),
    )
