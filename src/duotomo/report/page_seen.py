"""Where a visit has no data: a difference there would show the border of its volume, not the breast."""

from __future__ import annotations

import gzip

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.report.page_deformation import PageDeformation

Mask = NDArray[np.bool_]

MOST_AIR = 0.01
"""Share of a voxel's value that may come from outside the visit's volume."""


def unseen_in_place(own: VolumeGrid, grid: VolumeGrid) -> Mask:
    """Return the voxels (z, y, x) of a grid that lie outside of a visit's own volume, in the same frame.

    >>> grid = VolumeGrid.on_detector((2, 4, 4), (1.0, 1.0, 1.0))
    >>> unseen_in_place(VolumeGrid.on_detector((2, 4, 2), (1.0, 1.0, 1.0)), grid)[0, 0].tolist()
    [True, False, False, True]
    """
    return _outside(own, np.moveaxis(voxel_centers_mm(grid), -1, 0))


def unseen_after_motion(own: VolumeGrid, deformation: PageDeformation, grid: VolumeGrid) -> Mask:
    """Return the voxels (z, y, x) of the reference grid at which a visit that was moved there has no data.

    own: the grid of the visit's own volume. deformation: over the box of `grid`.
    """
    fields = torch.from_numpy(deformation.fields[:3])[None]
    # The lattice spans the box with its faces, and voxels' centres lie half a voxel inside.
    along = [torch.arange(n, dtype=torch.float32).add(0.5).mul(2 / n).sub(1) for n in grid.shape]
    z, y, x = torch.meshgrid(*along, indexing="ij")
    places = torch.stack([x, y, z], dim=-1)[None]
    before = torch.nn.functional.grid_sample(fields, places, align_corners=True)[0]
    # What the motion folds onto each other has data, but no place.
    return _outside(own, before.numpy())


def packed_mask(mask: Mask) -> bytes:
    """Return a mask, a byte for each voxel, compressed."""
    return gzip.compress(mask.astype(np.uint8).tobytes(), mtime=0)


def _outside(own: VolumeGrid, xyz_mm: NDArray[np.floating]) -> Mask:
    """Return which points, (xyz, z, y, x), lie beyond the centres of a grid's outermost voxels."""
    outside = np.zeros(xyz_mm.shape[1:], dtype=np.bool_)
    for place_mm, low_mm, high_mm, spacing_mm in zip(
        xyz_mm[::-1], own.low_mm, own.high_mm, own.spacing_mm, strict=True
    ):
        # Beyond its last centre a volume fades out over one voxel; one of a single slice has no such border.
        inner_mm = (0.5 - MOST_AIR) * spacing_mm
        outside |= (place_mm < low_mm + inner_mm) | (place_mm > high_mm - inner_mm)
    return outside
