"""Homogeneous solids: averaged over voxels, and integrated exactly along rays."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import check_lengths
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.phantoms.phantom import AnalyticPhantom, OversampledPhantom
from duotomo.phantoms.rays import Array, Interval, Rays, check_oversample, inside, pixel_means


class Solid(OversampledPhantom, AnalyticPhantom):
    """A body of one attenuation, whose chords along rays are known."""

    value: float

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 4) -> Array:
        """Return the exact integrals along the rays of a scan, their mean taken over each pixel."""
        return pixel_means(
            f"{type(self).__name__}.line_integrals",
            acquisition,
            oversample,
            lambda rays: self.value * inside(self._crossing(rays)),
        )

    @abstractmethod
    def _crossing(self, rays: Rays) -> Interval:
        """Return where rays enter and leave, as shares of the way from source to pixel."""


@dataclass(frozen=True, kw_only=True)
class Ellipsoid(Solid):
    """The points with `|(p - center_mm) / radii_mm| <= 1`, of one attenuation.

    Parameters
    ----------
    center_mm : tuple of float
        Middle, (x, y, z).
    radii_mm : tuple of float
        Half axes, (x, y, z).
    value : float
        Attenuation, 1/mm.

    Examples
    --------
    >>> ball = Ellipsoid(center_mm=(0.0, 20.0, 20.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> round(float(ball.voxels(grid)[20, 20, 20]), 6)
    0.05
    """

    center_mm: tuple[float, float, float]
    radii_mm: tuple[float, float, float]
    value: float

    def __post_init__(self) -> None:
        check_lengths("Ellipsoid", "radii_mm (x, y, z)", *self.radii_mm)

    def voxels(self, grid: VolumeGrid, *, oversample: int = 4, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean over each voxel: exact along x, over `oversample` lines along y and along z."""
        check_oversample("Ellipsoid.voxels", oversample)
        (cx, cy, cz), (rx, ry, rz) = self.center_mm, self.radii_mm
        z_sq = ((_samples(grid, 0, oversample) - cz) / rz) ** 2
        y_sq = ((_samples(grid, 1, oversample) - cy) / ry) ** 2
        edges = _edges(grid, 2)
        volume = np.zeros(grid.shape, dtype=dtype)
        for layer, slice_z_sq in zip(volume, z_sq, strict=True):
            rest = (1.0 - slice_z_sq - y_sq[..., None]).reshape(len(y_sq), -1)
            rows = np.flatnonzero((rest > 0).any(axis=1))
            half_chords = rx * np.sqrt(np.maximum(rest[rows], 0.0))
            layer[rows] = self.value * _covered(edges, cx, half_chords)
        return volume

    def _crossing(self, rays: Rays) -> Interval:
        return rays.seen_from(self.center_mm, np.diag(1 / np.asarray(self.radii_mm))).unit_ball()


@dataclass(frozen=True, kw_only=True)
class EllipticCylinder(Solid):
    """An upright elliptic cylinder with flat faces at `z = center_mm[2] +- height_mm / 2`.

    Parameters
    ----------
    center_mm : tuple of float
        Middle, (x, y, z).
    radii_mm : tuple of float
        Half axes, (x, y).
    height_mm : float
        Along z.
    value : float
        Attenuation, 1/mm.

    Examples
    --------
    >>> disc = EllipticCylinder(center_mm=(0.0, 20.0, 20.0), radii_mm=(8.0, 6.0), height_mm=10.0, value=0.05)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> round(float(disc.voxels(grid)[15, 20, 20]), 6)
    0.05
    """

    center_mm: tuple[float, float, float]
    radii_mm: tuple[float, float]
    height_mm: float
    value: float

    def __post_init__(self) -> None:
        check_lengths("EllipticCylinder", "radii_mm (x, y)", *self.radii_mm)
        check_lengths("EllipticCylinder", "height_mm", self.height_mm)

    def voxels(self, grid: VolumeGrid, *, oversample: int = 4, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean over each voxel: exact along x and z, over `oversample` lines along y."""
        check_oversample("EllipticCylinder.voxels", oversample)
        (cx, cy, cz), (rx, ry) = self.center_mm, self.radii_mm
        rest = 1.0 - ((_samples(grid, 1, oversample) - cy) / ry) ** 2
        section = self.value * _covered(_edges(grid, 2), cx, rx * np.sqrt(np.maximum(rest, 0.0)))
        shares = _covered(_edges(grid, 0), cz, np.full((1, 1), self.height_mm / 2))[0]
        volume = np.zeros(grid.shape, dtype=dtype)
        for layer, share in zip(volume, shares, strict=True):
            if share > 0:
                np.multiply(section, share, out=layer, casting="same_kind")
        return volume

    def _crossing(self, rays: Rays) -> Interval:
        (rx, ry), cz, half = self.radii_mm, self.center_mm[2], self.height_mm / 2
        enter, leave = rays.seen_from(self.center_mm, np.diag([1 / rx, 1 / ry, 0.0])).unit_ball()
        first, last = rays.slab(2, cz - half, cz + half)
        return np.maximum(enter, first), np.minimum(leave, last)


@dataclass(frozen=True, kw_only=True)
class Box(Solid):
    """The points with `|p - center_mm| <= size_mm / 2` along each axis, of one attenuation.

    Parameters
    ----------
    center_mm : tuple of float
        Middle, (x, y, z).
    size_mm : tuple of float
        Edges, (x, y, z).
    value : float
        Attenuation, 1/mm.

    Examples
    --------
    >>> box = Box(center_mm=(0.0, 20.0, 20.0), size_mm=(10.0, 8.0, 7.0), value=0.05)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> round(float(box.voxels(grid).sum()), 6)
    28.0
    """

    center_mm: tuple[float, float, float]
    size_mm: tuple[float, float, float]
    value: float

    def __post_init__(self) -> None:
        check_lengths("Box", "size_mm (x, y, z)", *self.size_mm)

    def voxels(self, grid: VolumeGrid, *, oversample: int = 4, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the exact mean attenuation over each voxel; `oversample` is without effect."""
        check_oversample("Box.voxels", oversample)
        z, y, x = (
            _covered(_edges(grid, axis), center, np.full((1, 1), size / 2))[0]
            for axis, (center, size) in enumerate(zip(self.center_mm[::-1], self.size_mm[::-1], strict=True))
        )
        section = self.value * y[:, None] * x
        volume = np.zeros(grid.shape, dtype=dtype)
        np.multiply(z[:, None, None], section, out=volume, casting="same_kind")
        return volume

    def _crossing(self, rays: Rays) -> Interval:
        slabs = [
            rays.slab(axis, center - size / 2, center + size / 2)
            for axis, (center, size) in enumerate(zip(self.center_mm, self.size_mm, strict=True))
        ]
        return np.maximum.reduce([enter for enter, _ in slabs]), np.minimum.reduce(
            [leave for _, leave in slabs]
        )


def _edges(grid: VolumeGrid, axis: int) -> Array:
    return grid.low_mm[axis] + np.arange(grid.shape[axis] + 1, dtype=np.float64) * grid.spacing_mm[axis]


def _samples(grid: VolumeGrid, axis: int, oversample: int) -> Array:
    """Return the middles of the `oversample` parts of each voxel along an axis, (voxel, part)."""
    part = (np.arange(oversample) + 0.5) / oversample
    return grid.low_mm[axis] + (np.arange(grid.shape[axis])[:, None] + part) * grid.spacing_mm[axis]


def _covered(edges: Array, center: float, halves: Array) -> Array:
    """Return the share of each cell that `center +- half` covers; halves (line, part), mean over parts."""
    offsets = edges - center
    total = np.zeros((len(halves), len(edges)))
    for half in halves.T:
        total += np.clip(offsets, -half[:, None], half[:, None])
    # Differences are linear, so the clipped edges may be summed before they are subtracted.
    covered: Array = np.diff(total, axis=1) / (np.diff(edges) * halves.shape[1])
    return covered
