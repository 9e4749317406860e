"""Priors of a volume on the GPU, in Triton: value and gradient in one pass, added to one that is there."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl

BLOCK = 256
"""Voxels of a plane that a program takes."""

Scales = tuple[float, float, float]


def add_total_variation(
    volume: torch.Tensor, total: torch.Tensor, scales_sq: Scales, smoothing: float, factor: float
) -> torch.Tensor:
    """Add `factor` times the gradient of the smoothed total variation to `total`; return its value.

    volume, total: (z, y, x). scales_sq: of the squared differences along z, y and x. The value is a float64
    tensor without axes.
    """
    n_z, n_y, n_x = volume.shape
    grid = (triton.cdiv(n_y * n_x, BLOCK), n_z)
    parts = volume.new_empty(grid[0] * grid[1])
    numbers = _on_device((*scales_sq, smoothing * smoothing, factor), volume.device)
    _total_variation[grid](volume, total, parts, numbers, n_z, n_y, n_x, BLOCK=BLOCK)
    return parts.sum(dtype=torch.float64)


def add_negative(volume: torch.Tensor, total: torch.Tensor, factor: float) -> torch.Tensor:
    """Add `factor` times the negative values to `total`; return half the sum of their squares, float64."""
    n = volume.numel()
    n_programs = triton.cdiv(n, 4 * BLOCK)
    parts = volume.new_empty(n_programs)
    _negative[(n_programs,)](volume, total, parts, _on_device((factor,), volume.device), n, BLOCK=4 * BLOCK)
    return parts.sum(dtype=torch.float64)


@lru_cache(maxsize=64)
def _on_device(numbers: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Return numbers on a device in double precision, which arguments of a kernel do not have."""
    return torch.tensor(numbers, dtype=torch.float64).to(device)


@triton.jit
def _difference(line, step, there, here):
    """Return the difference to a neighbour, or zero where there is none."""
    return tl.where(there, tl.load(line + step, mask=there, other=0.0) - here, 0.0)


@triton.jit
def _slopes(line, size, n_x, there, in_z, in_y, in_x, s_z, s_y, s_x, e_sq):
    """Return the differences to the next voxels along z, y and x, and `sqrt(|D f|^2 + e^2)`."""
    here = tl.load(line, mask=there, other=0.0)
    d_z = _difference(line, size, there & in_z, here)
    d_y = _difference(line, n_x, there & in_y, here)
    d_x = _difference(line, 1, there & in_x, here)
    return d_z, d_y, d_x, tl.sqrt(s_z * d_z * d_z + s_y * d_y * d_y + s_x * d_x * d_x + e_sq)


@triton.jit(do_not_specialize=["n_z", "n_y", "n_x"])
def _total_variation(volume, total, parts, numbers, n_z, n_y, n_x, BLOCK: tl.constexpr):
    T: tl.constexpr = volume.dtype.element_ty
    s_z, s_y, s_x = tl.load(numbers).to(T), tl.load(numbers + 1).to(T), tl.load(numbers + 2).to(T)
    e_sq, factor = tl.load(numbers + 3).to(T), tl.load(numbers + 4).to(T)
    flat = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z, y, x = tl.program_id(1), flat // n_x, flat % n_x
    inside = flat < n_y * n_x
    size = tl.cast(n_y, tl.int64) * n_x
    at = z * size + flat
    line = volume + at
    in_z, in_y, in_x = z + 1 < n_z, y + 1 < n_y, x + 1 < n_x
    d_z, d_y, d_x, length = _slopes(line, size, n_x, inside, in_z, in_y, in_x, s_z, s_y, s_x, e_sq)
    gradient = -(s_z * d_z + s_y * d_y + s_x * d_x) / length
    # The voxels that have this one as their next, each with the length of its own differences.
    before = inside & (z > 0)
    d, _, _, other = _slopes(line - size, size, n_x, before, z > -1, in_y, in_x, s_z, s_y, s_x, e_sq)
    gradient += tl.where(before, s_z * d / other, 0.0)
    before = inside & (y > 0)
    _, d, _, other = _slopes(line - n_x, size, n_x, before, in_z, y > -1, in_x, s_z, s_y, s_x, e_sq)
    gradient += tl.where(before, s_y * d / other, 0.0)
    before = inside & (x > 0)
    _, _, d, other = _slopes(line - 1, size, n_x, before, in_z, in_y, x > -1, s_z, s_y, s_x, e_sq)
    gradient += tl.where(before, s_x * d / other, 0.0)
    tl.store(total + at, tl.load(total + at, mask=inside, other=0.0) + factor * gradient, mask=inside)
    # A flat volume has no variation, in any precision.
    value = tl.where(inside, length - tl.sqrt(e_sq), 0.0)
    tl.store(parts + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), tl.sum(value, 0))


@triton.jit(do_not_specialize=["n"])
def _negative(volume, total, parts, numbers, n, BLOCK: tl.constexpr):
    T: tl.constexpr = volume.dtype.element_ty
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    below = tl.minimum(tl.load(volume + at, mask=inside, other=0.0), 0.0)
    added = tl.load(numbers).to(T) * below
    tl.store(total + at, tl.load(total + at, mask=inside, other=0.0) + added, mask=inside)
    tl.store(parts + tl.program_id(0), tl.sum(below * below, 0) / 2)
