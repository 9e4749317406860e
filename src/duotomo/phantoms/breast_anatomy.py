"""The anatomy of a breast, drawn from a random generator and fitted to a density."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from duotomo.kernels.threads import share
from duotomo.phantoms.breast_noise import Lattice, lattice, random_rotation
from duotomo.phantoms.breast_texture import (
    AIR,
    DUCT,
    LIGAMENT,
    NIPPLE,
    POINT_STEPS,
    SKIN,
    Anatomy,
    Ducts,
    fill_tissues,
)

Floats = NDArray[np.float64]

_STEP_MM = 3.0
_BIN_MM = 4.0
_THINNEST_MM = 0.5
_MOST_GENERATIONS = 4


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


Parts = tuple[Anatomy, Lattice, Ducts]

_CELLS_MM = (14.0, 7.0, 3.5, 1.75, 0.9, 0.45)
"""Cell sizes of the octaves of the texture."""
_FALL = 0.45
"""Amplitudes are `cell^fall`: the spectrum is `f^-(3 + 2 fall)`, and about `f^-3.5` after the threshold."""
_NOISE_STD = 0.19
"""Standard deviation of the gradient noise."""
_N_SAMPLES = 60_000


def draw_parts(
    rng: np.random.Generator,
    radii_mm: Floats,
    *,
    skin_mm: float,
    nipple_radius_mm: float,
    n_ducts: int,
    dense_share: float,
) -> Parts:
    """Return the numbers, the noise and the ducts of a breast.

    radii_mm: (xyz). dense_share: of gland, ligaments and ducts in the volume inside the skin.
    """
    octaves = np.array(
        [
            np.column_stack((random_rotation(rng) / cell_mm, rng.uniform(0, 100, size=3)))
            for cell_mm in _CELLS_MM
        ]
    )
    amplitudes = np.array([(cell_mm / _CELLS_MM[0]) ** _FALL for cell_mm in _CELLS_MM])
    amplitudes /= _NOISE_STD * math.sqrt(float(np.sum(amplitudes**2)))
    anatomy = Anatomy(
        radii_mm=radii_mm,
        skin_mm=skin_mm,
        nipple_radius_mm=nipple_radius_mm,
        octaves=octaves,
        amplitudes=amplitudes,
        gland_center=rng.uniform((-0.1, 0.28, -0.1), (0.1, 0.36, 0.1)),
        gland_radii=np.array([0.72, 0.55, 0.72]) * rng.uniform(0.95, 1.05, size=3),
        lobule_mm=7.0,
        ligament_mm=0.45,
        threshold=math.inf,
        softness=1.3,
    )
    parts = anatomy, lattice(rng), grow_ducts(rng, radii_mm, n_ducts=n_ducts)
    return anatomy._replace(threshold=_threshold(parts, dense_share, rng)), *parts[1:]


def tissues_and_fields(parts: Parts, points: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return the tissue and the gland field at points (n, xyz), mm from the middle of the chest wall."""
    tissues, fields = np.empty(len(points), dtype=np.int8), np.empty(len(points))
    call = partial(fill_tissues, *parts, points, tissues, fields)
    share(call, len(points), steps=POINT_STEPS * len(points))
    return tissues, fields


def _threshold(parts: Parts, dense_share: float, rng: np.random.Generator) -> float:
    """Return the threshold above which the field is gland, so that the dense tissues fill `dense_share`."""
    radii_mm = parts[0].radii_mm
    points = rng.uniform(radii_mm * (-1, 0, -1), radii_mm, size=(_N_SAMPLES, 3))
    # While the threshold is infinite there is no gland, and so every ligament that there could be.
    tissues, fields = tissues_and_fields(parts, points)
    inside = ~np.isin(tissues, (AIR, SKIN, NIPPLE))
    always = np.isin(tissues, (DUCT, LIGAMENT))[inside]
    order = np.argsort(-fields[inside])
    n_needed = dense_share * len(order) - np.sum(always)
    # Walking down the field, each point that is not dense anyhow turns into gland.
    turned = np.cumsum(~always[order])
    last = min(int(np.searchsorted(turned, max(n_needed, 0.0))), len(order) - 1)
    return float(fields[inside][order][last])
