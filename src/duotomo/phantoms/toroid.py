"""A ring whose brightness varies around it, in a body of soft tissue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.phantoms.phantom import AnalyticPhantom, OversampledPhantom
from duotomo.phantoms.rays import Array, Rays, check_oversample, pixel_means, samples_mm
from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder

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


_MOST_NODES = 256
# The largest value of cos(phi) + sin(2 phi) / 2, reached at phi = 30 degrees.
_PEAK = 3 * math.sqrt(3) / 4


@dataclass(frozen=True, kw_only=True)
class Toroid(OversampledPhantom, AnalyticPhantom):
    """A torus about an axis along z, so that its ring lies parallel to the detector.

    `(sqrt(x^2 + y^2) - major)^2 + z^2 <= minor^2` about the centre, of attenuation `value * (1 + modulation *
    g(phi))`, added to the `body`'s, with phi the angle from x towards y and `g(phi) = (cos(phi) + sin(2 phi)
    / 2) / (3 sqrt(3) / 4)`, which lies in [-1, 1]. The cosine gives the ring a bright side, so that turning
    it about its own axis shows; the sine takes the mirror line through that side away, so that turning it
    over shows too. No rotation but the identity leaves the toroid as it is.

    Parameters
    ----------
    center_mm : tuple of float
        Middle, (x, y, z).
    major_radius_mm : float
        From the middle to that of the tube.
    minor_radius_mm : float
        Of the tube.
    value : float
        Mean attenuation, 1/mm.
    modulation : float
        0 for an even ring, below 1.
    body : Box, Ellipsoid or EllipticCylinder, optional
        What the ring lies in; a ring in air is a badly posed thing to reconstruct from few views.

    Examples
    --------
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
    body: Box | Ellipsoid | EllipticCylinder | None = None

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
        """Return the mean attenuation over points of each voxel, body included."""
        check_oversample("Toroid.voxels", oversample)
        n_z, n_y, n_x = grid.shape
        z, y, x = samples_mm(grid, oversample, self.center_mm)
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

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 4) -> Array:
        """Return the integrals along the rays of a scan, their mean taken over each pixel.

        An even ring's are exact. So are a modulated ring's chords; along each, the brightness is integrated
        by the rule of Gauss and Legendre, to about 1e-12 of the chord. The body's are added.
        """
        projections = pixel_means("Toroid.line_integrals", acquisition, oversample, self._integral)
        if self.body is not None:
            projections += self.body.line_integrals(acquisition, oversample=oversample)
        return projections

    def _integral(self, rays: Rays) -> Array:
        """Return the ring's integrals over t, (row, column), in units of the major radius throughout."""
        tube = self.minor_radius_mm / self.major_radius_mm
        ring = rays.seen_from(self.center_mm, np.eye(3) / self.major_radius_mm)
        lengths = ring.lengths()
        # Seen from the source the ring is small and far away; from each line's nearest point nothing cancels.
        along = np.stack([ring.along(axis) for axis in range(3)]) / lengths
        to_nearest = -np.tensordot(ring.source, along, axes=1)
        nearest = ring.source[:, None, None] + to_nearest * along
        near = np.sum(nearest * nearest, axis=0) < (1 + tube) ** 2
        integrals = np.zeros(lengths.shape)
        if near.any():
            points, directions, from_source = nearest[:, near], along[:, near], -to_nearest[near]
            ends = ring_chords(points, directions, tube)
            low, high = (np.clip(end, from_source, from_source + lengths[near]) for end in ends)
            chords = (high - low).sum(axis=0)
            if self.modulation > 0:
                chords += self.modulation * _angular(points, directions, low, high).sum(axis=0)
            integrals[near] = self.value * chords / lengths[near]
        return integrals


def _angular(points: Array, directions: Array, low: Array, high: Array) -> Array:
    """Return the integrals of g(phi) along `point + s direction`, low <= s <= high, (interval, line).

    points, directions: (xyz, line).
    """
    integrals = np.zeros(low.shape)
    met = high - low > 1e-12  # A shorter chord adds nothing that could be seen.
    if not met.any():
        return integrals
    (x, y), (dx, dy) = (
        np.broadcast_to(vectors[:2, None], (2, *low.shape))[:, met] for vectors in (points, directions)
    )
    middle, half = (low[met] + high[met]) / 2, (high[met] - low[met]) / 2
    total = np.zeros(len(half))
    nodes, weights = np.polynomial.legendre.leggauss(_n_nodes(x, y, dx, dy, middle, half))
    for node, weight in zip(nodes, weights, strict=True):
        s = middle + node * half
        at_x, at_y = x + s * dx, y + s * dy
        radius = np.hypot(at_x, at_y)
        cos, sin = at_x / radius, at_y / radius
        total += weight * cos * (1 + sin)  # cos(phi) sin(phi) = sin(2 phi) / 2
    integrals[met] = half * total / _PEAK
    return integrals


def _n_nodes(x: Array, y: Array, dx: Array, dy: Array, middle: Array, half: Array) -> int:
    """Return how many nodes of Gauss and Legendre's rule are enough for all of these chords.

    The rule's error falls as `rho^(-2 n)`, rho the sum of the half axes of the ellipse with foci at the ends
    (-1, 1) of the chord that passes through the nearest singularity: where, for a complex s, the line meets
    the torus's axis.
    """
    flat = np.maximum(dx * dx + dy * dy, 1e-12)  # Along an upright line phi is constant.
    singular = (-(x * dx + y * dy) + 1j * np.abs(x * dy - y * dx)) / flat
    z = (singular - middle) / half
    root = np.sqrt(z * z - 1)
    rho = np.maximum(np.abs(z + root), np.abs(z - root))
    slowest = float(np.min(rho, where=flat > 1e-12, initial=np.inf))
    return min(2 + math.ceil(math.log(1e12) / (2 * math.log(max(slowest, 1.01)))), _MOST_NODES)
