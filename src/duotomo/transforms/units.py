"""Scales of parameters: a unit step moves the corners of a grid by about a voxel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch

from duotomo.errors import ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.operators.derivatives import plain


def spacing_xyz(grid: VolumeGrid) -> torch.Tensor:
    """Return the voxel's edges, xyz, in mm."""
    return torch.tensor(grid.spacing_mm[::-1], dtype=torch.float64)


def field_scale(grid: VolumeGrid, like: torch.Tensor) -> torch.Tensor:
    """Return the voxel's edges as a factor of fields (xyz, z, y, x), on the device of `like`."""
    return _on_device(grid, like.device)[:, None, None, None]


@lru_cache(maxsize=64)
def _on_device(grid: VolumeGrid, device: torch.device) -> torch.Tensor:
    return plain(spacing_xyz(grid).to(device))


def center_xyz(grid: VolumeGrid) -> torch.Tensor:
    """Return the middle of the grid, xyz, in mm."""
    return torch.tensor(grid.center_mm[::-1], dtype=torch.float64)


def center_or_middle(where: str, center_mm: Sequence[float] | None, grid: VolumeGrid) -> torch.Tensor:
    """Return the centre given, xyz, or the middle of the grid."""
    if center_mm is None:
        return center_xyz(grid)
    center = torch.as_tensor(center_mm, dtype=torch.float64)
    if center.shape != (3,):
        raise ShapeError(
            f"{where}: expected center_mm as (x, y, z); got shape {tuple(center.shape)}. Pass three numbers."
        )
    return center


def half_size_xyz(grid: VolumeGrid) -> torch.Tensor:
    """Return the distance of the corners from the middle, xyz, in mm."""
    return torch.tensor(grid.size_mm[::-1], dtype=torch.float64) / 2


def turn_rad(grid: VolumeGrid) -> float:
    """Return the rotation about the middle that moves the corners by about a voxel."""
    return math.prod(grid.spacing_mm) ** (1 / 3) / (math.hypot(*grid.size_mm) / 2)
