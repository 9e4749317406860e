"""A finding's size, contrast and place: a refit of the change at a peak of the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from duotomo.change.difference import Difference
from duotomo.change.finding import Interval, Xyz
from duotomo.change.peaks import Index
from duotomo.change.score import Score
from duotomo.change.templates import Offset
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world

NEAR_MM = (6.0, 4.0, 4.0)
"""How far from a peak, along z, y and x, the place of a change is looked for."""

MOST_TAKEN = 4.0
"""Factor by which what volume and motion have taken of a change may raise its contrast, at most."""

DROP = 1.92
"""By how much the logarithm of the likelihood falls at the ends of an interval of 95 %."""

NORMAL = 1.96

LEFT_MM = (1.2, 0.0, 0.0)
"""Deviation of a place along z, y and x beyond what its score and voxels say; that and the next two were
fitted to lesions of development anatomies, which are no spheres and lie among tissue."""

SIZE_LEFT, CONTRAST_LEFT = 0.25, 0.30
"""Halves of intervals of 95 %, as logarithms: of a size beyond what the score says of it, and of a contrast
beyond what the score and the size do."""


@dataclass(frozen=True, kw_only=True)
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
    slice_index : int
        Of the voxel nearest to its place, along z.
    smear_mm : float
        Length along z over which the slopes that it causes stay above half of their largest.
    """

    template: int
    place_mm: Xyz
    place_deviation_mm: Xyz
    size_mm: float
    size_interval_mm: Interval
    contrast_per_mm: float
    contrast_interval_per_mm: Interval
    slice_index: int
    smear_mm: float


