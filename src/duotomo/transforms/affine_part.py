"""The affine map nearest to a motion, from which the linear transforms take their parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms.units import center_xyz

if TYPE_CHECKING:
    from duotomo.transforms.motion import Motion


def affine_part(motion: Motion, grid: VolumeGrid) -> tuple[torch.Tensor, torch.Tensor]:
    """Return M and t of `T(x) = c + M (x - c) + t`, c the middle of the grid, fitted over its box."""
    half = torch.tensor(grid.size_mm[::-1], dtype=torch.float64) / 2
    steps = torch.linspace(-1, 1, 5, dtype=torch.float64)
    offsets = torch.cartesian_prod(steps, steps, steps) * half
    center = center_xyz(grid)
    moved = motion.points(offsets + center) - center
    # The places are symmetric, so their coordinates and the constant are orthogonal: each is fitted alone.
    # A solver of least squares may round in another way the next time, and a resumed run must not.
    return moved.T @ offsets / offsets.square().sum(dim=0), moved.mean(dim=0)


def shift_about(
    center_mm: torch.Tensor, grid: VolumeGrid, matrix: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    """Return the translation of the same map about another centre than the middle of the grid."""
    return shift + (matrix - torch.eye(3, dtype=torch.float64)) @ (center_mm - center_xyz(grid))


def rotation_vector_deg(rotation: torch.Tensor) -> list[float]:
    """Return the rotation vector of a proper rotation matrix, in degrees."""
    axis = torch.stack(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    # Its length is 2 sin(angle); the arc cosine alone would lose half of the digits of a small angle.
    angle = math.atan2(float(axis.norm()), float(torch.trace(rotation)) - 1)
    # sin(angle) / angle -> 1: the antisymmetric part is then the vector itself.
    factor = 0.5 if angle < 1e-6 else angle / (2 * math.sin(angle))
    return [math.degrees(value) for value in (factor * axis).tolist()]
