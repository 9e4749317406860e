"""Planar resampling on the CPU, in Numba. See `reference` for what it computes.

Forward, each pixel takes the mean over its box. The transpose hands each pixel out over its box: a task owns
a tile of the other plane, goes through the pixels whose boxes may reach it, in their order, and leaves out
what falls beside the tile. So every value is written by one task, in a fixed order.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from numba import njit

from duotomo.kernels.compiled import compiled
from duotomo.kernels.planar.reference import Floats
from duotomo.kernels.threads import share

STEPS = 10.0
"""About how long a pixel takes, in ns."""

TILE_ROWS, TILE_COLUMNS = 32, 128
"""Of a task: 32 KiB of sums, which stay in the first-level cache; and few pixels are seen by two tasks."""


def resample(other: torch.Tensor, out: torch.Tensor, homography: Floats) -> None:
    """Write to `out`, (v, u), the mean of `other`, (row, column), over the image of each pixel."""
    share(partial(_resample, other.numpy(), out.numpy(), homography), len(out), steps=STEPS * out.numel())


def spread(image: torch.Tensor, other: torch.Tensor, homography: Floats, inverse: Floats, reach: int) -> None:
    """Write to `other`, (row, column), the transpose of `resample` applied to `image`, (v, u).

    inverse: the homography back. reach: how far, in pixels, the boxes that reach a point may be centred from
    that point's own image.
    """
    call = partial(_spread, image.numpy(), other.numpy(), homography, inverse, reach)
    n_tiles = -(-other.shape[0] // TILE_ROWS) * -(-other.shape[1] // TILE_COLUMNS)
    share(call, n_tiles, steps=STEPS * other.numel())


@njit(inline="always")
def _box(homography, v, u):
    """Low and high ends of a pixel's box, and one over its area. Divisions are what costs: there are two."""
    a = homography[0, 0] * v + homography[0, 1] * u + homography[0, 2]
    b = homography[1, 0] * v + homography[1, 1] * u + homography[1, 2]
    scale = 1.0 / (homography[2, 0] * v + homography[2, 1] * u + homography[2, 2])
    row, column, half = a * scale, b * scale, abs(scale) / 2
    down = half * (
        abs(homography[0, 0] - row * homography[2, 0]) + abs(homography[0, 1] - row * homography[2, 1])
    )
    across = half * (
        abs(homography[1, 0] - column * homography[2, 0]) + abs(homography[1, 1] - column * homography[2, 1])
    )
    return row - down, row + down, column - across, column + across, 1.0 / (4 * down * across)


@njit(inline="always")
def _seen(inverse, low, high, first, last, axis):
    """Between which v, or u, the corners of a tile are seen: a homography keeps lines straight."""
    least, most = math.inf, -math.inf
    for r in (low, high):
        for c in (first, last):
            w = inverse[2, 0] * r + inverse[2, 1] * c + inverse[2, 2]
            at = (inverse[axis, 0] * r + inverse[axis, 1] * c + inverse[axis, 2]) / w
            least, most = min(least, at), max(most, at)
    return least, most


@njit(inline="always")
def _overlap(low, high, cell):
    return max(min(high, cell + 1.0) - max(low, float(cell)), 0.0)


@compiled
def _resample(other, out, homography, begin, end):
    n_rows, n_columns = other.shape
    for v in range(begin, end):
        for u in range(out.shape[1]):
            bottom, top, left, right, density = _box(homography, float(v), float(u))
            total = 0.0
            for r in range(max(0, math.floor(bottom)), min(n_rows, math.floor(top) + 1)):
                inner = 0.0
                for c in range(max(0, math.floor(left)), min(n_columns, math.floor(right) + 1)):
                    inner += _overlap(left, right, c) * other[r, c]
                total += _overlap(bottom, top, r) * inner
            out[v, u] = density * total


@compiled
def _spread(image, other, homography, inverse, reach, begin, end):
    n_v, n_u = image.shape
    n_rows, n_columns = other.shape
    tiles_across = -(-n_columns // TILE_COLUMNS)
    for tile in range(begin, end):
        low, first = tile // tiles_across * TILE_ROWS, tile % tiles_across * TILE_COLUMNS
        high, last = min(low + TILE_ROWS, n_rows), min(first + TILE_COLUMNS, n_columns)
        total = np.zeros((TILE_ROWS, TILE_COLUMNS))
        v_low, v_high = _seen(inverse, float(low), float(high), float(first), float(last), 0)
        u_low, u_high = _seen(inverse, float(low), float(high), float(first), float(last), 1)
        for v in range(max(0, math.floor(v_low) - reach), min(n_v, math.ceil(v_high) + reach + 1)):
            for u in range(max(0, math.floor(u_low) - reach), min(n_u, math.ceil(u_high) + reach + 1)):
                bottom, top, left, right, density = _box(homography, float(v), float(u))
                for r in range(max(low, math.floor(bottom)), min(high, math.floor(top) + 1)):
                    part = _overlap(bottom, top, r) * density * image[v, u]
                    for c in range(max(first, math.floor(left)), min(last, math.floor(right) + 1)):
                        total[r - low, c - first] += part * _overlap(left, right, c)
        other[low:high, first:last] = total[: high - low, : last - first]
