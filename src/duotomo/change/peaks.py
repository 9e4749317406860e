"""Peaks of a map of scores, apart from each other."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid

Index = tuple[int, int, int]

APART_MM = (10.0, 6.0, 6.0)
"""Half the edges, along z, y and x, of the box about a peak that holds no other: views smear along z."""


def peaks(z_map: torch.Tensor, grid: VolumeGrid, threshold: float, most: int) -> list[Index]:
    """Return the voxels whose |z| is the largest about them and above a threshold, the largest first.

    Parameters
    ----------
    z_map : torch.Tensor
        (z, y, x); NaN where nothing is said.
    grid : VolumeGrid
        Of the map.
    threshold : float
        Of |z|.
    most : int
        How many, at most.

    Returns
    -------
    list of tuple of int
        (z, y, x).
    """
    size = torch.nan_to_num(z_map.abs(), nan=0.0)
    largest = size[None, None]
    for axis, (half_mm, edge_mm) in enumerate(zip(APART_MM, grid.spacing_mm, strict=True)):
        reach = max(1, round(half_mm / edge_mm))
        window, padding = [1, 1, 1], [0, 0, 0]
        window[axis], padding[axis] = 2 * reach + 1, reach
        largest = torch.nn.functional.max_pool3d(largest, window, stride=1, padding=padding)
    found = ((size == largest[0, 0]) & (size > threshold)).nonzero()
    order = size[tuple(found.T)].argsort(descending=True)[:most]
    return [(int(z), int(y), int(x)) for z, y, x in found[order].tolist()]
