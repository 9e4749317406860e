"""Planar resampling on the GPU, in Triton. See `reference` for what it computes.

Both directions gather, so every value is written once and in a fixed order.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
import triton.language as tl

from duotomo.kernels.planar.reference import Floats, largest_box

BLOCK = 256


def resample(other: torch.Tensor, out: torch.Tensor, homography: Floats) -> None:
    """Write to `out`, (v, u), the mean of `other`, (row, column), over the image of each pixel."""
    size = float(largest_box(homography, (out.shape[0], out.shape[1])).max())
    # A box of length s touches at most floor(s) + 2 unit cells; 1 % for sizes between the corners.
    taps = math.floor(1.01 * size) + 2
    table = torch.from_numpy(np.ascontiguousarray(homography)).to(out.device)
    grid = (out.shape[0], triton.cdiv(out.shape[1], BLOCK))
    _resample[grid](other, out, table, *other.shape, out.shape[1], TAPS=taps, SIZE=BLOCK)


def spread(image: torch.Tensor, other: torch.Tensor, homography: Floats, inverse: Floats, reach: int) -> None:
    """Write to `other`, (row, column), the transpose of `resample` applied to `image`, (v, u).

    inverse: the homography back. reach: how far, in pixels, the boxes that reach a point may be centred from
    that point's own image.
    """
    table = torch.from_numpy(np.stack([homography, inverse])).to(image.device)
    grid = (other.shape[0], triton.cdiv(other.shape[1], BLOCK))
    _spread[grid](image, other, table, *image.shape, other.shape[1], REACH=reach, SIZE=BLOCK)


@triton.jit
def _map(table, v, u):
    a = tl.load(table) * v + tl.load(table + 1) * u + tl.load(table + 2)
    b = tl.load(table + 3) * v + tl.load(table + 4) * u + tl.load(table + 5)
    c = tl.load(table + 6) * v + tl.load(table + 7) * u + tl.load(table + 8)
    return a / c, b / c, c


@triton.jit
def _box(table, v, u):
    row, column, c = _map(table, v, u)
    height = tl.abs(tl.load(table) - row * tl.load(table + 6)) + tl.abs(
        tl.load(table + 1) - row * tl.load(table + 7)
    )
    width = tl.abs(tl.load(table + 3) - column * tl.load(table + 6)) + tl.abs(
        tl.load(table + 4) - column * tl.load(table + 7)
    )
    return row, column, height / tl.abs(c), width / tl.abs(c)


@triton.jit
def _share(center, size, cell):
    overlap = tl.minimum(center + size / 2, cell + 1.0) - tl.maximum(center - size / 2, cell)
    return tl.maximum(overlap, 0.0) / size


@triton.jit(do_not_specialize=["n_rows", "n_columns", "n_u"])
def _resample(other, out, table, n_rows, n_columns, n_u, TAPS: tl.constexpr, SIZE: tl.constexpr):
    v = tl.program_id(0)
    u = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    row, column, height, width = _box(table, v.to(tl.float64), u.to(tl.float64))
    first_row = tl.floor(row - height / 2).to(tl.int32)
    first_column = tl.floor(column - width / 2).to(tl.int32)
    total = tl.zeros((SIZE,), dtype=tl.float64)
    for i in tl.static_range(TAPS):
        for j in tl.static_range(TAPS):
            r, c = first_row + i, first_column + j
            inside = (r >= 0) & (r < n_rows) & (c >= 0) & (c < n_columns) & (u < n_u)
            value = tl.load(other + r * n_columns + c, mask=inside, other=0.0)
            total += _share(row, height, r.to(tl.float64)) * _share(column, width, c.to(tl.float64)) * value
    tl.store(out + v * n_u + u, total.to(out.dtype.element_ty), mask=u < n_u)


@triton.jit(do_not_specialize=["n_v", "n_u", "n_columns"])
def _spread(image, other, table, n_v, n_u, n_columns, REACH: tl.constexpr, SIZE: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    r_f, c_f = r.to(tl.float64), c.to(tl.float64)
    v_0, u_0, _ = _map(table + 9, r_f + 0.5, c_f + 0.5)
    nearest_v = tl.floor(v_0 + 0.5).to(tl.int32)
    nearest_u = tl.floor(u_0 + 0.5).to(tl.int32)
    total = tl.zeros((SIZE,), dtype=tl.float64)
    for i in tl.static_range(-REACH, REACH + 1):
        for j in tl.static_range(-REACH, REACH + 1):
            v, u = nearest_v + i, nearest_u + j
            row, column, height, width = _box(table, v.to(tl.float64), u.to(tl.float64))
            inside = (v >= 0) & (v < n_v) & (u >= 0) & (u < n_u) & (c < n_columns)
            value = tl.load(image + v * n_u + u, mask=inside, other=0.0)
            weight = _share(row, height, r_f) * _share(column, width, c_f)
            total += tl.where(inside, weight, 0.0) * value
    tl.store(other + r * n_columns + c, total.to(other.dtype.element_ty), mask=c < n_columns)