def refit(difference: Difference, slope: torch.Tensor, scores: Sequence[Score], peak: Index) -> Refit:
    """Return what is at a peak: each template is put there, and the slopes compared with those it causes.

    Place and size are those of the template that explains the slopes best, as if they were white; a contrast
    is what it must have to cause them, given what volume and motion have taken of it already.

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
    chosen = max(range(len(scores)), key=lambda number: abs(float(scores[number].z[peak])))
    z = float(scores[chosen].z[peak])
    at = [_nearby(one.z * one.deviation * math.copysign(1.0, z), peak, grid) for one in scores]
    places = [
        _place(0.5 * (one.z * one.deviation / one.deviation[own]).square(), own, grid)
        for one, own in zip(scores, at, strict=True)
    ]
    put = list(zip(scores, at, places, strict=True))
    shapes = torch.stack(
        [_placed(one.template.values(grid, p[0]).to(slope), own, grid) for one, own, p in put]
    )
    caused = difference.of_change(shapes)
    found, units = (shapes * slope).flatten(1).sum(dim=1), (shapes * caused).flatten(1).sum(dim=1)
    gains = (found.square() / units).tolist()
    nearest = gains.index(max(gains))
    # Slopes that change smoothly are no finding, and so contrasts are measured with shapes whose sum is zero.
    kernels = [_placed(one.template.contrast(grid, p[0]).to(slope), own, grid) for one, own, p in put]
    contrasts = [float((k * slope).sum() / (k * own).sum()) for k, own in zip(kernels, caused, strict=True)]
    left = float((kernels[nearest] * difference.left_of_change(shapes[nearest])).sum())
    taken = min(MOST_TAKEN, max(1.0, float((kernels[nearest] * caused[nearest]).sum()) / max(left, 1e-30)))
    # The score says how large noise is: the best fit gains half its square.
    likelihoods = [0.5 * z**2 * gain / max(gains) for gain in gains]
    sizes_mm = [one.template.size_mm for one in scores]
    size_mm, likely_mm = _size(sizes_mm, likelihoods)
    size_interval_mm = _wider(size_mm, likely_mm, SIZE_LEFT)
    contrast, (low, high) = _contrast(
        sizes_mm, [taken * one for one in contrasts], size_mm, size_interval_mm, abs(z)
    )
    z_index, y_index, x_index = at[nearest]
    _, place_mm, place_deviation_mm = places[nearest]
    return Refit(
        template=chosen,
        place_mm=place_mm,
        place_deviation_mm=place_deviation_mm,
        size_mm=size_mm,
        size_interval_mm=size_interval_mm,
        contrast_per_mm=math.copysign(contrast, z),
        contrast_interval_per_mm=(low, high) if z > 0 else (-high, -low),
        slice_index=z_index,
        smear_mm=_width_mm(caused[nearest][:, y_index, x_index], z_index, grid.spacing_mm[0]),
    )


def _wider(value: float, interval: Interval, half: float) -> Interval:
    """Return an interval about a positive value whose logarithm is less sure by some half width.

    >>> [round(one, 2) for one in _wider(1.0, (1.0, 2.0), 0.0)]
    [1.0, 2.0]
    >>> [round(one, 2) for one in _wider(2.0, (2.0, 2.0), 0.5)]
    [1.21, 3.3]
    """
    low, high = (math.hypot(math.log(value / one), half) if one > 0 else math.inf for one in interval)
    return value * math.exp(-low), value * math.exp(high)


def _nearby(values: torch.Tensor, peak: Index, grid: VolumeGrid) -> Index:
    """Return the voxel with the largest value near a peak."""
    reach = [max(1, round(mm / edge_mm)) for mm, edge_mm in zip(NEAR_MM, grid.spacing_mm, strict=True)]
    low = [max(0, middle - n) for middle, n in zip(peak, reach, strict=True)]
    box = values[tuple(slice(a, middle + n + 1) for a, middle, n in zip(low, peak, reach, strict=True))]
    index = torch.unravel_index(box.argmax(), box.shape)
    z, y, x = (a + int(n) for a, n in zip(low, index, strict=True))
    return z, y, x


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
    for axis, (edge_mm, left_mm) in enumerate(zip(grid.spacing_mm, LEFT_MM, strict=True)):
        low, high = (_shifted(peak, axis, step, grid) for step in (-1, 1))
        before, here, after = (float(likelihood[one]) for one in (low, peak, high))
        bend = 2 * here - before - after
        offset = 0.5 * (after - before) / bend if bend > 0 else 0.0
        offsets.append(max(-0.5, min(0.5, offset)))
        # A voxel's own edge bounds how well any place between voxels is known.
        own_mm = math.hypot(edge_mm / math.sqrt(bend), edge_mm / math.sqrt(12)) if bend > 0 else edge_mm
        deviation.append(math.hypot(own_mm, left_mm))
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


def _contrast(
    sizes_mm: Sequence[float],
    contrasts: Sequence[float],
    size_mm: float,
    size_interval_mm: Interval,
    score: float,
) -> tuple[float, Interval]:
    """Return the contrast, without its sign, of a sphere of a size, and its interval of 95 %.

    Its errors go with those of the size: what is taken for smaller must have more contrast to cause the same
    slopes. So it has its ends where the size has them, and is less sure by the score's own noise.

    >>> contrast, (low, high) = _contrast([3.0, 5.0, 8.0], [0.06, 0.02, 0.01], 5.0, (3.0, 8.0), 10.0)
    >>> low < 0.01 < contrast < 0.06 < high
    True
    """
    ends = [abs(_between(sizes_mm, contrasts, one)) for one in (size_mm, *size_interval_mm)]
    spread = NORMAL / score
    return ends[0], _wider(ends[0], (min(ends) * (1 - spread), max(ends) * (1 + spread)), CONTRAST_LEFT)


def _between(sizes_mm: Sequence[float], values: Sequence[float], size_mm: float) -> float:
    """Return a value at a size, by the logarithms of sizes; beyond those of the templates the nearest one's.

    >>> [round(_between([3.0, 5.0, 8.0], [0.6, 0.2, 0.1], one), 2) for one in (2.0, 3.0, 15**0.5, 8.0, 9.0)]
    [0.6, 0.6, 0.4, 0.1, 0.1]
    """
    logs = [math.log(one) for one in sizes_mm]
    at = min(max(math.log(size_mm), logs[0]), logs[-1])
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
