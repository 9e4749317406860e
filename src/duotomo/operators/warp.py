"""Resampling of a volume through a map of points, and its exact transpose."""

from __future__ import annotations

import torch

from duotomo.kernels.dispatch import warp_kernels
from duotomo.kernels.warp.point_map import PointMap
from duotomo.operators.linear import LinearOperator


class Warp(LinearOperator):
    """`T`: a reference volume seen in the moving frame, `(T f)(x) = f(T(x))`.

    f is interpolated linearly between voxel centres, or by Keys' cubic convolution, with zeros in all voxels
    beyond the grid. The transpose spreads each value to the voxels that it was read from, with the same
    weights. On a GPU it adds in no fixed order, unless `torch.use_deterministic_algorithms` is on.

    Usually made by `Transform.warp`. point_map: from moving to reference voxel indices. domain: the reference
    grid's shape. range: the moving grid's.

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
    ) -> None:
        self.point_map, self.cubic = point_map, cubic
        self.domain, self.range = domain, range

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
