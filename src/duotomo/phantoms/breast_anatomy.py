"""The anatomy of a breast, drawn from a random generator and fitted to a density."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duotomo.phantoms.breast_ducts import Ducts, grow_ducts
from duotomo.phantoms.breast_noise import Lattice, lattice, random_rotation
from duotomo.phantoms.breast_texture import AIR, DUCT, LIGAMENT, NIPPLE, SKIN, Anatomy, fill_tissues

Floats = NDArray[np.float64]
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
    fill_tissues(*parts, points, tissues, fields)
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
