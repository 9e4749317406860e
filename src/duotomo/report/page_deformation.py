"""The deformation of a page: T^-1 and its determinants on a lattice, small enough to send along."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import world_to_voxel
from duotomo.io import SavedUncertainty
from duotomo.transforms import Motion, invert_points

MOST_POINTS = 32
"""Of the lattice along an axis: deformations are smooth."""
TOLERANCE_MM = 0.01

Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class PageDeformation:
    """Numbers at the points of a lattice that spans the reference grid's box, faces included.

    shape, spacing_mm, first_mm: of the lattice, xyz. fields: (4, z, y, x), float32: `T^-1(r)` in mm, xyz,
    then log2 of the volume that tissue has in the reference, per volume in the prior. NaN where T has no
    inverse.
    """

    shape: tuple[int, int, int]
    spacing_mm: Point
    first_mm: Point
    fields: NDArray[np.float32] = field(repr=False)

    @property
    def before_mm(self) -> torch.Tensor:
        """`T^-1(r)` at the points of the lattice, (point, xyz), float64; NaN where there is none."""
        return torch.from_numpy(self.fields[:3].reshape(3, -1).T.astype(np.float64))

    def packed(self) -> bytes:
        """Return the fields, little-endian, compressed."""
        return packed_floats(self.fields)


def page_deformation(motion: Motion, grid: VolumeGrid) -> PageDeformation:
    """Return T^-1 and the determinants of T in the reference frame, on a lattice over the grid.

    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0))
    >>> shift = Translation(grid)
    >>> found = page_deformation(Motion(shift, shift.params(translation_mm=(3.0, 0.0, 0.0))), grid)
    >>> found.first_mm, found.fields[:, 0, 0, 0].tolist()
    ((-2.0, 0.0, 0.0), [-5.0, 0.0, 0.0, 0.0])
    """
    points, shape, spacing_mm, first_mm = lattice_over(grid, MOST_POINTS)
    before = invert_points(motion, points, tolerance_mm=TOLERANCE_MM, max_steps=30)
    determinants = torch.linalg.det(motion.jacobian(before.xyz_mm).detach())
    log2 = torch.log2(determinants.clamp_min(1e-6))
    fields = torch.cat([before.xyz_mm.detach().T, log2[None]])
    lost = (before.residual_mm > 10 * TOLERANCE_MM) | (determinants <= 0)
    fields[:, lost] = math.nan
    return PageDeformation(
        shape=shape,
        spacing_mm=spacing_mm,
        first_mm=first_mm,
        fields=fields.reshape(4, *shape[::-1]).float().numpy(),
    )


def lattice_over(grid: VolumeGrid, most: int) -> tuple[torch.Tensor, tuple[int, int, int], Point, Point]:
    """Return a lattice that spans a grid's box, faces included: points, shape, spacing and the first of them.

    The points are (point, xyz), x fastest, and the rest xyz. most: points along an axis.
    """
    counts = [max(2, min(most, n + 1)) for n in grid.shape]
    ends = list(zip(grid.low_mm, grid.high_mm, counts, strict=True))
    along = [torch.linspace(low, high, n, dtype=torch.float64) for low, high, n in ends]
    z, y, x = torch.meshgrid(*along, indexing="ij")
    points = torch.stack([x, y, z], dim=-1).reshape(-1, 3)
    steps = [(high - low) / (n - 1) for low, high, n in ends]
    return (
        points,
        (counts[2], counts[1], counts[0]),
        (steps[2], steps[1], steps[0]),
        (grid.low_mm[2], grid.low_mm[1], grid.low_mm[0]),
    )


def page_deviations(known: SavedUncertainty, deformation: PageDeformation) -> bytes | None:
    """Return the standard deviations of a motion at the points of its deformation's lattice, compressed.

    (3, z, y, x), float32, little-endian: along x, y and z, in mm, where the point of the moving frame lies
    that is seen there. NaN where the motion is not determined or has no inverse; None without a map.
    """
    if known.map_mm is None or known.grid is None:
        return None
    before = deformation.before_mm
    values = nearest(known.map_mm.movedim(0, -1), known.grid, before.nan_to_num(nan=0.0))
    values[before.isnan().any(dim=1)] = torch.nan
    return packed_floats(values.T.numpy())


def nearest(values: torch.Tensor, grid: VolumeGrid, points: torch.Tensor) -> torch.Tensor:
    """Return of a map, (z, y, x, ...), what is nearest to points, (point, xyz), also to those beyond it."""
    index = np.rint(world_to_voxel(grid, points.numpy()))
    z, y, x = np.clip(index, 0, np.array(grid.shape) - 1).astype(np.int64).T
    return values[z, y, x].clone()


def packed_floats(fields: NDArray[np.float32]) -> bytes:
    """Return fields, little-endian, compressed."""
    return gzip.compress(fields.astype("<f4").tobytes(), mtime=0)
