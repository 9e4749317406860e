"""The noise of projections apart from anatomy: photons counted, read in air and where the object is even."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from duotomo.geometry.binning import bin_projections

OBJECT = 0.01
"""Pixels above this part of the largest line integral lie behind the object."""

LOW, HIGH = 2, 6
"""Orders of the differences: both see white noise alike, the higher one less of the anatomy."""

_RATIO = 3.0
# Anatomy that is seen by differences of order 2 is seen by those of order 6 with a third of the variance:
# 2 to 3 on breasts binned to 2 to 4 mm, 6 at 1 mm, where little is left to be told apart.
_INSIDE = 0.05
# The same for means of pixels behind the object, where the noise is to be measured.
_LEAST, _BIN, _BINS = 500, 2000, 8
# Patches behind the object, and in a bin of line integrals if there are several, at least; bins, at most.
_AIR = 1000
# Patches in air, at least.
_PIXELS = 4_000_000
# Looked at, about: of larger scans some views are left out.
_ALIKE = 1.5
# Variances within this factor of each other are taken for equal.
_MASKED, _NEARLY_WHITE = 100.0, 2.0
# Air was replaced if its variance is lower by this factor, and the orders differ by less than that.
_SLOPE = 0.4
# Of log(variance) over p: 1 for counted photons, 0 for noise that is the same everywhere.
_MEDIAN_SQ = 0.45494
# The median of x^2 for a standard normal x.


@dataclass(frozen=True, kw_only=True)
class NoiseFit:
    """The noise's variance, `factor * shape`: shape is `1 / w`, `exp(p)` if `counted`, or 1 if not.

    `counted` is None where the data do not tell `exp(p)` from 1, and `exp(p)` is taken.
    """

    factor: float
    counted: bool | None


def fit_noise(values: torch.Tensor, used: torch.Tensor, weights: torch.Tensor | None) -> NoiseFit | None:
    """Fit the noise of projections; None if there are too few patches behind the object.

    values, used, weights: (view, v, u); used: which pixels count.
    """
    views = slice(None, None, max(1, math.ceil(values.numel() / _PIXELS)))
    values, used = values[views], used[views]
    weights = None if weights is None else weights[views]
    # By local means: pixels chosen by their own values would be those with one sign of the noise.
    behind = used & (_local_mean(values, 5) > _INSIDE * float(values.max()))
    if min(values.shape[1:]) <= HIGH or int(_whole(behind, HIGH).sum()) < _LEAST:
        return None
    ones = torch.ones_like(values)
    if weights is not None:
        shape = torch.where(used, weights, ones).reciprocal()
    else:
        shape = torch.where(used, values, torch.zeros_like(values)).exp_()
    object_, white = _of_object(values, behind, shape)
    air = _of_air(values, used, shape)
    if weights is not None:
        # Weights that are wrong in air say nothing about the object.
        alike = air is not None and air[0] <= _ALIKE * object_.least
        trusted = alike and air is not None and not (white and air[0] < object_.least / _MASKED)
        return NoiseFit(factor=air[1] if air is not None and trusted else object_.factor, counted=None)
    if air is None:
        counted = object_.grows
        if counted is False:
            return NoiseFit(factor=_of_object(values, behind, ones)[0].factor, counted=False)
        return NoiseFit(factor=object_.factor, counted=counted)
    if air[0] > _ALIKE * object_.least:
        # More noise in air than counting would leave there: it is not that of photons.
        same = _of_object(values, behind, ones)[0].factor
        return NoiseFit(factor=min(same, air[1]), counted=False)
    if white and air[0] < object_.least / _MASKED:
        # White noise behind the object that air does not have: air was masked, smoothed or saturated.
        return NoiseFit(factor=object_.factor, counted=object_.grows)
    return NoiseFit(factor=air[1], counted=True)


@dataclass(frozen=True, kw_only=True)
class _Object:
    """The variance behind the object in units of the shape.

    least: by the higher differences, in the quietest bin; factor: the same without anatomy, as far as the
    orders tell; grows: whether the variance grows with p as counting wants, None if p varies too little.
    """

    least: float
    factor: float
    grows: bool | None


def _of_object(values: torch.Tensor, behind: torch.Tensor, shape: torch.Tensor) -> tuple[_Object, bool]:
    """Return the variance behind the object, and whether it is white, in the quietest bin of p.

    Anatomy adds to the variance everywhere, and nowhere takes from it: the quietest bin is nearest.
    """
    middle, high = patch_squares(values, behind, shape, HIGH)
    lower_middle, low = patch_squares(values, behind, shape, LOW)
    n_bins = max(1, min(_BINS, len(high) // _BIN))
    order = middle.argsort()
    bins = [
        (float(middle[part].median()), float(high[part].median()) / _MEDIAN_SQ, part)
        for part in order.tensor_split(n_bins)
    ]
    least, quiet = min((variance, index) for index, (_, variance, _) in enumerate(bins))
    part = bins[quiet][2]
    inside = (lower_middle >= middle[part].min()) & (lower_middle <= middle[part].max())
    by_low = float(low[inside].median()) / _MEDIAN_SQ
    factor = least if by_low <= _ALIKE * least else max((_RATIO * least - by_low) / (_RATIO - 1), least / 4)
    # Not from the thinnest part, where the outline of the object counts.
    (p_some, some, _), (p_top, top, _) = bins[n_bins // 4], bins[-1]
    grows = None
    if p_top - p_some > math.log(2) and some > 0 and top > 0:
        # The squares were divided by exp(p): what is left has the slope less 1.
        grows = 1 + math.log(top / some) / (p_top - p_some) > _SLOPE
    return _Object(least=least, factor=factor, grows=grows), by_low <= _NEARLY_WHITE * least


def _of_air(values: torch.Tensor, used: torch.Tensor, shape: torch.Tensor) -> tuple[float, float] | None:
    """Return the variance in air, by the higher differences and as white noise of the same power, or None.

    Noise that neighbouring pixels share is stronger in the mean of a block than white noise would be: the
    largest of what pixels and blocks of 2 x 2 and 3 x 3 of them say is returned. None where there is too
    little air, or its values were replaced: cut off at zero, so that none is negative, or all the same.
    """
    near = (_local_mean(values, 5).abs() > 2 * OBJECT * float(values.max())).to(values)
    # Two pixels away from whatever is not air.
    near = torch.nn.functional.max_pool2d(near[:, None], 5, stride=1, padding=2)[:, 0]
    air = used & (near == 0)
    if int(_whole(air, HIGH).sum()) < _AIR or float((values[air] < 0).double().mean()) < 0.01:
        return None
    by_high = float(patch_squares(values, air, shape, HIGH)[1].median()) / _MEDIAN_SQ
    if by_high == 0:
        return None
    powers = []
    for factor in (1, 2, 3):
        binned = bin_projections(values, factor)
        whole = bin_projections(air.to(values), factor) > 1 - 1e-6
        if min(binned.shape[1:]) > LOW and int(_whole(whole, LOW).sum()) >= _AIR // factor**2:
            squares = patch_squares(binned, whole, bin_projections(shape, factor), LOW)[1]
            powers.append(factor**2 * float(squares.median()) / _MEDIAN_SQ)
    return by_high, max(powers)


def patch_squares(
    values: torch.Tensor, chosen: torch.Tensor, shape: torch.Tensor, order: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean of p, and `d^2 / E d^2` for noise of variance `shape`, of all patches chosen."""
    whole = _whole(chosen, order)
    difference = values.diff(n=order, dim=1).diff(n=order, dim=2)[whole]
    squared = [math.comb(order, j) ** 2 for j in range(order + 1)]
    expected = _along_both(shape, squared)[whole]
    mean = _along_both(values, [1 / (order + 1)] * (order + 1))[whole]
    return mean, difference.square_().div_(expected)


def _local_mean(values: torch.Tensor, n: int) -> torch.Tensor:
    """Return the means over n x n pixels, n odd, around each one; beyond the detector is zero."""
    return torch.nn.functional.avg_pool2d(values[:, None], n, stride=1, padding=n // 2)[:, 0]


def _whole(chosen: torch.Tensor, order: int) -> torch.Tensor:
    """Return which patches of `order + 1` pixels have all their pixels chosen."""
    for axis in (1, 2):
        n = chosen.shape[axis] - order
        together = chosen.narrow(axis, 0, n).clone()
        for j in range(1, order + 1):
            together &= chosen.narrow(axis, j, n)
        chosen = together
    return chosen


def _along_both(values: torch.Tensor, kernel: Sequence[float]) -> torch.Tensor:
    """Return the sums over patches, weighted by the kernel along v and along u."""
    for axis in (1, 2):
        n = values.shape[axis] - len(kernel) + 1
        total = kernel[0] * values.narrow(axis, 0, n)
        for j, factor in enumerate(kernel[1:], start=1):
            total.add_(values.narrow(axis, j, n), alpha=factor)
        values = total
    return values
