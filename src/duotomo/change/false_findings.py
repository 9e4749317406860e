"""How many findings to expect in a breast that did not change."""

from __future__ import annotations

import math
from itertools import pairwise

from duotomo.change.change import FalseFindings

TAIL: tuple[tuple[float, float], ...] = (
    (3.0, 50.0),
    (4.0, 10.6),
    (5.0, 1.58),
    (6.0, 0.25),
    (7.0, 0.062),
    (8.0, 0.021),
)
"""Thresholds of |z| and how many peaks exceed each in a breast of one litre, of 148 pairs of development
anatomies without change; between and beyond them logarithms are interpolated linearly."""

GROWTH = 0.3
"""Power of the volume that peaks grow with, fitted there too: small breasts have more of them per litre."""

THRESHOLDS = tuple(3.0 + 0.1 * i for i in range(61))


def expected_above(z: float, litres: float) -> float:
    """Return how many peaks of |z| above a threshold to expect where nothing changed.

    Parameters
    ----------
    z : float
        The threshold.
    litres : float
        Volume of the breast that statements are made about.

    Examples
    --------
    >>> expected_above(5.0, 0.5) < expected_above(4.0, 0.5) < expected_above(4.0, 1.0)
    True
    """
    pairs = list(pairwise(TAIL))
    (low, more), (high, less) = next((pair for pair in pairs if z < pair[1][0]), pairs[-1])
    share = (z - low) / (high - low)
    return math.pow(litres, GROWTH) * math.exp((1 - share) * math.log(more) + share * math.log(less))


def threshold_for(expected: float, litres: float) -> float:
    """Return the threshold of |z| above which so many false findings are to be expected.

    Parameters
    ----------
    expected : float
        Per breast.
    litres : float
        As for `expected_above`.
    """
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_above(middle, litres) > expected else (low, middle)
    return high


def false_findings(litres: float) -> FalseFindings:
    """Return the curve of what to expect; litres: as for `expected_above`."""
    return FalseFindings(
        thresholds=THRESHOLDS, expected=tuple(expected_above(one, litres) for one in THRESHOLDS)
    )
