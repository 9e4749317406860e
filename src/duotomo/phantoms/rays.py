"""Where a phantom is sampled: points of voxels, and rays from the source to points of pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid

Array = NDArray[np.float64]


def check_oversample(owner: str, oversample: int) -> None:
    """Raise unless there is at least one sample."""
    if oversample < 1:
        raise GeometryError(f"{owner}: expected oversample >= 1; got {oversample}. 1 samples at the middle.")


def samples_mm(
    grid: VolumeGrid, oversample: int, center_mm: tuple[float, float, float]
) -> tuple[Array, Array, Array]:
    """Return where `oversample` samples of each voxel are along z, y and x, from `center_mm`, xyz."""
    z, y, x = (
        low + (np.arange(n * oversample) + 0.5) * d / oversample - center
        for low, n, d, center in zip(grid.low_mm, grid.shape, grid.spacing_mm, center_mm[::-1], strict=True)
    )
    return z, y, x


Interval = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rays:
    """The rays `source + t (start + u step)` that meet some rows of pixels; t is 1 on the detector.

    source, step: (xyz). start: (row, xyz). u: (1, column).

    >>> rays = Rays(source=np.array([0.0, 0, 9]), start=np.array([[0.0, 0, -9]]), step=np.array([1.0, 0, 0]),
    ...             u=np.array([[0.0, 12.0]]))
    >>> rays.lengths().tolist()
    [[9.0, 15.0]]
    """

    source: Array
    start: Array
    step: Array
    u: Array

    def lengths(self) -> Array:
        """Return `|start + u step|`, from source to pixel, (row, column)."""
        linear = 2.0 * self.start @ self.step[:, None]
        constant = np.einsum("ij,ij->i", self.start, self.start)[:, None]
        lengths: Array = np.sqrt(((self.step @ self.step) * self.u + linear) * self.u + constant)
        return lengths

    def along(self, axis: int) -> Array:
        """Return one component of `start + u step`, (row, column)."""
        component: Array = self.start[:, axis, None] + self.step[axis] * self.u
        return component

    def seen_from(self, center: tuple[float, float, float], matrix: Array) -> Rays:
        """Return the rays in the coordinates `matrix (p - center)`; t keeps its meaning."""
        return Rays(
            source=matrix @ (self.source - np.asarray(center)),
            start=self.start @ matrix.T,
            step=matrix @ self.step,
            u=self.u,
        )

    def unit_ball(self) -> Interval:
        """Solve `|source + t d|^2 = 1` for t; a miss gives an empty interval, (row, column) each."""
        (x, y, z), (dx, dy, dz) = self.source, (self.along(axis) for axis in range(3))
        a = dx * dx + dy * dy + dz * dz
        # |s|^2 |d|^2 - (s . d)^2 = |s x d|^2: the product cancels only once where the difference does twice.
        disc = a - (y * dz - z * dy) ** 2 - (z * dx - x * dz) ** 2 - (x * dy - y * dx) ** 2
        # A ray along a cylinder's axis stays inside for ever, or outside.
        still = a == 0
        a[still], disc[still] = 1e-30, 1e-30 * (1 - self.source @ self.source)
        half = np.sqrt(np.maximum(disc, 0.0, out=disc), out=disc)
        half /= a
        middle = -(x * dx + y * dy + z * dz) / a
        return middle - half, middle + half

    def slab(self, axis: int, low: float, high: float) -> Interval:
        """Return where the rays lie in `low <= p[axis] < high`, (row, column) each.

        Solids that share a face share no ray: one that runs within a face lies above it.
        """
        descent = self.along(axis)
        descent[descent == 0.0] = 1e-30
        faces = (low - self.source[axis]) / descent, (high - self.source[axis]) / descent
        return np.minimum(*faces), np.maximum(*faces)


def inside(crossing: Interval) -> Array:
    """Return how much of each interval lies between the source (t = 0) and the pixel (t = 1)."""
    enter, leave = crossing
    share: Array = np.maximum(np.minimum(leave, 1.0) - np.maximum(enter, 0.0), 0.0)
    return share


def pixel_means(
    owner: str, acquisition: Acquisition, oversample: int, integral: Callable[[Rays], Array]
) -> Array:
    """Return the mean over `oversample` x `oversample` rays of each pixel, (view, v, u).

    integral: from rays to integrals over t, (row, column); the rays' lengths are multiplied here.
    """
    check_oversample(owner, oversample)
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
            rays = Rays(source=source, start=start, step=u_axis, u=u)
            integrals = integral(rays)
            if integrals.any():
                integrals = integrals * rays.lengths()
                row[:] = integrals.reshape(oversample**2, n_u).mean(axis=0)
    return projections
