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

NEAR_MM = 8.0
"""Width of the window for variances by displacements, which the volume's edges have and a change has not."""

QUANTILE = 0.98
"""Squared scores count up to this quantile where weights are sought."""

CLIP = 3.0
"""Scores count in the variance about them up to so many typical deviations: a change is no noise."""

LEAST_LOCAL = 0.3
"""Variance about a place, of the typical one, at least."""

_TO_NORMAL = 0.6745
"""Median of the absolute value of a normal variable."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """Slopes along a change of each voxel that visits without a change may have, (draw, z, y, x).

    Parameters
    ----------
    rays : torch.Tensor
        By residuals that were drawn anew.
    motion : torch.Tensor
        By displacements of the tissue.
    """

    rays: torch.Tensor = field(repr=False)
    motion: torch.Tensor = field(repr=False)


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
    template: Template, slope: torch.Tensor, draws: Draws | None, stated: torch.Tensor, grid: VolumeGrid
) -> Score:
    """Return the scores of a template.

    The variance is a sum of that of residuals drawn anew and that of tissue which is not where it should be,
    with the weights that explain the squared scores best; then times the squared scores about a place. What
    lies in line with it does not count for it.

    Parameters
    ----------
    template : Template
        Its shape.
    slope : torch.Tensor
        Along a change of each voxel, (z, y, x).
    draws : Draws, optional
        The same of what visits that did not change may differ by; alike everywhere unless given.
    stated : torch.Tensor
        (z, y, x), bool: voxels that count.
    grid : VolumeGrid
        Of all.
    """
    kernel, inside = template.contrast(grid).to(slope), stated.to(slope)
    along = correlated(slope, kernel)
    about = _window(ABOUT_MM, template.size_mm / 2 + BEYOND_MM, grid).to(slope)
    drawn = torch.ones_like(along)
    if draws is not None:
        of_rays, of_motion = (_mean_square(one, kernel) for one in (draws.rays, draws.motion))
        near = _window(NEAR_MM, 0.0, grid).to(slope)
        drawn = _explaining(
            along.square(), [_mean(of_rays, inside, about), _mean(of_motion, inside, near)], stated
        )
    raw = along / drawn.sqrt()
    typical = (raw[stated].abs().median() / _TO_NORMAL).clamp(min=1e-30)
    clipped = raw.clamp(-CLIP * typical, CLIP * typical)
    scale = _mean(clipped.square(), inside, about).clamp(min=LEAST_LOCAL * typical**2)
    deviation = (drawn * scale).sqrt()
    return Score(template=template, z=along / deviation, deviation=deviation)


def _explaining(squares: torch.Tensor, parts: Sequence[torch.Tensor], stated: torch.Tensor) -> torch.Tensor:
    """Return the sum of parts, with weights that are not negative, which is nearest to some squares."""
    from scipy.optimize import nnls

    columns = torch.stack([part[stated] for part in parts], dim=1).double().cpu()
    means = columns.mean(dim=0).clamp(min=1e-300)
    columns = columns / means
    values = squares[stated].double().cpu()
    # A change is no noise: few voxels have it.
    values = values.clamp(max=float(values.sort().values[int(QUANTILE * (len(values) - 1))]))
    # The deviation of a square goes with its mean.
    scales = columns.sum(dim=1).clamp(min=1e-300)
    weights, _ = nnls((columns / scales[:, None]).numpy(), (values / scales).numpy())
    total = sum(float(w) / float(m) * part for w, m, part in zip(weights, means, parts, strict=True))
    assert isinstance(total, torch.Tensor)
    return total.clamp(min=1e-30)


def best(scores: Sequence[Score]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the score of the template that fits best at each voxel, and which that is, (z, y, x)."""
    stacked = torch.stack([one.z for one in scores])
    index = stacked.abs().argmax(dim=0)
    return stacked.gather(0, index[None])[0], index


def correlated(slopes: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Return the inner products of slopes, (..., z, y, x), with a kernel about each voxel; zero beyond."""
    axes = (-3, -2, -1)
    shape = [n + m for n, m in zip(slopes.shape[-3:], kernel.shape, strict=True)]
    product = torch.fft.rfftn(slopes, s=shape, dim=axes)
    product *= torch.fft.rfftn(kernel.flip(0, 1, 2), s=shape)
    full: torch.Tensor = torch.fft.irfftn(product, s=shape, dim=axes)
    for axis, n, m in zip(axes, slopes.shape[-3:], kernel.shape, strict=True):
        full = full.narrow(axis, m // 2, n)
    # A copy, for the margins are several times as large.
    return full.contiguous()


def _mean_square(slopes: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Return the mean over draws, one after the other, of squared inner products: spectra are large."""
    total = torch.zeros_like(slopes[0])
    for one in slopes:
        total += correlated(one, kernel).square()
    return total / len(slopes)


def _mean(values: torch.Tensor, inside: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    """Return the mean of values inside over a window about each voxel."""
    total, weight = correlated(values * inside, window), correlated(inside, window)
    return (total / weight.clamp(min=1e-3)).clamp(min=1e-30)


def _window(width_mm: float, hole_mm: float, grid: VolumeGrid) -> torch.Tensor:
    """Return a Gaussian window, (z, y, x), odd edges, with a hole along z, whose sum is 1."""
    axes = []
    for edge_mm in grid.spacing_mm:
        reach = max(1, round(2.5 * width_mm / edge_mm))
        axes.append(torch.arange(-reach, reach + 1, dtype=torch.float64) * edge_mm)
    z, y, x = axes
    in_plane = y[:, None] ** 2 + x**2
    decay = torch.exp(-0.5 * (z[:, None, None] ** 2 + in_plane) / width_mm**2)
    window = decay * (in_plane >= hole_mm**2)
    return window / window.sum()
