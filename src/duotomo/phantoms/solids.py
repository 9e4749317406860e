"""Homogeneous solids: averaged over voxels, and integrated exactly along rays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid

Array = NDArray[np.float64]
Interval = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """The points with `|(p - center_mm) / radii_mm| <= 1`, of one attenuation `value`, 1/mm.

    center_mm, radii_mm: (x, y, z).

    >>> ball = Ellipsoid(center_mm=(0.0, 20.0, 20.0), radii_mm=(8.0, 8.0, 8.0), value=0.05)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> round(float(ball.voxels(grid)[20, 20, 20]), 6)
    0.05
    """

    center_mm: tuple[float, float, float]
    radii_mm: tuple[float, float, float]
    value: float

    def __post_init__(self) -> None:
        _check_positive("Ellipsoid", "radii_mm (x, y, z)", self.radii_mm)

    def voxels(self, grid: VolumeGrid, *, oversample: int = 4, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the solid averaged over each voxel, (z, y, x).

        The average is exact along x and taken over `oversample` lines along each of y and z.
        """
        _check_oversample("Ellipsoid.voxels", oversample)
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

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 4) -> Array:
        """Return exact integrals, the mean over `oversample` x `oversample` rays per pixel, (view, v, u)."""
        return _line_integrals(self, acquisition, oversample)

    def _crossing(self, source: Array, start: Array, step: Array, u: Array) -> Interval:
        radii = np.asarray(self.radii_mm)
        return _roots((source - self.center_mm) / radii, start / radii, step / radii, u)


@dataclass(frozen=True, kw_only=True)
class EllipticCylinder:
    """An upright elliptic cylinder with flat faces at `z = center_mm[2] +- height_mm / 2`.

    center_mm: (x, y, z). radii_mm: (x, y). value: attenuation, 1/mm.

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
        _check_positive("EllipticCylinder", "radii_mm (x, y)", self.radii_mm)
        _check_positive("EllipticCylinder", "height_mm", (self.height_mm,))

    def voxels(self, grid: VolumeGrid, *, oversample: int = 4, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the solid averaged over each voxel, (z, y, x).

        The average is exact along x and z and taken over `oversample` lines along y.
        """
        _check_oversample("EllipticCylinder.voxels", oversample)
        (cx, cy, cz), (rx, ry) = self.center_mm, self.radii_mm
        rest = 1.0 - ((_samples(grid, 1, oversample) - cy) / ry) ** 2
        section = self.value * _covered(_edges(grid, 2), cx, rx * np.sqrt(np.maximum(rest, 0.0)))
        shares = _covered(_edges(grid, 0), cz, np.full((1, 1), self.height_mm / 2))[0]
        volume = np.zeros(grid.shape, dtype=dtype)
        for layer, share in zip(volume, shares, strict=True):
            if share > 0:
                np.multiply(section, share, out=layer, casting="same_kind")
        return volume

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 4) -> Array:
        """Return exact integrals, the mean over `oversample` x `oversample` rays per pixel, (view, v, u)."""
        return _line_integrals(self, acquisition, oversample)

    def _crossing(self, source: Array, start: Array, step: Array, u: Array) -> Interval:
        radii = np.asarray(self.radii_mm)
        section = np.asarray(self.center_mm[:2])
        enter, leave = _roots((source[:2] - section) / radii, start[:, :2] / radii, step[:2] / radii, u)
        descent = start[:, 2, None] + step[2] * u
        face = (self.center_mm[2] - self.height_mm / 2 - source[2]) / descent
        other = (self.center_mm[2] + self.height_mm / 2 - source[2]) / descent
        return np.maximum(enter, np.minimum(face, other)), np.minimum(leave, np.maximum(face, other))


class _Convex(Protocol):
    @property
    def value(self) -> float: ...

    def _crossing(self, source: Array, start: Array, step: Array, u: Array) -> Interval:
        """Return where the rays `source + t (start + u step)` enter and leave; `t` is 1 on the detector."""
        ...


def _line_integrals(solid: _Convex, acquisition: Acquisition, oversample: int) -> Array:
    _check_oversample(f"{type(solid).__name__}.line_integrals", oversample)
    (n_v, n_u), (dv, du) = acquisition.detector_shape, acquisition.pixel_spacing_mm
    part = (np.arange(oversample) + 0.5) / oversample - 0.5
    # Sub-pixels lead and pixels trail, so that the average runs over whole contiguous rows.
    u = (part[:, None] + np.arange(n_u) - (n_u - 1) / 2).reshape(1, -1) * du
    v = (part + np.arange(n_v)[:, None] - (n_v - 1) / 2) * dv
    projections = np.zeros(acquisition.shape)
    vectors = (
        acquisition.sources_mm,
        acquisition.detector_centers_mm,
        acquisition.u_axes,
        acquisition.v_axes,
    )
    for image, source, center, u_axis, v_axis in zip(projections, *vectors, strict=True):
        for row, row_v in zip(image, v, strict=True):
            start = center - source + row_v[:, None] * v_axis
            enter, leave = solid._crossing(source, start, u_axis, u)
            # A ray is the segment from the source (t = 0) to the pixel (t = 1).
            inside = np.minimum(leave, 1.0, out=leave)
            inside -= np.maximum(enter, 0.0, out=enter)
            if inside.max() > 0:
                chord = np.maximum(inside, 0.0) * np.sqrt(_square(start, u_axis, u))
                row[:] = chord.reshape(oversample**2, n_u).mean(axis=0)
        image *= solid.value
    return projections


def _roots(origin: Array, start: Array, step: Array, u: Array) -> Interval:
    """Solve `|origin + t (start + u step)|^2 = 1` for t; a miss gives an empty interval."""
    a = np.maximum(_square(start, step, u), 1e-30)  # A ray along a cylinder's axis stays inside for ever.
    b = start @ origin[:, None] + (step @ origin) * u
    disc = b * b - (origin @ origin - 1.0) * a
    half = np.sqrt(np.maximum(disc, 0.0, out=disc), out=disc)
    half /= a
    middle = np.divide(b, a, out=b)
    return -middle - half, half - middle


def _square(start: Array, step: Array, u: Array) -> Array:
    """Return `|start + u step|^2` for each start (rows) and u (columns)."""
    linear = 2.0 * start @ step[:, None]
    constant = np.einsum("ij,ij->i", start, start)[:, None]
    square: Array = ((step @ step) * u + linear) * u + constant
    return square


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


def _check_positive(owner: str, name: str, values: Sequence[float]) -> None:
    if not all(np.isfinite(value) and value > 0 for value in values):
        raise GeometryError(f"{owner}: expected {name} > 0; got {tuple(values)}. Give lengths in mm.")


def _check_oversample(owner: str, oversample: int) -> None:
    if oversample < 1:
        raise GeometryError(f"{owner}: expected oversample >= 1; got {oversample}. 1 samples at the middle.")
