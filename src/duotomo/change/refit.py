"""A finding's size, contrast and place: a refit of the change at a peak of the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from duotomo.change.difference import Difference
from duotomo.change.finding import Interval, Xyz
from duotomo.change.peaks import Index
from duotomo.change.score import Score
from duotomo.change.templates import Offset
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world

DROP = 1.92
"""By how much the logarithm of the likelihood falls at the ends of an interval of 95 %."""

NORMAL = 1.96


@dataclass(frozen=True, kw_only=True, eq=False)
class Refit:
    """What was found at one peak.

    Parameters
    ----------
    template : int
        Which of the scores is largest.
    place_mm : tuple of float
        (x, y, z), between voxels.
    place_deviation_mm : tuple of float
        From the curvature of the likelihood.
    size_mm : float
        Diameter.
    size_interval_mm : tuple of float
        Of 95 %.
    contrast_per_mm : float
        Of a sphere of that size.
    contrast_interval_per_mm : tuple of float
        Of 95 %.
    smear_mm : float
        Length along z over which the slopes that it causes stay above half of their largest.
    change : torch.Tensor
        What it adds to the volume that both visits share, (z, y, x), in 1/mm.
    """

    template: int
    place_mm: Xyz
    place_deviation_mm: Xyz
    size_mm: float
    size_interval_mm: Interval
    contrast_per_mm: float
    contrast_interval_per_mm: Interval
    smear_mm: float
    change: torch.Tensor = field(repr=False)


def refit(difference: Difference, slope: torch.Tensor, scores: Sequence[Score], peak: Index) -> Refit:
    """Return what is at a peak: each template is put there, and the slopes compared with those it causes.

    Parameters
    ----------
    difference : Difference
        Of the visits.
    slope : torch.Tensor
        Along a change of each voxel, (z, y, x).
    scores : sequence of Score
        Of all templates.
    peak : tuple of int
        Voxel, (z, y, x).
    """
    grid = difference.grid
    z = torch.stack([one.z for one in scores])
    chosen = int(z[(slice(None), *peak)].abs().argmax())
    own = scores[chosen]
    offset, place_mm, place_deviation_mm = _place(0.5 * own.z.square(), peak, grid)
    values = [one.template.values(grid, offset).to(own.z) for one in scores]
    shapes = torch.stack([_placed(one, peak, grid) for one in values])
    caused, shared = difference.of_change(shapes)
    # Along each shape: the slope found, and what a contrast of 1 would add to it.
    found, units = (shapes * slope).flatten(1).sum(dim=1), (shapes * caused).flatten(1).sum(dim=1)
    contrasts = (found / units).tolist()
    gains = (found.square() / units).tolist()
    # The score says how large noise is: the best fit gains half its square.
    likelihoods = [0.5 * float(own.z[peak]) ** 2 * gain / max(gains) for gain in gains]
    sizes_mm = [one.template.size_mm for one in scores]
    size_mm, size_interval_mm = _size(sizes_mm, likelihoods)
    nearest = gains.index(max(gains))
    ends = [_between(sizes_mm, contrasts, one) for one in (size_mm, *size_interval_mm)]
    spread = NORMAL / abs(float(own.z[peak]))
    low, *_, high = sorted(one * factor for one in ends for factor in (1 - spread, 1 + spread))
    return Refit(
        template=chosen,
        place_mm=place_mm,
        place_deviation_mm=place_deviation_mm,
        size_mm=size_mm,
        size_interval_mm=size_interval_mm,
        contrast_per_mm=ends[0],
        contrast_interval_per_mm=(low, high),
        smear_mm=_width_mm(caused[nearest][:, peak[1], peak[2]], peak[0], grid.spacing_mm[0]),
        change=contrasts[nearest] * (shapes[nearest] - shared[nearest]),
    )


def _placed(values: torch.Tensor, peak: Index, grid: VolumeGrid) -> torch.Tensor:
    """Return a volume with a small one put about a voxel."""
    result = values.new_zeros(grid.shape)
    into, out_of = [], []
    for middle, n, m in zip(peak, grid.shape, values.shape, strict=True):
        first = middle - m // 2
        low, high = max(first, 0), min(first + m, n)
        into.append(slice(low, high))
        out_of.append(slice(low - first, high - first))
    result[tuple(into)] = values[tuple(out_of)]
    return result


def _place(likelihood: torch.Tensor, peak: Index, grid: VolumeGrid) -> tuple[Offset, Xyz, Xyz]:
    """Return the peak of a parabola along each axis, and the deviation that its curvature stands for.

    The peak as an offset from its voxel, (z, y, x), and in mm.
    """
    offsets, deviation = [], []
    for axis, edge_mm in enumerate(grid.spacing_mm):
        low, high = (_shifted(peak, axis, step, grid) for step in (-1, 1))
        before, here, after = (float(likelihood[one]) for one in (low, peak, high))
        bend = 2 * here - before - after
        offset = 0.5 * (after - before) / bend if bend > 0 else 0.0
        offsets.append(max(-0.5, min(0.5, offset)))
        # A voxel's own edge bounds how well any place between voxels is known.
        deviation.append(
            math.hypot(edge_mm / math.sqrt(bend), edge_mm / math.sqrt(12)) if bend > 0 else edge_mm
        )
    index = [n + offset for n, offset in zip(peak, offsets, strict=True)]
    x, y, z = (float(one) for one in voxel_to_world(grid, index))
    return (offsets[0], offsets[1], offsets[2]), (x, y, z), (deviation[2], deviation[1], deviation[0])


def _shifted(peak: Index, axis: int, step: int, grid: VolumeGrid) -> Index:
    moved = [n + step * (one == axis) for one, n in enumerate(peak)]
    z, y, x = (max(0, min(size - 1, n)) for n, size in zip(moved, grid.shape, strict=True))
    return z, y, x


def _size(sizes_mm: Sequence[float], likelihoods: Sequence[float]) -> tuple[float, Interval]:
    """Return the likeliest size, and the sizes that are hardly less likely, between those of the templates.

    >>> size, (low, high) = _size([3.0, 5.0, 8.0], [6.0, 8.0, 6.0])
    >>> round(size, 1), low < size < high
    (4.9, True)
    """
    fine = torch.linspace(math.log(sizes_mm[0]), math.log(sizes_mm[-1]), 201).tolist()
    logs = [math.log(size) for size in sizes_mm]
    curve = [_interpolated(logs, likelihoods, one) for one in fine]
    top = max(curve)
    near = [one for one, value in zip(fine, curve, strict=True) if value >= top - DROP]
    return math.exp(fine[curve.index(top)]), (math.exp(near[0]), math.exp(near[-1]))


def _between(sizes_mm: Sequence[float], values: Sequence[float], size_mm: float) -> float:
    """Return a value at a size between those of the templates, by the logarithms of sizes."""
    logs, at = [math.log(one) for one in sizes_mm], math.log(size_mm)
    index = next((i for i in range(1, len(logs) - 1) if at < logs[i]), len(logs) - 1)
    share = (at - logs[index - 1]) / (logs[index] - logs[index - 1])
    return (1 - share) * values[index - 1] + share * values[index]


def _interpolated(knots: Sequence[float], values: Sequence[float], at: float) -> float:
    """Return the parabola through the three knots about a point."""
    nearest = min(range(len(knots)), key=lambda i: abs(knots[i] - at))
    first = max(0, min(len(knots) - 3, nearest - 1))
    total = 0.0
    for i in range(first, first + 3):
        others = [knots[j] for j in range(first, first + 3) if j != i]
        total += values[i] * math.prod((at - one) / (knots[i] - one) for one in others)
    return total


def _width_mm(profile: torch.Tensor, middle: int, edge_mm: float) -> float:
    """Return the length about a voxel over which a profile stays above half of its value there."""
    above = (profile >= 0.5 * profile[middle]).tolist()
    low = high = middle
    while low > 0 and above[low - 1]:
        low -= 1
    while high < len(above) - 1 and above[high + 1]:
        high += 1
    return (high - low + 1) * edge_mm
