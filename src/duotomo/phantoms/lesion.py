"""What a lesion is, and how much of the voxels it fills."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid


class Lesion(Protocol):
    """What can be put into a phantom, in place of its tissue."""

    def contains(self, points_mm: Any) -> NDArray[np.bool_]:
        """Return whether points lie in the lesion.

        Parameters
        ----------
        points_mm : array_like
            Points of the machine frame, (..., xyz), in mm.

        Returns
        -------
        numpy.ndarray
            (...), bool.
        """
        ...

    def share(self, grid: VolumeGrid) -> NDArray[np.float64]:
        """Return how much of each voxel the lesion fills.

        Parameters
        ----------
        grid : VolumeGrid
            The voxels.

        Returns
        -------
        numpy.ndarray
            (z, y, x), in [0, 1], float64.
        """
        ...

    def attenuation_per_mm(self, energy_kev: float) -> float:
        """Return the attenuation of what it is made of.

        Parameters
        ----------
        energy_kev : float
            Of the X-rays.

        Returns
        -------
        float
            1/mm.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class LesionBox:
    """The voxels of `whole` within `slices` (z, y, x), and the grid of these alone; None if there are none.

    >>> grid = VolumeGrid.on_detector((10, 10, 10), (1.0, 1.0, 1.0))
    >>> LesionBox.around(grid, (0.0, 5.0, 5.0), 1.5).grid.shape
    (4, 4, 4)
    """

    whole: VolumeGrid
    slices: tuple[slice, slice, slice]
    grid: VolumeGrid | None

    @classmethod
    def around(cls, whole: VolumeGrid, center_mm: Sequence[float], reach_mm: float) -> LesionBox:
        """Return the voxels of `whole` that a ball about center_mm (x, y, z) may touch."""
        axes = list(zip(whole.low_mm, whole.spacing_mm, whole.shape, list(center_mm)[::-1], strict=True))
        starts = [max(0, math.floor((c - reach_mm - low) / d)) for low, d, _, c in axes]
        stops = [min(n, math.ceil((c + reach_mm - low) / d)) for low, d, n, c in axes]
        z, y, x = (slice(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True))
        counts = [stop - start for start, stop in zip(starts, stops, strict=True)]
        if min(counts) < 1:
            return cls(whole=whole, slices=(z, y, x), grid=None)
        center = [
            low + (start + stop) / 2 * d
            for (low, d, _, _), start, stop in zip(axes, starts, stops, strict=True)
        ]
        grid = VolumeGrid(
            shape=(counts[0], counts[1], counts[2]),
            spacing_mm=whole.spacing_mm,
            center_mm=(center[0], center[1], center[2]),
        )
        return cls(whole=whole, slices=(z, y, x), grid=grid)

    def share(self, contains: Callable[[Any], NDArray[np.bool_]], apart_mm: float) -> NDArray[np.float64]:
        """Return the share of each voxel of the whole grid for which `contains(points_mm)` holds, (z, y, x).

        Counted over points at most `apart_mm` apart, and at least 2 along each edge of a voxel.
        """
        share = np.zeros(self.whole.shape)
        if self.grid is None:
            return share
        n_points = [max(2, math.ceil(d / apart_mm)) for d in self.grid.spacing_mm]
        z, y, x = (
            low + (np.arange(n * parts) + 0.5) * d / parts
            for low, n, parts, d in zip(
                self.grid.low_mm, self.grid.shape, n_points, self.grid.spacing_mm, strict=True
            )
        )
        _, n_y, n_x = self.grid.shape
        for layer, heights in zip(share[self.slices], z.reshape(-1, n_points[0]), strict=True):
            for height in heights:
                points = np.empty((len(y), len(x), 3))
                points[..., 0], points[..., 1], points[..., 2] = x, y[:, None], height
                layer += contains(points).reshape(n_y, n_points[1], n_x, n_points[2]).sum(axis=(1, 3))
        share[self.slices] /= math.prod(n_points)
        return share
