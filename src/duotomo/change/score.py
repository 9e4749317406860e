"""The score of a change of some shape at every voxel, in units of its standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from duotomo.change.templates import Template
from duotomo.geometry import VolumeGrid

ABOUT_MM, BEYOND_MM = 12.0, 4.0
"""Width of the window that variances are averaged in, a standard deviation; and how far beyond a template's
radius its hole reaches: a change must not count as noise of its own."""

CLIP = 3.0
"""Scores count in the variance about them up to so many typical deviations: a change is no noise."""

LEAST_LOCAL = 0.3
"""Variance about a place, of the typical one, at least."""

_TO_NORMAL = 0.6745
"""Median of the absolute value of a normal variable."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """Scores of one template.

    Parameters
    ----------
    template : Template
        Its shape.
    z : torch.Tensor
        (z, y, x): the slope along the template at each voxel, over its standard deviation.
    deviation : torch.Tensor
        (z, y, x), of that slope.
    """

    template: Template
    z: torch.Tensor = field(repr=False)
    deviation: torch.Tensor = field(repr=False)


def score(
    template: Template,
    slope: torch.Tensor,
    draws: torch.Tensor | None,
    stated: torch.Tensor,
    grid: VolumeGrid,
) -> Score:
    """Return the scores of a template.

    The variance is that of draws, averaged over places near by, times the squared scores there: draws tell
    where rays disagree, and scores by how much. What lies in line with a place does not count for it.

    Parameters
    ----------
    template : Template
        Its shape.
    slope : torch.Tensor
        Along a change of each voxel, (z, y, x).
    draws : torch.Tensor, optional
        The same for residuals that were drawn, (draw, z, y, x); alike everywhere unless given.
    stated : torch.Tensor
        (z, y, x), bool: voxels that count.
    grid : VolumeGrid
        Of all.
    """
    kernel, inside = template.contrast(grid).to(slope), stated.to(slope)
    along = correlated(slope, kernel)
    drawn, hole_mm = torch.ones_like(along), template.size_mm / 2 + BEYOND_MM
    if draws is not None:
        drawn = _mean_about(correlated(draws, kernel).square().mean(dim=0), inside, hole_mm, grid)
    raw = along / drawn.sqrt()
    typical = (raw[stated].abs().median() / _TO_NORMAL).clamp(min=1e-30)
    clipped = raw.clamp(-CLIP * typical, CLIP * typical)
    about = _mean_about(clipped.square(), inside, hole_mm, grid).clamp(min=LEAST_LOCAL * typical**2)
    deviation = (drawn * about).sqrt()
    return Score(template=template, z=along / deviation, deviation=deviation)


def best(scores: Sequence[Score]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the score of the template that fits best at each voxel, and which that is, (z, y, x)."""
    stacked = torch.stack([one.z for one in scores])
    index = stacked.abs().argmax(dim=0)
    return stacked.gather(0, index[None])[0], index


def correlated(slopes: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Return the inner products of slopes, (..., z, y, x), with a kernel about each voxel; zero beyond."""
    axes = (-3, -2, -1)
    shape = [n + m for n, m in zip(slopes.shape[-3:], kernel.shape, strict=True)]
    product = torch.fft.rfftn(slopes, s=shape, dim=axes) * torch.fft.rfftn(kernel.flip(0, 1, 2), s=shape)
    full: torch.Tensor = torch.fft.irfftn(product, s=shape, dim=axes)
    for axis, n, m in zip(axes, slopes.shape[-3:], kernel.shape, strict=True):
        full = full.narrow(axis, m // 2, n)
    return full


def _mean_about(values: torch.Tensor, inside: torch.Tensor, hole_mm: float, grid: VolumeGrid) -> torch.Tensor:
    """Return the mean of values inside over a window about each voxel, without what is in line with it."""
    window = _window(hole_mm, grid).to(values)
    total, weight = correlated(values * inside, window), correlated(inside, window)
    return (total / weight.clamp(min=1e-3)).clamp(min=1e-30)


def _window(hole_mm: float, grid: VolumeGrid) -> torch.Tensor:
    """Return a Gaussian window, (z, y, x), odd edges, with a hole along z, whose sum is 1."""
    axes = []
    for edge_mm in grid.spacing_mm:
        reach = max(1, round(2.5 * ABOUT_MM / edge_mm))
        axes.append(torch.arange(-reach, reach + 1, dtype=torch.float64) * edge_mm)
    z, y, x = axes
    in_plane = y[:, None] ** 2 + x**2
    decay = torch.exp(-0.5 * (z[:, None, None] ** 2 + in_plane) / ABOUT_MM**2)
    window = decay * (in_plane >= hole_mm**2)
    return window / window.sum()
