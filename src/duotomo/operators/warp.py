"""Resampling of a volume through a map of points, and its exact transpose."""

from __future__ import annotations

from typing import Any

import torch

from duotomo.kernels.dispatch import warp_kernels
from duotomo.kernels.warp.point_map import PointMap
from duotomo.operators.derivatives import Tensors
from duotomo.operators.linear import LinearOperator


class Warp(LinearOperator):
    """`T`: a reference volume resampled to the moving frame, `(T f)(x) = f(T(x))`.

    f is interpolated linearly between voxel centres, or by Keys' cubic convolution, with zeros in all voxels
    beyond the grid. The transpose spreads each value to the voxels that it was read from, with the same
    weights. On a GPU it adds in no fixed order, unless `torch.use_deterministic_algorithms` is on.

    Usually made by `Transform.warp`; gradients then reach its parameters. A pickled warp keeps the values of
    the map, not where they come from.

    Parameters
    ----------
    point_map : PointMap
        From moving to reference voxel indices.
    domain, range : tuple of int
        Shapes, (z, y, x), of the reference grid and of the moving grid.
    cubic : bool
        Whether to interpolate by cubic convolution instead of linearly.
    tensors : tuple of torch.Tensor, optional
        Matrices and coefficients of the map, in which derivatives are asked for.

    Examples
    --------
    >>> half = torch.eye(3, 4, dtype=torch.float64)[None]
    >>> half[0, 2, 3] = 0.5
    >>> T = Warp(PointMap(matrices=half), domain=(1, 1, 4), range=(1, 1, 4))
    >>> T(torch.tensor([[[0.0, 2.0, 4.0, 0.0]]])).tolist()
    [[[1.0, 3.0, 2.0, 0.0]]]
    """

    domain_axes = range_axes = ("z", "y", "x")
    domain_name, range_name = "volume", "warped volume"

    def __init__(
        self,
        point_map: PointMap,
        *,
        domain: tuple[int, int, int],
        range: tuple[int, int, int],
        cubic: bool = False,
        tensors: Tensors = (),
    ) -> None:
        self.point_map, self.cubic, self._tensors = point_map, cubic, tensors
        self.domain, self.range = domain, range

    @property
    def tensors(self) -> Tensors:
        return self._tensors

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warped = x.new_empty(x.shape[0], *self.range)
        for volume, out in zip(x, warped, strict=True):
            warp_kernels(x.device).gather(volume, out, self.point_map, cubic=self.cubic)
        return warped

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        volumes = y.new_empty(y.shape[0], *self.domain)
        for image, volume in zip(y, volumes, strict=True):
            warp_kernels(y.device).spread(image, volume, self.point_map, cubic=self.cubic)
        return volumes

    def pull_back(self, x: torch.Tensor, cotangent: torch.Tensor) -> Tensors:
        totals = tuple(torch.zeros_like(t) for t in (self.point_map.matrices, *self.point_map.coefficients))
        for volume, image in zip(x, cotangent, strict=True):
            d_matrices, d_coefficients = warp_kernels(x.device).pull_back(
                volume, image, self.point_map, cubic=self.cubic
            )
            for total, part in zip(totals, (d_matrices, *d_coefficients), strict=True):
                total += part.to(total)
        return totals

    def along(self, x: torch.Tensor, tangents: Tensors) -> torch.Tensor:
        d_matrices, *d_coefficients = tangents
        change = PointMap(
            matrices=d_matrices, coefficients=tuple(d_coefficients), degrees=self.point_map.degrees
        )
        images = x.new_empty(x.shape[0], *self.range)
        for volume, image in zip(x, images, strict=True):
            warp_kernels(x.device).differentiate(volume, image, self.point_map, change, cubic=self.cubic)
        return images

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tensors": ()}
