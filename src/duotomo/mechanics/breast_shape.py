"""The outline of an uncompressed breast."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import check_lengths


@dataclass(frozen=True, kw_only=True)
class BreastShape:
    """Half an ellipsoid on the chest wall: `|(p - center_mm) / radii_mm| <= 1` with `y >= center_mm[1]`.

    Parameters
    ----------
    center_mm : tuple of float
        Middle of the chest-wall section, (x, y, z).
    radii_mm : tuple of float
        (x, y, z); the nipple is at `center_mm + (0, radii_mm[1], 0)`.

    Examples
    --------
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 40.0), radii_mm=(45.0, 40.0, 30.0))
    >>> round(shape.volume_mm3)
    113097
    """

    center_mm: tuple[float, float, float]
    radii_mm: tuple[float, float, float]

    def __post_init__(self) -> None:
        check_lengths("BreastShape", "radii_mm (x, y, z)", *self.radii_mm)

    @property
    def volume_mm3(self) -> float:
        """The volume between outline and chest wall."""
        return 2 / 3 * math.pi * math.prod(self.radii_mm)

    def depth_mm(self, points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return about how deep below the skin points lie.

        `(1 - |q|) |q| / |grad|q|^2 / 2|` with `q = (p - center) / radii`: exact to first order at the
        surface, and the smallest radius at the middle. The chest wall does not count as skin.

        Parameters
        ----------
        points_mm : numpy.ndarray
            (..., xyz), in mm.

        Returns
        -------
        numpy.ndarray
            (...), in mm, negative outside, float64.
        """
        radii = np.asarray(self.radii_mm)
        q = (points_mm - np.asarray(self.center_mm)) / radii
        length = np.sqrt(np.sum(q * q, axis=-1))
        slope = np.sqrt(np.sum((q / radii) ** 2, axis=-1))
        smallest = min(self.radii_mm)
        safe = np.maximum(slope, 1e-12)
        depth: NDArray[np.float64] = np.where(length > 1e-9, (1 - length) * length / safe, smallest)
        return depth
