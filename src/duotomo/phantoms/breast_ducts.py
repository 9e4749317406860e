"""The ducts of a breast: trees that start in the nipple and branch backwards into the gland."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEP_MM = 3.0
_BIN_MM = 4.0
_THINNEST_MM = 0.5
_MOST_GENERATIONS = 4


class Ducts(NamedTuple):
    """Capsules in bins: those that reach into a bin are `items[starts[bin] : starts[bin + 1]]`.

    capsules: (capsule, value), with the two ends (xyz, xyz) and the radius, mm. low_mm: (xyz), the corner of
    the bins; n_bins: (xyz).
    """

    capsules: Floats
    low_mm: Floats
    bin_mm: float
    n_bins: NDArray[np.int64]
    starts: NDArray[np.int64]
    items: NDArray[np.int64]


def grow_ducts(rng: np.random.Generator, radii_mm: Floats, *, n_ducts: int) -> Ducts:
    """Return the ducts of half an ellipsoid about the origin, its nipple at (0, radii_mm[1], 0).

    >>> ducts = grow_ducts(np.random.default_rng(0), np.array([50.0, 45.0, 30.0]), n_ducts=9)
    >>> bool((ducts.capsules[:, 6] >= 0.5).all() and (ducts.capsules[:, 6] <= 1.2).all())
    True
    """
    capsules: list[Floats] = []
    for i in range(n_ducts):
        # The golden angle spreads the ducts evenly over the nipple, and the lobes over the gland.
        around = i * math.pi * (3 - math.sqrt(5)) + rng.uniform(-0.3, 0.3)
        off_axis = math.sqrt((i + 0.5) / n_ducts)
        side = np.array([math.cos(around), 0.0, math.sin(around)]) * off_axis
        start = np.array([0.0, radii_mm[1] + 2.0, 0.0]) + 1.8 * side
        aim = np.array([0.0, rng.uniform(0.1, 0.5), 0.0]) + 0.75 * side
        _grow(rng, capsules, radii_mm, start, np.array([0.0, -1.0, 0.0]), aim, rng.uniform(0.9, 1.2), 0)
    return _binned(np.array(capsules).reshape(-1, 7))


def _grow(
    rng: np.random.Generator,
    capsules: list[Floats],
    radii_mm: Floats,
    start: Floats,
    heading: Floats,
    aim: Floats,
    radius: float,
    generation: int,
) -> None:
    """Add one duct and its branches: from `start` along `heading`, bending towards `aim` (in radii)."""
    n_steps = int(rng.integers(3, 7))
    for _ in range(n_steps):
        wanted = aim * radii_mm - start
        heading = heading + 0.35 * wanted / max(float(np.linalg.norm(wanted)), 1e-9)
        heading = heading + 0.25 * rng.normal(size=3)
        heading /= np.linalg.norm(heading)
        end = start + _STEP_MM * heading
        if end[1] < 0.1 * radii_mm[1] or (np.linalg.norm(end / radii_mm) > 0.88 and generation > 0):
            return
        capsules.append(np.concatenate((start, end, [radius])))
        start = end
    if generation == _MOST_GENERATIONS:
        return
    for _ in range(2):
        child = max(radius * float(rng.uniform(0.6, 0.8)), _THINNEST_MM)
        if rng.uniform() < 0.85:
            spread = aim + rng.normal(size=3) * (0.3, 0.2, 0.3)
            turned = heading + 0.6 * rng.normal(size=3)
            turned /= np.linalg.norm(turned)
            _grow(rng, capsules, radii_mm, start, turned, spread, child, generation + 1)


def _binned(capsules: Floats) -> Ducts:
    low = np.minimum(capsules[:, :3], capsules[:, 3:6]) - capsules[:, 6:]
    high = np.maximum(capsules[:, :3], capsules[:, 3:6]) + capsules[:, 6:]
    corner = low.min(axis=0)
    n_bins = np.floor((high.max(axis=0) - corner) / _BIN_MM).astype(np.int64) + 1
    first = np.floor((low - corner) / _BIN_MM).astype(np.int64)
    last = np.floor((high - corner) / _BIN_MM).astype(np.int64)
    members: list[list[int]] = [[] for _ in range(int(n_bins.prod()))]
    for item, (one, other) in enumerate(zip(first, last, strict=True)):
        for i in range(one[0], other[0] + 1):
            for j in range(one[1], other[1] + 1):
                for k in range(one[2], other[2] + 1):
                    members[int((i * n_bins[1] + j) * n_bins[2] + k)].append(item)
    starts = np.concatenate(([0], np.cumsum([len(bin_) for bin_ in members])))
    items = np.array([item for bin_ in members for item in bin_], dtype=np.int64)
    return Ducts(capsules, corner, _BIN_MM, n_bins, starts.astype(np.int64), items)
