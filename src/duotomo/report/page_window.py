"""The grey values that a page shows first: those of tissue, whatever skin and edges are like."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.change.silent import SKIN_MM, depth_mm
from duotomo.geometry import VolumeGrid
from duotomo.report.page_change import nearest

Floats = NDArray[np.float32]

MOST_VOXELS = 400_000
"""That the breast is looked for in: its border is smooth."""

TISSUE, STRONGEST = (0.02, 0.998), 0.998
"""Shares of the values inside the breast: the darkest and brightest that count, and of differences."""


def inside_breast(values: Floats, grid: VolumeGrid) -> NDArray[np.bool_]:
    """Return which voxels, (z, y, x), are inside the breast, away from its skin.

    >>> grid = VolumeGrid.on_detector((20, 20, 20), (2.0, 2.0, 2.0))
    >>> inside = inside_breast(np.ones(grid.shape, np.float32), grid)
    >>> bool(inside[10, 10, 10]), bool(inside[10, 10, 0]), bool(inside[10, 0, 10])
    (True, False, True)
    """
    factor = 1
    while grid.coarsen((factor, factor, factor)).n_voxels > MOST_VOXELS:
        factor += 1
    coarse = grid.coarsen((factor, factor, factor))
    pooled = torch.nn.functional.avg_pool3d(
        torch.from_numpy(values)[None], factor, ceil_mode=True, count_include_pad=False
    )[0]
    inside: NDArray[np.bool_] = nearest(depth_mm(pooled, coarse) >= SKIN_MM, coarse, grid).numpy()
    return inside


def tissue_window(values: Floats, inside: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the values drawn black and white; fat is not black, and dense tissue is not white.

    >>> values = np.linspace(0, 1, 1001, dtype=np.float32)
    >>> low, high = tissue_window(values, values > 0.5)
    >>> skin = (0.4 < values) & (values < 0.5)
    >>> tissue_window(np.where(skin, np.float32(9.0), values), values > 0.5) == (low, high)
    True
    """
    body = sample(values[inside] if inside.any() else values)
    dark, bright = (float(q) for q in np.quantile(body, TISSUE))
    low, high = dark - 0.4 * (bright - dark), bright + 0.1 * (bright - dark)
    low = max(low, float(sample(values).min()))
    return (low, high) if low < high else (low, low + 1.0)


def widest_difference(difference: Floats, counts: NDArray[np.bool_]) -> float:
    """Return what hardly any difference exceeds among the voxels that count; 0 if none does."""
    chosen = np.abs(sample(difference[counts]))
    return float(np.quantile(chosen, STRONGEST)) if chosen.size else 0.0


def sample(*arrays: Floats) -> Floats:
    """Return at most some million of the values, spread evenly: quantiles need no more."""
    flat = [array.reshape(-1) for array in arrays]
    return np.concatenate([one[:: max(1, one.size // 1_000_000)] for one in flat])
