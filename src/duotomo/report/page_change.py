"""The maps of what changed, small enough for a page: scores in 16 bits, and where nothing is said."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.change import Change
from duotomo.geometry import VolumeGrid

SCORE_STEP = 0.1
"""Of stored scores: a page shows them with one decimal."""
NO_SCORE = int(np.iinfo(np.int16).min)


@dataclass(frozen=True, kw_only=True, eq=False)
class PageMaps:
    """Maps on the grid of a page's volumes.

    scores: (z, y, x), int16, in steps of `SCORE_STEP`; NO_SCORE where nothing is said. silent: (z, y, x),
    uint8: a `Silent`.
    """

    scores: NDArray[np.int16] = field(repr=False)
    silent: NDArray[np.uint8] = field(repr=False)

    def packed_scores(self) -> bytes:
        """Return the scores, little-endian, compressed."""
        return gzip.compress(self.scores.astype("<i2").tobytes(), mtime=0)

    def packed_silent(self) -> bytes:
        """Return why nothing is said, compressed."""
        return gzip.compress(self.silent.tobytes(), mtime=0)


def page_maps(change: Change, grid: VolumeGrid, factors: tuple[int, int, int]) -> PageMaps:
    """Return the maps on a grid that is coarsened by factors (z, y, x).

    Of a block of voxels the score is the one farthest from zero; nothing is said of a block if it is not of
    all of its voxels, so that no part of the skin is left. Visits that were not compared have no scores.
    """
    silent = nearest(change.silent, change.grid, grid)
    z = nearest(change.z_map, change.grid, grid).float()
    unsaid = _highest(((silent != 0) | z.isnan()).float(), factors) > 0
    z = z.nan_to_num(nan=0.0)
    high, low = _highest(z, factors), -_highest(-z, factors)
    steps = torch.where(high >= -low, high, low) / SCORE_STEP
    stored = steps.round().clamp(NO_SCORE + 1, -NO_SCORE - 1)
    stored[unsaid | bool(change.reason)] = NO_SCORE
    codes = _highest(silent.float(), factors)
    return PageMaps(scores=stored.numpy().astype(np.int16), silent=codes.numpy().astype(np.uint8))


def nearest(values: torch.Tensor, own: VolumeGrid, grid: VolumeGrid) -> torch.Tensor:
    """Return of each voxel of a grid the value of the nearest one of their own grid."""
    picked = values.detach().cpu()
    for axis in range(3):
        centers = (
            grid.low_mm[axis]
            + (torch.arange(grid.shape[axis], dtype=torch.float64) + 0.5) * grid.spacing_mm[axis]
        )
        index = ((centers - own.low_mm[axis]) / own.spacing_mm[axis]).floor().long()
        picked = picked.index_select(axis, index.clamp(0, own.shape[axis] - 1))
    return picked


def _highest(values: torch.Tensor, factors: tuple[int, int, int]) -> torch.Tensor:
    """Return the maxima over blocks of voxels; the last ones of an axis may hold fewer."""
    return torch.nn.functional.max_pool3d(values[None], factors, stride=factors, ceil_mode=True)[0]
