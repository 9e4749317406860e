"""Volumes as cubic splines: coefficients to samples at the voxels' centres."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import spline_kernels
from duotomo.operators.linear import LinearOperator

THICKEST = 2.0
"""Slices thicker than this many times the voxels' other edges stay as they are."""


class SplineBasis(LinearOperator):
    """`B c`: the cubic spline with coefficients c, sampled at the voxels' centres.

    Along each axis `(c[i - 1] + 4 c[i] + c[i + 1]) / 6`, with zeros beyond the grid; symmetric, so the
    adjoint is the operator itself. The spline is smooth at the scale of a voxel: its samples mean the same
    function on a grid that is turned, shifted or stretched by a motion, which those of a volume with detail
    of the size of a voxel do not. Slices that are thick compared with the voxels' other edges, as clinical
    ones are, are not smoothed along z: rays that lean see along them what the detector resolves.

    Parameters
    ----------
    grid : VolumeGrid
        Of the coefficients and of the samples, (z, y, x).

    Examples
    --------
    >>> B = SplineBasis(VolumeGrid.on_detector((3, 3, 3), (1.0, 1.0, 1.0)))
    >>> one = torch.zeros(3, 3, 3)
    >>> one[1, 1, 1] = 216.0
    >>> B(one)[1].tolist()
    [[4.0, 16.0, 4.0], [16.0, 64.0, 16.0], [4.0, 16.0, 4.0]]
    """

    domain_axes = range_axes = ("z", "y", "x")
    domain_name, range_name = "coefficients", "volume"

    def __init__(self, grid: VolumeGrid) -> None:
        self.grid = grid
        self.domain = self.range = grid.shape
        d_z, d_y, d_x = grid.spacing_mm
        self._depth = d_z <= THICKEST * max(d_y, d_x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        samples: torch.Tensor = spline_kernels(x.device).sample(x, depth=self._depth)
        return samples

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)
