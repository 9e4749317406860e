"""Rows of steps and of changes on the GPU, in Triton: every row is read once for all of its products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 2048
"""Elements of each row that a program takes."""


def products(
    moved: torch.Tensor, changed: torch.Tensor, one: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """Return `s_i . a`, `r_i . a`, `s_i . b` and `r_i . b`, (4, row), float64.

    moved, changed: the rows s and r, (row, element), with zeros between them if they lie farther apart than
    they are long. one, other: a and b, (element,).
    """
    n, length = moved.shape
    assert moved.stride() == changed.stride()
    if n == 0:
        return one.new_empty(4, 0, dtype=torch.float64)
    n_programs = triton.cdiv(length, BLOCK)
    parts = one.new_empty(n_programs, 4, n)
    _products[(n_programs,)](
        moved, changed, one, other, parts, moved.stride(0), length, n, BLOCK=BLOCK, num_warps=8
    )
    return parts.sum(dim=0, dtype=torch.float64)


def combine(
    base: torch.Tensor,
    moved: torch.Tensor,
    changed: torch.Tensor,
    along: torch.Tensor,
    scale: float,
    total: torch.Tensor,
) -> None:
    """Write `-scale (base + sum of c_i r_i) + sum of d_i s_i` to `total`, (element,).

    along: c and d, (2, row), float64. `total` may be a row of `moved` whose d is zero.
    """
    n, length = moved.shape
    assert moved.stride() == changed.stride()
    factors = torch.cat([-scale * along[0], along[1], along.new_tensor([-scale])])
    factors = factors.to(base, non_blocking=True)
    _combine[(triton.cdiv(length, BLOCK),)](
        base, moved, changed, factors, total, moved.stride(0), length, n, BLOCK=BLOCK, num_warps=8
    )


@triton.jit(do_not_specialize=["length", "n"])
def _products(moved, changed, one, other, parts, stride, length, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # What lies between the end of a row and the next row is zero.
    inside, in_row = at < length, at < stride
    a = tl.load(one + at, mask=inside, other=0.0)
    b = tl.load(other + at, mask=inside, other=0.0)
    to = parts + tl.program_id(0) * (4 * n)
    s, r = moved + at, changed + at
    for i in range(n):
        step = tl.load(s, mask=in_row, other=0.0)
        change = tl.load(r, mask=in_row, other=0.0)
        tl.store(to + i, tl.sum(step * a, 0))
        tl.store(to + n + i, tl.sum(change * a, 0))
        tl.store(to + 2 * n + i, tl.sum(step * b, 0))
        tl.store(to + 3 * n + i, tl.sum(change * b, 0))
        s += stride
        r += stride


@triton.jit(do_not_specialize=["length", "n"])
def _combine(base, moved, changed, factors, total, stride, length, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside, in_row = at < length, at < stride
    value = tl.load(factors + 2 * n) * tl.load(base + at, mask=inside, other=0.0)
    s, r = moved + at, changed + at
    for i in range(n):
        value += tl.load(factors + i) * tl.load(r, mask=in_row, other=0.0)
        value += tl.load(factors + n + i) * tl.load(s, mask=in_row, other=0.0)
        s += stride
        r += stride
    tl.store(total + at, value, mask=inside)
