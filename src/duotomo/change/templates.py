"""What a change may look like: spheres of some sizes, and a point as of calcifications."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.geometry import VolumeGrid

MOST_VOXEL_MM = 6.0
"""Longest edge of a voxel: in larger ones even the largest sphere is hardly more than one of them."""

Offset = tuple[float, float, float]

FINER = 8
"""Points along each edge of a voxel that tell how much of it a sphere fills."""

SHELL = 2.0
"""Radius, in radii, of the ball whose mean is taken off: what changes smoothly is no finding."""

LEAST_SHELL_MM = 6.0
"""The same radius at least, in mm."""


@dataclass(frozen=True, kw_only=True)
class Template:
    """A sphere of attenuation 1.

    Parameters
    ----------
    name : str
        For people.
    size_mm : float
        Diameter.
    """

    name: str
    size_mm: float

    def values(self, grid: VolumeGrid, offset: Offset = (0.0, 0.0, 0.0)) -> torch.Tensor:
        """Return the share of each voxel about the middle one that it fills, (z, y, x), odd edges.

        offset: of its centre from that of the middle voxel, (z, y, x), in voxels, up to a half.
        """
        return _ball(grid, self.size_mm / 2, self.size_mm / 2 + max(grid.spacing_mm) / 2, offset)

    def contrast(self, grid: VolumeGrid, offset: Offset = (0.0, 0.0, 0.0)) -> torch.Tensor:
        """Return the same, less its mean over a ball of twice the radius: its sum is zero."""
        reach_mm = max(SHELL * self.size_mm / 2, LEAST_SHELL_MM)
        inner, ball = (_ball(grid, radius_mm, reach_mm, offset) for radius_mm in (self.size_mm / 2, reach_mm))
        return inner - ball * (inner.sum() / ball.sum())


TEMPLATES = (
    Template(name="point, as of calcifications", size_mm=1.5),
    Template(name="sphere of 3 mm", size_mm=3.0),
    Template(name="sphere of 5 mm", size_mm=5.0),
    Template(name="sphere of 8 mm", size_mm=8.0),
    Template(name="sphere of 12 mm", size_mm=12.0),
)


def too_coarse(grid: VolumeGrid) -> str:
    """Return why no change can be looked for in voxels of a grid; empty if they are small enough.

    Examples
    --------
    >>> too_coarse(VolumeGrid.on_detector((4, 4, 4), (8.0, 2.0, 2.0)))
    'A change of at most 12 mm takes voxels with edges of at most 6 mm; there are edges of 8 mm.'
    """
    longest_mm, largest_mm = max(grid.spacing_mm), TEMPLATES[-1].size_mm
    if longest_mm <= MOST_VOXEL_MM:
        return ""
    return (
        f"A change of at most {largest_mm:g} mm takes voxels with edges of at most {MOST_VOXEL_MM:g} mm; "
        f"there are edges of {longest_mm:.3g} mm."
    )


def _ball(
    grid: VolumeGrid, radius_mm: float, reach_mm: float, offset: Offset = (0.0, 0.0, 0.0)
) -> torch.Tensor:
    """Return how much of each voxel a ball fills, on the voxels that a reach needs."""
    axes = []
    for edge_mm, shift in zip(grid.spacing_mm, offset, strict=True):
        half = math.ceil(reach_mm / edge_mm)
        steps = (torch.arange(FINER, dtype=torch.float64) + 0.5) / FINER - 0.5
        axes.append(((torch.arange(-half, half + 1)[:, None] + steps - shift) * edge_mm).flatten())
    z, y, x = axes
    inside = (z[:, None, None] ** 2 + y[:, None] ** 2 + x**2 <= radius_mm**2).float()
    shares = torch.nn.functional.avg_pool3d(inside[None, None], FINER)[0, 0]
    # Points do not fill a small ball exactly.
    return shares * (4 / 3 * math.pi * radius_mm**3 / (math.prod(grid.spacing_mm) * float(shares.sum())))
