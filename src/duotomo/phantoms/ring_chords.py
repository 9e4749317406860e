"""Where lines enter and leave a torus."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Quartic = tuple[Array, Array, Array]

_MOST_STEPS = 200  # Bisection alone ends after about 60; Newton's method takes about 6.


def ring_chords(points: Array, directions: Array, tube: float) -> tuple[Array, Array]:
    """Return where lines lie in the torus about z of major radius 1 and minor radius `tube`.

    `(|p|^2 + 1 - tube^2)^2 <= 4 (x^2 + y^2)` with `p = point + s direction`. The point being the line's
    nearest to the centre, this is `g(s) = s^4 + p s^2 + q s + c <= 0`. g falls, rises, falls and rises
    between the roots of its derivative, so that each end of the two intervals has a bracket of its own.

    points: (xyz, line), at right angles to `directions`, which are (xyz, line) of length 1. Returns the low
    and the high ends, (2, line) each: the second interval begins where the first ends, or later. An interval
    that is not there has equal ends.

    >>> nearest, along = np.array([[0.0], [0.0], [0.0]]), np.array([[1.0], [0.0], [0.0]])
    >>> low, high = ring_chords(nearest, along, 0.25)
    >>> low.ravel().tolist(), high.ravel().tolist()
    ([-1.25, 0.75], [-0.75, 1.25])
    """
    height, climb = points[2], directions[2]
    miss_sq = np.sum(points * points, axis=0)
    inner = miss_sq + 1 - tube**2
    quartic = (2 * inner - 4 * (1 - climb**2), 8 * height * climb, inner**2 - 4 * (miss_sq - height**2))
    # Beyond the sphere around the torus there is none of it.
    reach = np.sqrt(np.maximum((1 + tube) ** 2 - miss_sq, 0.0))
    first, middle, last = _turning_points(quartic[0], quartic[1])
    parted = _value(quartic, middle) > 0
    lows, highs = np.stack([middle, middle]), np.stack([middle, middle])
    ends = ((first, -reach, lows[0], highs[0]), (last, reach, highs[1], lows[1]))
    for lowest, outside, outer_end, inner_end in ends:
        met = _value(quartic, lowest) < 0
        outer_end[met] = _root(quartic, lowest, outside, met)
        apart = met & parted
        inner_end[apart] = _root(quartic, lowest, middle, apart)
    return lows, highs


def _value(quartic: Quartic, s: Array) -> Array:
    p, q, c = quartic
    s_sq = s * s
    value: Array = (s_sq + p) * s_sq + q * s + c
    return value


def _turning_points(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return the real roots of `s^3 + (p/2) s + q/4`, in order; where there is one, it thrice."""
    third, half = p / 6, q / 8
    disc = half**2 + third**3
    # One root, after Cardano: the cube root of the larger term, so that nothing cancels under it.
    cube = np.cbrt(-half - np.copysign(np.sqrt(np.maximum(disc, 0.0)), half))
    single = cube - third / np.where(cube == 0, 1.0, cube)
    # Three roots, after Viete.
    size = np.sqrt(np.maximum(-third, 0.0))
    cosine = -half / np.where(size == 0, 1.0, size) ** 3
    angle = np.arccos(np.clip(cosine, -1.0, 1.0)) / 3
    three = [2 * size * np.cos(angle + turn) for turn in (2 * np.pi / 3, 4 * np.pi / 3, 0.0)]
    low, middle, high = (np.where(disc < 0, root, single) for root in three)
    return low, middle, high


def _root(quartic: Quartic, below: Array, above: Array, chosen: NDArray[np.bool_]) -> Array:
    """Return the chosen lines' root between `below`, where g < 0, and `above`, where g >= 0.

    Newton's method, with a bisection wherever a step leaves the bracket or shrinks too slowly.
    """
    p, q, c = (coefficient[chosen] for coefficient in quartic)
    below, above = below[chosen], above[chosen]
    s = (below + above) / 2
    step = before = np.abs(above - below)
    for _ in range(_MOST_STEPS):
        value = _value((p, q, c), s)
        slope = (4 * s * s + 2 * p) * s + q
        negative = value < 0
        below, above = np.where(negative, s, below), np.where(negative, above, s)
        newton = s - value / np.where(np.abs(slope) < 1e-30, 1e-30, slope)
        good = ((newton - below) * (newton - above) <= 0) & (np.abs(newton - s) <= before / 2)
        moved = np.where(good, newton, (below + above) / 2)
        before, step = step, np.abs(moved - s)
        s = moved
        if not (step > 1e-15).any():
            break
    return s
