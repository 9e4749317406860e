"""Planar resampling on the CPU, in Numba. See `reference` for what it computes.

The transpose gathers as well: each pixel of the other plane looks for the boxes that reach it. So both
directions write every value once, in a fixed order.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from numba import njit

from duotomo.kernels.compiled import compiled
from duotomo.kernels.planar.reference import Floats
from duotomo.kernels.threads import share

STEPS = 10.0
"""About how long a pixel takes, in ns."""


def resample(other: torch.Tensor, out: torch.Tensor, homography: Floats) -> None:
    """Write to `out`, (v, u), the mean of `other`, (row, column), over the image of each pixel."""
    share(partial(_resample, other.numpy(), out.numpy(), homography), len(out), steps=STEPS * out.numel())


def spread(image: torch.Tensor, other: torch.Tensor, homography: Floats, inverse: Floats, reach: int) -> None:
    """Write to `other`, (row, column), the transpose of `resample` applied to `image`, (v, u).

    inverse: the homography back. reach: how far, in pixels, the boxes that reach a point may be centred from
    that point's own image.
    """
    call = partial(_spread, image.numpy(), other.numpy(), homography, inverse, reach)
    share(call, len(other), steps=STEPS * other.numel())


@njit(inline="always")
def _box(homography, v, u):
    a = homography[0, 0] * v + homography[0, 1] * u + homography[0, 2]
    b = homography[1, 0] * v + homography[1, 1] * u + homography[1, 2]
    c = homography[2, 0] * v + homography[2, 1] * u + homography[2, 2]
    row, column = a / c, b / c
    height = (
        abs(homography[0, 0] - row * homography[2, 0]) + abs(homography[0, 1] - row * homography[2, 1])
    ) / abs(c)
    width = (
        abs(homography[1, 0] - column * homography[2, 0]) + abs(homography[1, 1] - column * homography[2, 1])
    ) / abs(c)
    return row, column, height, width


@njit(inline="always")
def _share(center, size, cell):
    overlap = min(center + size / 2, cell + 1.0) - max(center - size / 2, float(cell))
    return max(overlap, 0.0) / size


@compiled
def _resample(other, out, homography, begin, end):
    n_rows, n_columns = other.shape
    for v in range(begin, end):
        for u in range(out.shape[1]):
            row, column, height, width = _box(homography, float(v), float(u))
            total = 0.0
            for r in range(
                max(0, math.floor(row - height / 2)), min(n_rows, math.floor(row + height / 2) + 1)
            ):
                inner = 0.0
                for c in range(
                    max(0, math.floor(column - width / 2)),
                    min(n_columns, math.floor(column + width / 2) + 1),
                ):
                    inner += _share(column, width, c) * other[r, c]
                total += _share(row, height, r) * inner
            out[v, u] = total


@compiled
def _spread(image, other, homography, inverse, reach, begin, end):
    n_v, n_u = image.shape
    for r in range(begin, end):
        for c in range(other.shape[1]):
            v0, u0, _, _ = _box(inverse, r + 0.5, c + 0.5)
            total = 0.0
            for v in range(max(0, round(v0) - reach), min(n_v, round(v0) + reach + 1)):
                for u in range(max(0, round(u0) - reach), min(n_u, round(u0) + reach + 1)):
                    row, column, height, width = _box(homography, float(v), float(u))
                    total += _share(row, height, r) * _share(column, width, c) * image[v, u]
            other[r, c] = total
