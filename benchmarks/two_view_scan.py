"""Scans of a pressed breast for cases of two views: RTK's projections, blur, scatter and photons."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.change_arrangement import Arrangement
from benchmarks.change_scan import acquisition_over, scanned_grid, scanned_visit
from benchmarks.hexahedra import Floats
from benchmarks.peers.rtk import RtkJoseph, available
from benchmarks.two_view_bodies import RestBody
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics import Compression
from duotomo.mechanics.compression import sampled_motion
from duotomo.methods import Visit


@dataclass(frozen=True, kw_only=True)
class Scanning:
    """How both views are scanned.

    voxel_mm: of the study, also the edge of its pixels less a fifth; scans are made with half of both.
    """

    voxel_mm: float = 2.5
    n_views: int = 11
    angle_deg: float = 50.0

    @property
    def pixel_mm(self) -> float:
        """Edge of the study's pixels."""
        return 0.8 * self.voxel_mm


def view_grid(pressed: Compression, support_mm: float, voxel_mm: float) -> VolumeGrid:
    """Return the grid of one view: between the plates, from the detector's edge, around the breast."""
    margin_mm = 7.0
    low, high = pressed.moved_mm.min(axis=0), pressed.moved_mm.max(axis=0)
    n_x = math.ceil((high[0] - low[0] + 2 * margin_mm) / voxel_mm)
    n_y = math.ceil((high[1] + margin_mm) / voxel_mm)
    n_z = math.ceil(pressed.thickness_mm / voxel_mm) + 2
    return VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(voxel_mm,) * 3,
        center_mm=(
            support_mm + (n_z / 2 - 1) * voxel_mm,
            n_y / 2 * voxel_mm,
            float(low[0] + high[0]) / 2,
        ),
    )


def seen_volumes(body: RestBody, pressed: Compression, *grids: VolumeGrid) -> list[torch.Tensor]:
    """Return the attenuation of a pressed breast, means over voxels of each grid, (z, y, x), float32."""
    rest = torch.from_numpy(np.ascontiguousarray(body.rest, dtype=np.float32))
    motion = sampled_motion(pressed.to_rest, grids[-1], lattice_mm=3.0)
    volumes = []
    for grid in grids:
        parts = max(1, round(grid.spacing_mm[0] / 0.6))
        warped = motion.warp(body.grid, grid.refine(parts))(rest)
        volumes.append(torch.nn.functional.avg_pool3d(warped[None, None], parts)[0, 0])
    return volumes


def scan(
    body: RestBody, pressed: Compression, support_mm: float, scanning: Scanning, rng: np.random.Generator
) -> tuple[Floats, VolumeGrid, Visit]:
    """Return the truth of one view, (z, y, x), its grid, and its scan. rng: draws what a detector adds."""
    rtk = available()
    if not rtk:
        raise DuotomoError(f"two_view_scan: expected RTK to project with; {rtk}. Run pip install itk-rtk.")
    grid = view_grid(pressed, support_mm, scanning.voxel_mm)
    scanned = scanned_grid(grid)
    truth, fine = seen_volumes(body, pressed, grid, scanned)
    acquisition = acquisition_over(
        grid, scanning.pixel_mm / 2, n_views=scanning.n_views, angle_deg=scanning.angle_deg
    )
    expected = torch.from_numpy(np.array(RtkJoseph(scanned, acquisition).forward(fine.numpy())))
    how = Arrangement(
        placement=0,
        turn_rad=0.0,
        shift_mm=(0.0, 0.0),
        wave_mm=0.0,
        phases_rad=(0.0, 0.0, 0.0),
        exposure=float(rng.uniform(0.7, 1.4)),
        blur_mm=float(rng.uniform(0.2, 0.4)),
        scatter_error=float(rng.uniform(-0.1, 0.1)),
        seed=int(rng.integers(2**31)),
    )
    return truth.numpy(), grid, scanned_visit(expected, acquisition, how, "cpu")
