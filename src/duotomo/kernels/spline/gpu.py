"""Cubic splines at the voxels' centres on the GPU, in Triton: one pass over the volume for all axes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 256
"""Voxels of a plane that a program follows."""
RUN = 16
"""Planes that it follows them through."""


def sample(coefficients: torch.Tensor, *, depth: bool) -> torch.Tensor:
    """Return the samples of splines, (volume, z, y, x), with zeros beyond the grid; depth: along z too."""
    coefficients = coefficients.contiguous()
    samples = torch.empty_like(coefficients)
    n_volumes, n_z, n_y, n_x = coefficients.shape
    grid = (triton.cdiv(n_y * n_x, BLOCK), triton.cdiv(n_z, RUN), n_volumes)
    _sample[grid](coefficients, samples, n_z, n_y, n_x, DEPTH=depth, RUN=RUN, BLOCK=BLOCK)
    return samples


@triton.jit
def _mixed(plane, flat, y, x, n_y, n_x, inside):
    """Return the samples along y and x of one plane."""
    left, right = x > 0, x < n_x - 1
    total = tl.zeros(flat.shape, plane.dtype.element_ty)
    for j in tl.static_range(3):
        there = inside & (y + (j - 1) >= 0) & (y + (j - 1) < n_y)
        line = plane + flat + (j - 1) * n_x
        row = tl.load(line, mask=there, other=0.0) * 4
        row += tl.load(line - 1, mask=there & left, other=0.0)
        row += tl.load(line + 1, mask=there & right, other=0.0)
        total += row * (4 if j == 1 else 1)
    return total / 36


@triton.jit(do_not_specialize=["n_z", "n_y", "n_x"])
def _sample(
    coefficients, samples, n_z, n_y, n_x, DEPTH: tl.constexpr, RUN: tl.constexpr, BLOCK: tl.constexpr
):
    flat = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, x = flat // n_x, flat % n_x
    inside = flat < n_y * n_x
    size = tl.cast(n_y, tl.int64) * n_x
    first = tl.program_id(1) * RUN
    start = (tl.program_id(2).to(tl.int64) * n_z + first) * size
    plane, to = coefficients + start, samples + start
    if DEPTH:
        before = _mixed(plane - size, flat, y, x, n_y, n_x, inside & (first > 0))
        here = _mixed(plane, flat, y, x, n_y, n_x, inside)
        for k in range(RUN):
            z = first + k
            after = _mixed(plane + size, flat, y, x, n_y, n_x, inside & (z + 1 < n_z))
            tl.store(to + flat, (before + 4 * here + after) / 6, mask=inside & (z < n_z))
            before, here = here, after
            plane += size
            to += size
    else:
        for k in range(RUN):
            there = inside & (first + k < n_z)
            tl.store(to + flat, _mixed(plane, flat, y, x, n_y, n_x, there), mask=there)
            plane += size
            to += size
