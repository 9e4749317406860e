"""The score of a change of some shape at every voxel, in units of its standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from duotomo.change.templates import Template
from duotomo.geometry import VolumeGrid

DRAWN_MM, LOCAL_MM = 6.0, 12.0
"""Windows in which variances are averaged: of the draws, and of the scores themselves."""

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

    The variance is that of draws, averaged over places near by, times the squared scores about each place:
    draws tell where rays disagree, and scores by how much.

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
    drawn = torch.ones_like(along)
    if draws is not None:
        drawn = _mean_about(correlated(draws, kernel).square().mean(dim=0), inside, DRAWN_MM, grid)
    raw = along / drawn.sqrt()
    typical = (raw[stated].abs().median() / _TO_NORMAL).clamp(min=1e-30)
    clipped = raw.clamp(-CLIP * typical, CLIP * typical)
    about = _mean_about(clipped.square(), inside, LOCAL_MM, grid).clamp(min=LEAST_LOCAL * typical**2)
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


def _mean_about(
    values: torch.Tensor, inside: torch.Tensor, width_mm: float, grid: VolumeGrid
) -> torch.Tensor:
    """Return the mean of values over a Gaussian window, of voxels inside alone."""
    total = _blurred(values * inside, width_mm, grid)
    return (total / _blurred(inside, width_mm, grid).clamp(min=1e-3)).clamp(min=1e-30)


def _blurred(values: torch.Tensor, width_mm: float, grid: VolumeGrid) -> torch.Tensor:
    for axis, edge_mm in enumerate(grid.spacing_mm):
        width = width_mm / edge_mm
        reach = max(1, round(3 * width))
        steps = torch.arange(-reach, reach + 1, device=values.device, dtype=values.dtype)
        window = torch.exp(-0.5 * (steps / max(width, 0.3)) ** 2)
        rows = values.movedim(axis, -1)
        flat = rows.reshape(-1, 1, rows.shape[-1])
        blurred = torch.nn.functional.conv1d(flat, (window / window.sum())[None, None], padding=reach)
        values = blurred.reshape(rows.shape).movedim(-1, axis)
    return values
