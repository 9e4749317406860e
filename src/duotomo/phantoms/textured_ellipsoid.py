"""An ellipsoid of fat with glandular balls of several sizes: texture in every direction, the same always."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.solids import Ellipsoid

ENERGY_KEV = 20.0
RADII_MM = (3.0, 5.0, 8.0)
"""Of the balls."""
SHARES = (0.06, 0.08, 0.1)
"""Of the ellipsoid's volume that balls of each size would fill if none overlapped."""


def textured_ellipsoid(
    grid: VolumeGrid,
    *,
    center_mm: tuple[float, float, float],
    radii_mm: tuple[float, float, float],
    seed: int = 0,
) -> NDArray[Any]:
    """Return the attenuation in 1/mm on a grid, (z, y, x), for photons of 20 keV.

    center_mm, radii_mm: of the ellipsoid, (x, y, z). seed: of the places of the balls.

    >>> grid = VolumeGrid.on_detector((10, 10, 10), (5.0, 5.0, 5.0))
    >>> body = textured_ellipsoid(grid, center_mm=(0.0, 25.0, 25.0), radii_mm=(20.0, 20.0, 20.0))
    >>> gland = attenuation_per_mm(Tissue.GLANDULAR, energy_kev=20.0)
    >>> bool(body.min() == 0.0), bool(0.052 < body.max() <= gland)
    (True, True)
    """
    fat, gland = (
        attenuation_per_mm(tissue, energy_kev=ENERGY_KEV) for tissue in (Tissue.ADIPOSE, Tissue.GLANDULAR)
    )
    generator, radii = np.random.default_rng(seed), np.asarray(radii_mm)
    filled = np.zeros(grid.shape)
    for radius_mm, share in zip(RADII_MM, SHARES, strict=True):
        room = radii - radius_mm
        if room.min() <= 0:
            continue
        for _ in range(max(1, round(share * float(np.prod(radii)) / radius_mm**3))):
            # Uniform in the ball: a direction, and the cube root of a share.
            place = generator.normal(size=3)
            place *= generator.random() ** (1 / 3) / np.linalg.norm(place)
            x, y, z = np.asarray(center_mm) + place * room
            ball = Ellipsoid(center_mm=(x, y, z), radii_mm=(radius_mm,) * 3, value=1.0)
            filled += ball.voxels(grid)
    body = Ellipsoid(center_mm=center_mm, radii_mm=radii_mm, value=1.0).voxels(grid)
    volume: NDArray[Any] = body * (fat + (gland - fat) * np.minimum(filled, 1.0))
    return volume
