"""Forward differences of a volume: what total variation and smoothness measure."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.operators.derivatives import Tensors
from duotomo.operators.linear import LinearOperator


class Gradient(LinearOperator):
    """`D f`: along each axis, `s (f[i + 1] - f[i])`, zero at the far edge.

    The weight `s = smallest spacing / spacing` makes a slope count alike along every axis; along z it is also
    multiplied by `depth_weight`. Divide by the smallest spacing for slopes per mm.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x): the domain. The range is ("zyx", z, y, x).
    depth_weight : float
        Factor of the differences along z, not negative.

    Raises
    ------
    DuotomoError
        If the depth weight is negative or not finite.

    Examples
    --------
    >>> D = Gradient(VolumeGrid.on_detector((2, 2, 3), (2.0, 1.0, 1.0)))
    >>> D.scales_sq
    (0.25, 1.0, 1.0)
    >>> D(torch.arange(12.0).reshape(2, 2, 3))[1].tolist()
    [[[3.0, 3.0, 3.0], [0.0, 0.0, 0.0]], [[3.0, 3.0, 3.0], [0.0, 0.0, 0.0]]]
    """

    domain_axes = ("z", "y", "x")
    range_axes = ("zyx", "z", "y", "x")
    domain_name, range_name = "volume", "gradient"

    def __init__(self, grid: VolumeGrid, *, depth_weight: float = 1.0) -> None:
        if not 0 <= depth_weight < math.inf:
            raise DuotomoError(
                f"Gradient: expected a finite depth_weight >= 0; got {depth_weight}. "
                f"Use 1 to weigh depth like the other axes."
            )
        self.grid, self.depth_weight = grid, depth_weight
        self.domain, self.range = grid.shape, (3, *grid.shape)
        smallest = min(grid.spacing_mm)
        z, y, x = ((smallest / spacing) ** 2 for spacing in grid.spacing_mm)
        self.scales_sq = (z * depth_weight**2, y, x)
        # Neighbours along an axis lie so far apart in memory: all axes are differences of one flat row.
        self._strides = (grid.shape[1] * grid.shape[2], grid.shape[2], 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gradients = x.new_empty(x.shape[0], *self.range)
        for volume, parts in zip(x, gradients, strict=True):
            self._write_differences(volume, parts)
            for part, scale_sq in zip(parts, self.scales_sq, strict=True):
                part *= math.sqrt(scale_sq)
        return gradients

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        volumes = y.new_zeros(y.shape[0], *self.domain)
        scales = [math.sqrt(scale_sq) for scale_sq in self.scales_sq]
        for parts, volume in zip(y.clone(), volumes, strict=True):
            for axis, part in enumerate(parts):
                part.select(axis, -1).zero_()
            self._add_transposed(tuple(parts), volume, scales)
        return volumes

    def unweighted(self, volume: torch.Tensor) -> Tensors:
        """Return the differences without their weights, which cost nothing where they can join others.

        Parameters
        ----------
        volume : torch.Tensor
            (z, y, x).

        Returns
        -------
        tuple of torch.Tensor
            Along z, y and x, (z, y, x) each; `D f` is each times the root of `scales_sq`.
        """
        parts = tuple(torch.empty_like(volume, memory_format=torch.contiguous_format) for _ in self._strides)
        self._write_differences(volume, parts)
        return parts

    def weighted_transpose(self, parts: Tensors) -> torch.Tensor:
        """Return `D^T q`, for q whose weights are left out as those of `unweighted` are.

        Parameters
        ----------
        parts : tuple of torch.Tensor
            q along z, y and x, (z, y, x) each, contiguous and zero at the far edges; each counts times the
            root of `scales_sq`.

        Returns
        -------
        torch.Tensor
            (z, y, x).
        """
        total = torch.zeros_like(parts[0])
        self._add_transposed(parts, total, self.scales_sq)
        return total

    def lengths(self, parts: Tensors, smoothing: float = 0.0) -> torch.Tensor:
        """Return `sqrt(|D f|^2 + e^2)` of each voxel.

        Parameters
        ----------
        parts : tuple of torch.Tensor
            What `unweighted` returns, (z, y, x) each.
        smoothing : float
            e, in the units of f.

        Returns
        -------
        torch.Tensor
            (z, y, x).
        """
        lengths = torch.full_like(parts[0], smoothing**2)
        for part, scale_sq in zip(parts, self.scales_sq, strict=True):
            lengths.addcmul_(part, part, value=scale_sq)
        return lengths.sqrt_()

    def _write_differences(self, volume: torch.Tensor, parts: Tensors | torch.Tensor) -> None:
        flat = volume.contiguous().view(-1)
        for axis, (part, stride) in enumerate(zip(parts, self._strides, strict=True)):
            n = flat.numel() - stride
            torch.sub(flat[stride:], flat[:n], out=part.view(-1)[:n])
            # What the flat row runs on to is the next row's or slice's beginning, no neighbour.
            part.select(axis, -1).zero_()

    def _add_transposed(
        self, parts: Tensors, total: torch.Tensor, factors: tuple[float, ...] | list[float]
    ) -> None:
        flat = total.view(-1)
        for part, stride, factor in zip(parts, self._strides, factors, strict=True):
            row, n = part.view(-1), flat.numel() - stride
            flat[:n].sub_(row[:n], alpha=factor)
            flat[stride:].add_(row[:n], alpha=factor)
