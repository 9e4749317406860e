"""Differences between neighbouring voxels, weighed by how far apart the voxels are."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid


class Differences:
    """`D f`: along each axis, `f[i + 1] - f[i]`, zero at the far edge.

    The differences carry squared weights, `s = (smallest spacing / spacing)^2`, so that a slope counts alike
    along every axis; along z also times depth_weight^2. They are kept apart from the differences, where they
    cost nothing.

    >>> D = Differences(VolumeGrid.on_detector((2, 2, 3), (2.0, 1.0, 1.0)), depth_weight=1.0, where="D")
    >>> D.scales_sq
    (0.25, 1.0, 1.0)
    >>> D.of(torch.arange(12.0).reshape(2, 2, 3))[1].tolist()
    [[[3.0, 3.0, 3.0], [0.0, 0.0, 0.0]], [[3.0, 3.0, 3.0], [0.0, 0.0, 0.0]]]
    """

    def __init__(self, grid: VolumeGrid, *, depth_weight: float, where: str) -> None:
        if not 0 <= depth_weight < math.inf:
            raise DuotomoError(
                f"{where}: expected a finite depth_weight >= 0; got {depth_weight}. "
                f"Use 1 to weigh depth like the other axes."
            )
        smallest = min(grid.spacing_mm)
        z, y, x = ((smallest / spacing) ** 2 for spacing in grid.spacing_mm)
        self.scales_sq = (z * depth_weight**2, y, x)
        # Neighbours along an axis lie so far apart in memory: all axes are differences of one flat row.
        self.strides = (grid.shape[1] * grid.shape[2], grid.shape[2], 1)

    def of(self, volume: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the differences along z, y and x, without their weights: (z, y, x) each."""
        volume = volume.contiguous()
        flat = volume.view(-1)
        parts = []
        for axis, stride in enumerate(self.strides):
            part = torch.empty_like(volume)
            n = flat.numel() - stride
            torch.sub(flat[stride:], flat[:n], out=part.view(-1)[:n])
            # What the flat row runs on to is the next row's or slice's beginning, no neighbour.
            part.select(axis, -1).zero_()
            parts.append(part)
        return tuple(parts)

    def transposed(self, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return `sum over axes of s D^T q`, q being zero at the far edges, as `of` leaves it."""
        total = torch.zeros_like(parts[0])
        flat = total.view(-1)
        for part, stride, scale_sq in zip(parts, self.strides, self.scales_sq, strict=True):
            row, n = part.view(-1), flat.numel() - stride
            flat[:n].sub_(row[:n], alpha=scale_sq)
            flat[stride:].add_(row[:n], alpha=scale_sq)
        return total
