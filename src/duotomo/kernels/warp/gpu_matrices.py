"""Matrices applied to places, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def turn_row(matrices, k: tl.constexpr, c: tl.constexpr, z, y, x):
    m = matrices + 12 * k + 4 * c
    return tl.load(m) * z + tl.load(m + 1) * y + tl.load(m + 2) * x


@triton.jit
def turn(matrices, k: tl.constexpr, z, y, x):
    return (
        turn_row(matrices, k, 0, z, y, x),
        turn_row(matrices, k, 1, z, y, x),
        turn_row(matrices, k, 2, z, y, x),
    )


@triton.jit
def matrix_row(matrices, k: tl.constexpr, c: tl.constexpr, z, y, x):
    return turn_row(matrices, k, c, z, y, x) + tl.load(matrices + 12 * k + 4 * c + 3)


@triton.jit
def apply_matrix(matrices, k: tl.constexpr, z, y, x):
    t_z, t_y, t_x = turn(matrices, k, z, y, x)
    shift = matrices + 12 * k + 3
    return t_z + tl.load(shift), t_y + tl.load(shift + 4), t_x + tl.load(shift + 8)
