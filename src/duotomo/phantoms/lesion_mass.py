"""A spiculated mass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError, check_lengths
from duotomo.geometry import VolumeGrid
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.lesion import Lesion, LesionBox

Floats = NDArray[np.float64]

_N_WAVES = 16
_HIGHEST_WAVE = 3.0
_N_PIECES = 4


@dataclass(frozen=True, kw_only=True)
class SpiculatedMass(Lesion):
    """A mass with an uneven border and thin bent spicules that run out of it.

    In direction n the core reaches `r(n) = s radius_mm (1 + irregularity w(n))` from the centre, with w a sum
    of random waves of unit variance and s such that the core has the volume of a ball of `radius_mm`.
    Spicules are 0.7 to 1.5 `radius_mm` long and taper from `0.12 radius_mm` to a quarter of that.

    Parameters
    ----------
    center_mm : tuple of float
        Middle of the mass, (x, y, z).
    radius_mm : float
        Of a ball of the same volume as the core.
    seed : int
        Of its border and its spicules.
    n_spicules : int
        0 gives the core alone.
    irregularity : float
        Of the border, 0 to 0.3; 0 gives a ball.

    Examples
    --------
    >>> mass = SpiculatedMass(center_mm=(0.0, 20.0, 20.0), radius_mm=4.0, seed=1)
    >>> bool(mass.contains([0.0, 20.0, 20.0])), bool(mass.contains([0.0, 20.0, 32.0]))
    (True, False)
    """

    center_mm: tuple[float, float, float]
    radius_mm: float
    seed: int
    n_spicules: int = 24
    irregularity: float = 0.15

    def __post_init__(self) -> None:
        check_lengths("SpiculatedMass", "radius_mm", self.radius_mm)
        if self.n_spicules < 0:
            raise GeometryError(
                f"SpiculatedMass: expected n_spicules >= 0; got {self.n_spicules}. 0 gives the core alone."
            )
        if not 0 <= self.irregularity <= 0.3:
            raise GeometryError(
                f"SpiculatedMass: expected 0 <= irregularity <= 0.3; got {self.irregularity}. "
                f"0 gives a ball; above 0.3 the border could reach the centre."
            )

    def contains(self, points_mm: Any) -> NDArray[np.bool_]:
        """Return whether points lie in the mass."""
        offsets = np.asarray(points_mm, dtype=np.float64) - self.center_mm
        xyz = np.ascontiguousarray(offsets.reshape(-1, 3).T)
        distance = np.sqrt(np.einsum("ij,ij->j", xyz, xyz))
        low_mm, high_mm = self._border_range_mm
        found: NDArray[np.bool_] = distance <= low_mm
        unsure = np.flatnonzero((distance > low_mm) & (distance <= high_mm))
        found[unsure] = distance[unsure] <= self._border_mm((xyz[:, unsure] / distance[unsure]).T)
        left = np.flatnonzero(~found & (distance <= self.reach_mm))
        xyz = xyz[:, left]
        low, high = xyz.min(axis=1, initial=math.inf), xyz.max(axis=1, initial=-math.inf)
        for start, end, radius, end_radius in self._pieces:
            near_low, near_high = np.minimum(start, end) - radius, np.maximum(start, end) + radius
            # A slice of voxels meets few of the pieces.
            if np.all((near_low <= high) & (near_high >= low)):
                near = _in_box(xyz, near_low, near_high)
                found[left[near]] |= _in_rod(xyz[:, near].T, start, end, radius, end_radius)
        return found.reshape(offsets.shape[:-1])

    @cached_property
    def reach_mm(self) -> float:
        """No point of the mass is farther from its centre."""
        tips_mm = [float(np.linalg.norm(end)) + radius for _, end, _, radius in self._pieces]
        return max([self._border_range_mm[1], *tips_mm])

    def share(self, grid: VolumeGrid) -> Floats:
        """Return how much of each voxel the mass fills.

        The mean over points at most a twentieth of the radius apart, at least 2 along each edge.
        """
        box = LesionBox.around(grid, self.center_mm, self.reach_mm)
        return box.share(self.contains, self.radius_mm / 20)

    def attenuation_per_mm(self, energy_kev: float) -> float:
        """Return the attenuation of the mass."""
        return attenuation_per_mm(Tissue.MASS, energy_kev=energy_kev)

    @cached_property
    def _waves(self) -> tuple[Floats, Floats, float]:
        rng = np.random.default_rng((self.seed, 0))
        vectors = rng.normal(size=(_N_WAVES, 3)) * rng.uniform(1.0, 5.0, size=(_N_WAVES, 1))
        phases = rng.uniform(0, 2 * math.pi, size=_N_WAVES)
        cubes = (1 + self.irregularity * _wave(_sphere(4000), vectors, phases)) ** 3
        return vectors, phases, float(np.mean(cubes)) ** (-1 / 3)

    @property
    def _border_range_mm(self) -> tuple[float, float]:
        mean_mm, swing = self._waves[2] * self.radius_mm, _HIGHEST_WAVE * self.irregularity
        return mean_mm * (1 - swing), mean_mm * (1 + swing)

    def _border_mm(self, directions: Floats) -> Floats:
        vectors, phases, scale = self._waves
        return scale * self.radius_mm * (1 + self.irregularity * _wave(directions, vectors, phases))

    @cached_property
    def _pieces(self) -> tuple[tuple[Floats, Floats, float, float], ...]:
        """Return the pieces of the spikes: their ends, from the centre, and the radii there, mm."""
        rng = np.random.default_rng((self.seed, 1))
        pieces = []
        for n in _sphere(self.n_spicules):
            heading = n + 0.35 * rng.normal(size=3)
            heading /= np.linalg.norm(heading)
            # Rooted inside the core, so that no spike floats.
            point = 0.8 * self._border_mm(heading[None]) * heading
            step = self.radius_mm * rng.uniform(0.7, 1.5) / _N_PIECES
            widths = self.radius_mm * 0.12 * np.linspace(1.0, 0.25, _N_PIECES + 1)
            for i in range(_N_PIECES):
                heading = heading + 0.15 * rng.normal(size=3)
                heading /= np.linalg.norm(heading)
                end = point + step * heading
                pieces.append((point, end, float(widths[i]), float(widths[i + 1])))
                point = end
        return tuple(pieces)


def _wave(directions: Floats, vectors: Floats, phases: Floats) -> Floats:
    """Return the sum of waves at directions (n, xyz), of unit variance and cut off at +-3."""
    total = np.sqrt(2 / len(phases)) * np.cos(directions @ vectors.T + phases).sum(axis=1)
    wave: Floats = np.clip(total, -_HIGHEST_WAVE, _HIGHEST_WAVE)
    return wave


def _sphere(n: int) -> Floats:
    """Return directions spread evenly over the sphere, (n, xyz): a spiral of golden-angle steps."""
    i = np.arange(n)
    z = 1 - (2 * i + 1) / max(n, 1)
    around = i * math.pi * (3 - math.sqrt(5))
    across = np.sqrt(1 - z * z)
    return np.stack((across * np.cos(around), across * np.sin(around), z), axis=-1)


def _in_box(xyz: Floats, low: Floats, high: Floats) -> NDArray[np.int64]:
    """Return which points (xyz, n) lie in a box, by number."""
    near = np.arange(xyz.shape[1])
    for axis in range(3):
        values = xyz[axis, near]
        near = near[(values >= low[axis]) & (values <= high[axis])]
    return near


def _in_rod(
    points: Floats, start: Floats, end: Floats, radius: float, end_radius: float
) -> NDArray[np.bool_]:
    """Return which points (n, xyz) lie in a rod from start to end, rounded, of linearly changing radius."""
    axis = end - start
    along = np.clip((points - start) @ axis / (axis @ axis), 0.0, 1.0)
    off = points - start - along[:, None] * axis
    inside: NDArray[np.bool_] = (
        np.einsum("ij,ij->i", off, off) <= (radius + along * (end_radius - radius)) ** 2
    )
    return inside
