"""The head of Shepp and Logan, in three dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import GeometryError, check_lengths
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.phantoms.phantom import AnalyticPhantom, OversampledPhantom
from duotomo.phantoms.rays import Array, Rays, check_oversample, inside, pixel_means, samples_mm

# Contrast in tenths of the skull's (whole numbers: their sums are exact, and so never below zero), half axes
# (x, y, z), centre (x, y, z), all in half edges of the cube, and the turn about z in degrees.
_ELLIPSOIDS = (
    (10, (0.6900, 0.920, 0.810), (0.00, 0.0000, 0.00), 0.0),
    (-8, (0.6624, 0.874, 0.780), (0.00, -0.0184, 0.00), 0.0),
    (-2, (0.1100, 0.310, 0.220), (0.22, 0.0000, 0.00), -18.0),
    (-2, (0.1600, 0.410, 0.280), (-0.22, 0.0000, 0.00), 18.0),
    (1, (0.2100, 0.250, 0.410), (0.00, 0.3500, -0.15), 0.0),
    (1, (0.0460, 0.046, 0.050), (0.00, 0.1000, 0.25), 0.0),
    (1, (0.0460, 0.046, 0.050), (0.00, -0.1000, 0.25), 0.0),
    (1, (0.0460, 0.023, 0.050), (-0.08, -0.6050, 0.00), 0.0),
    (1, (0.0230, 0.023, 0.020), (0.00, -0.6060, 0.00), 0.0),
    (1, (0.0230, 0.046, 0.020), (0.06, -0.6050, 0.00), 0.0),
)


@dataclass(frozen=True, kw_only=True)
class SheppLogan(OversampledPhantom, AnalyticPhantom):
    """Ten ellipsoids in a cube, of the modified contrast of Toft: skull 1, brain 0.2, ventricles 0.

    `f(p) = value * sum over k of a_k [ |R_k^T (p - c_k) / r_k| <= 1 ]`, R_k a turn by phi_k about z. The
    section through the middle is the phantom of Shepp and Logan (1974) with the contrast of P. Toft, "The
    Radon Transform", 1996, pages 199 to 200; the half axes and centres along z are those of M. Schabel's
    "modified Shepp-Logan" (phantom3d, MATLAB Central File Exchange 9416, 2006). That table turns its third
    and fourth ellipsoid by a further psi = 10 degrees, about z as well since theta is zero; here, as in two
    dimensions, they are turned by phi alone, -18 and +18 degrees.

    Parameters
    ----------
    center_mm : tuple of float
        Middle of the cube, (x, y, z).
    size_mm : float
        Edge of the cube, which the head fills to 69, 92 and 81 % along (x, y, z).
    value : float
        Attenuation of the skull, 1/mm.

    Examples
    --------
    >>> head = SheppLogan(center_mm=(0.0, 32.0, 32.0), size_mm=64.0)
    >>> volume = head.voxels(VolumeGrid.on_detector((64, 64, 64), (1.0, 1.0, 1.0)))
    >>> round(float(volume[32, 60, 32]), 6), round(float(volume[32, 20, 32]), 6)
    (0.05, 0.01)
    """

    center_mm: tuple[float, float, float]
    size_mm: float
    value: float = 0.05

    def __post_init__(self) -> None:
        check_lengths("SheppLogan", "size_mm", self.size_mm)
        if not 0 <= self.value < math.inf:
            raise GeometryError(
                f"SheppLogan: expected value >= 0 and finite; got {self.value}. "
                f"Give the skull's attenuation in 1/mm."
            )

    def voxels(self, grid: VolumeGrid, *, oversample: int = 2, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean attenuation over points of each voxel, never negative."""
        check_oversample("SheppLogan.voxels", oversample)
        n_z, n_y, n_x = grid.shape
        z, y, x = (at / (self.size_mm / 2) for at in samples_mm(grid, oversample, self.center_mm))
        sections = [(a, r[2], c[2], _section_sq(y, x, r, c, phi)) for a, r, c, phi in _ELLIPSOIDS]
        volume = np.zeros(grid.shape)
        for layer, heights in zip(volume, z.reshape(n_z, oversample), strict=True):
            tenths = np.zeros((len(y), len(x)), dtype=np.int64)
            for a, r_z, c_z, section_sq in sections:
                for height in heights:
                    rest = 1 - ((height - c_z) / r_z) ** 2
                    if rest >= 0:
                        tenths += a * (section_sq <= rest)
            cells = tenths.reshape(n_y, oversample, n_x, oversample).sum(axis=(1, 3))
            layer[:] = cells * (self.value / (10 * oversample**3))
        return volume.astype(dtype, copy=False)

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 4) -> Array:
        """Return the exact integrals along the rays of a scan, their mean taken over each pixel."""
        return pixel_means("SheppLogan.line_integrals", acquisition, oversample, self._integral)

    def _integral(self, rays: Rays) -> Array:
        head = rays.seen_from(self.center_mm, np.eye(3) / (self.size_mm / 2))
        tenths = np.zeros((len(head.start), head.u.shape[1]))
        for a, radii, center, phi_deg in _ELLIPSOIDS:
            cos, sin = math.cos(math.radians(phi_deg)), math.sin(math.radians(phi_deg))
            turn_back = np.array([(cos, sin, 0.0), (-sin, cos, 0.0), (0.0, 0.0, 1.0)])
            tenths += a * inside(head.seen_from(center, turn_back / np.array(radii)[:, None]).unit_ball())
        # No point is below zero, so that only rounding takes a sum there.
        return self.value / 10 * np.maximum(tenths, 0.0)


def _section_sq(
    y: Array,
    x: Array,
    radii: tuple[float, float, float],
    center: tuple[float, float, float],
    phi_deg: float,
) -> Array:
    """Return `|R^T (p - c) / r|^2` in the plane through the ellipsoid's middle, (y, x)."""
    cos, sin = math.cos(math.radians(phi_deg)), math.sin(math.radians(phi_deg))
    off_x, off_y = x - center[0], (y - center[1])[:, None]
    along: Array = (cos * off_x + sin * off_y) / radii[0]
    across: Array = (cos * off_y - sin * off_x) / radii[1]
    return along**2 + across**2
