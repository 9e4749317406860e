"""Where in a breast a point is, in words."""

from __future__ import annotations

import math

import numpy as np
import torch

from duotomo.change.finding import Xyz
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world

THIRDS = ("lower", "middle", "upper")


def nipple_mm(depth_mm: torch.Tensor, grid: VolumeGrid) -> Xyz | None:
    """Return the middle of what lies farthest from the chest wall, (x, y, z); None if there is no breast.

    depth_mm: distance to what is not breast, (z, y, x); zero outside.
    """
    inside = depth_mm > 0
    rows = inside.any(dim=2).any(dim=0).nonzero()
    if len(rows) == 0:
        return None
    farthest = int(rows[-1])
    k, i = inside[:, farthest].nonzero().double().mean(dim=0).tolist()
    x, y, z = voxel_to_world(grid, (k, farthest, i)).tolist()
    return x, y, z


def place_words(place_mm: Xyz, depth_mm: torch.Tensor, grid: VolumeGrid) -> str:
    """Return where a place is: from the nipple, along the tube's travel, and in depth.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((10, 10, 10), (5.0, 5.0, 5.0))
    >>> depth_mm = torch.zeros(10, 10, 10)
    >>> depth_mm[:, :8, 5] = 1.0
    >>> place_words((12.5, 17.5, 40.0), depth_mm, grid)
    '22 mm from the nipple, 20 mm behind it and 10 mm to +x; 40 mm above the detector, in the upper third'
    """
    nipple = nipple_mm(depth_mm, grid)
    x, y, z = place_mm
    if nipple is None:
        return f"{z:.0f} mm above the detector"
    behind, aside = nipple[1] - y, x - nipple[0]
    text = f"{math.hypot(behind, aside):.0f} mm from the nipple, {behind:.0f} mm behind it"
    if abs(aside) >= 0.5:
        text += f" and {abs(aside):.0f} mm to {'+x' if aside > 0 else '-x'}"
    slices = (depth_mm > 0).any(dim=2).any(dim=1).nonzero()
    low, high = (float(voxel_to_world(grid, (int(one), 0, 0))[2]) for one in (slices[0], slices[-1]))
    third = int(np.clip(3 * (z - low) / max(high - low, 1e-6), 0, 2))
    return f"{text}; {z:.0f} mm above the detector, in the {THIRDS[third]} third"
