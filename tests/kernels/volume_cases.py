"""Cases of the Triton kernels that work on whole volumes and rows, against obvious formulas."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from duotomo.geometry import VolumeGrid
from duotomo.kernels.secants import cpu as secants_cpu
from duotomo.kernels.spline import cpu as spline_cpu
from duotomo.objectives import Nonnegativity, TotalVariation

SHAPES = ((1, 1, 1), (2, 3, 5), (17, 5, 9), (33, 20, 31), (3, 1, 300), (2, 40, 1))
ROWS = ((1, 1), (1, 700), (3, 5), (5, 4101))

Errors = Iterator[tuple[str, float]]


def drawn(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Return normal numbers, float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the relative difference in L2; NaN where there is any."""
    return float((got.double().cpu() - expected).norm() / expected.norm().clamp(min=1e-300))


def volume_errors(dtype: torch.dtype, device: str) -> Errors:
    """Yield each case with its relative error."""
    yield from spline_errors(dtype, device)
    yield from prior_errors(dtype, device)
    yield from secant_errors(dtype, device)


def spline_errors(dtype: torch.dtype, device: str) -> Errors:
    """Yield those of splines, which are symmetric as well."""
    from duotomo.kernels.spline import gpu

    for shape in SHAPES:
        for depth in (False, True):
            given = drawn((2, *shape), 1).to(dtype)
            found = gpu.sample(given.to(device), depth=depth)
            expected = spline_cpu.sample(given.double(), depth=depth)
            yield f"spline, {shape}, {depth=}", relative(found, expected)


def prior_errors(dtype: torch.dtype, device: str) -> Errors:
    """Yield those of priors: value, and gradient added to what is there."""
    from duotomo.kernels.variation import gpu

    for shape in SHAPES:
        grid = VolumeGrid.on_detector(shape, (1.0, 0.5, 0.4))
        given, there = (drawn(shape, seed).to(dtype) for seed in (2, 3))
        prior, factor = TotalVariation(grid, smoothing=0.3, depth_weight=0.7), 1.7
        value, gradient = prior.value_and_gradient(given.double())
        total = there.to(device).clone()
        scales = prior.differences.scales_sq
        found = gpu.add_total_variation(given.to(device), total, scales, prior.smoothing, factor)
        yield f"variation, {shape}, gradient", relative(total, there.double() + factor * gradient)
        if value > 0:
            yield f"variation, {shape}, value", relative(found, torch.tensor(value, dtype=torch.float64))
        value, gradient = Nonnegativity(grid).value_and_gradient(given.double())
        total = there.to(device).clone()
        found = gpu.add_negative(given.to(device), total, factor)
        yield f"negative, {shape}, gradient", relative(total, there.double() + factor * gradient)
        yield f"negative, {shape}, value", relative(found, torch.tensor(value, dtype=torch.float64))


def secant_errors(dtype: torch.dtype, device: str) -> Errors:
    """Yield those of products and sums of rows."""
    from duotomo.kernels.secants import gpu

    for shape in ROWS:
        moved, changed = (drawn(shape, seed).to(dtype) for seed in (4, 5))
        one, other = (drawn(shape[1:], seed).to(dtype) for seed in (6, 7))
        along, scale = drawn((2, shape[0]), 8), 0.3
        # Apart, as rows are whose length is no multiple of 16.
        on_device = [
            functional.pad(each, (0, -shape[1] % 16)).to(device)[:, : shape[1]] for each in (moved, changed)
        ]
        wide = [each.double() for each in (moved, changed)]
        found = gpu.products(*on_device, one.to(device), other.to(device))
        yield (
            f"secants, {shape}, products",
            relative(found, secants_cpu.products(*wide, one.double(), other.double())),
        )
        total, expected = torch.full_like(one, torch.nan).to(device), torch.empty_like(one).double()
        gpu.combine(one.to(device), *on_device, along, scale, total)
        secants_cpu.combine(one.double(), *wide, along, scale, expected)
        yield f"secants, {shape}, sum", relative(total, expected)
