"""A ring whose brightness varies around it, in a body of soft tissue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms.solids import Ellipsoid, EllipticCylinder

# The largest value of cos(phi) + sin(2 phi) / 2, reached at phi = 30 degrees.
_PEAK = 3 * math.sqrt(3) / 4


@dataclass(frozen=True, kw_only=True)
class Toroid:
    """A torus about an axis along z, so that its ring lies parallel to the detector.

    `(sqrt(x^2 + y^2) - major)^2 + z^2 <= minor^2` about the centre, of attenuation
    `value * (1 + modulation * g(phi))`, added to the `body`'s, with phi the angle from x towards y and
    `g(phi) = (cos(phi) + sin(2 phi) / 2) / (3 sqrt(3) / 4)`, which lies in [-1, 1]. The cosine gives the ring
    a bright side, so that turning it about its own axis shows; the sine takes the mirror line through that
    side away, so that turning it over shows too. No rotation but the identity leaves the toroid as it is.

    center_mm: (x, y, z). value: 1/mm. modulation: 0 for an even ring, below 1. body: what the ring lies in;
    a ring in air is a badly posed thing to reconstruct from few views.

    >>> ring = Toroid(center_mm=(0, 20, 20), major_radius_mm=10, minor_radius_mm=4, value=0.03, modulation=0)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> volume = ring.voxels(grid)
    >>> round(float(volume[20, 20, 30]), 6), float(volume[20, 20, 20])
    (0.03, 0.0)
    """

    center_mm: tuple[float, float, float]
    major_radius_mm: float
    minor_radius_mm: float
    value: float
    modulation: float = 0.5
    body: Ellipsoid | EllipticCylinder | None = None

    def __post_init__(self) -> None:
        if not 0 < self.minor_radius_mm < self.major_radius_mm < math.inf:
            raise GeometryError(
                f"Toroid: expected 0 < minor_radius_mm < major_radius_mm; got minor {self.minor_radius_mm}, "
                f"major {self.major_radius_mm}. The major radius runs to the middle of the tube."
            )
        if not 0 <= self.modulation < 1:
            raise GeometryError(
                f"Toroid: expected 0 <= modulation < 1; got {self.modulation}. "
                f"From 1 on, attenuation turns negative."
            )

    def voxels(self, grid: VolumeGrid, *, oversample: int = 2, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean over `oversample`^3 points of each voxel, body included, (z, y, x)."""
        if oversample < 1:
            raise GeometryError(
                f"Toroid.voxels: expected oversample >= 1; got {oversample}. 1 samples at the middle."
            )
        n_z, n_y, n_x = grid.shape
        z, y, x = (
            low + (np.arange(n * oversample) + 0.5) * d / oversample - center
            for low, n, d, center in zip(
                grid.low_mm, grid.shape, grid.spacing_mm, self.center_mm[::-1], strict=True
            )
        )
        phi = np.arctan2(y[:, None], x)
        brightness = self.value * (1 + self.modulation * (np.cos(phi) + np.sin(2 * phi) / 2) / _PEAK)
        off_ring_sq = (np.hypot(y[:, None], x) - self.major_radius_mm) ** 2
        volume = np.zeros(grid.shape)
        for layer, heights in zip(volume, z.reshape(n_z, oversample), strict=True):
            share = sum(
                (off_ring_sq + height**2 <= self.minor_radius_mm**2).astype(float) for height in heights
            )
            cells = (brightness * share).reshape(n_y, oversample, n_x, oversample)
            layer[:] = cells.mean(axis=(1, 3)) / oversample
        if self.body is not None:
            volume += self.body.voxels(grid, oversample=oversample)
        return volume.astype(dtype, copy=False)
