"""A cluster of calcifications."""

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


@dataclass(frozen=True, kw_only=True)
class CalcificationCluster(Lesion):
    """Small balls of calcium oxalate, scattered in a ball without touching.

    Parameters
    ----------
    center_mm : tuple of float
        Middle of the cluster, (x, y, z).
    spread_mm : float
        Radius of the ball that they are scattered in.
    n : int
        Grains.
    diameter_mm : float
        The mean; each grain has 0.6 to 1.4 of it.
    seed : int
        Of their places and sizes.

    Examples
    --------
    >>> cluster = CalcificationCluster(center_mm=(0, 20, 20), spread_mm=4.0, n=8, diameter_mm=0.3, seed=1)
    >>> cluster.grains_mm.shape
    (8, 4)
    """

    center_mm: tuple[float, float, float]
    spread_mm: float
    n: int
    diameter_mm: float
    seed: int

    def __post_init__(self) -> None:
        check_lengths("CalcificationCluster", "spread_mm", self.spread_mm)
        check_lengths("CalcificationCluster", "diameter_mm", self.diameter_mm)
        if self.n < 1:
            raise GeometryError(
                f"CalcificationCluster: expected n >= 1; got {self.n}. Leave the lesion out instead."
            )
        self.grains_mm  # noqa: B018 (finds out whether the grains fit)

    @cached_property
    def grains_mm(self) -> Floats:
        """The grains, (n, value): centre x, y, z and diameter."""
        rng = np.random.default_rng(self.seed)
        diameters = self.diameter_mm * rng.uniform(0.6, 1.4, size=self.n)
        grains = np.empty((0, 4))
        # The largest first, while there is room.
        for diameter in np.sort(diameters)[::-1]:
            for _ in range(1000):
                offset = rng.normal(size=3)
                offset *= self.spread_mm * rng.uniform() ** (1 / 3) / np.linalg.norm(offset)
                center = offset + self.center_mm
                apart = np.linalg.norm(grains[:, :3] - center, axis=1)
                if np.all(apart > (grains[:, 3] + diameter) / 2):
                    grains = np.vstack((grains, [*center, diameter]))
                    break
            else:
                raise GeometryError(
                    f"CalcificationCluster: expected room for n = {self.n} grains of {self.diameter_mm:g} "
                    f"mm; got spread_mm = {self.spread_mm:g}, which holds {len(grains)}. Spread them wider."
                )
        return grains

    @property
    def volume_mm3(self) -> float:
        """The volume of all grains."""
        return float(np.sum(math.pi / 6 * self.grains_mm[:, 3] ** 3))

    def contains(self, points_mm: Any) -> NDArray[np.bool_]:
        """Return whether points lie in a grain."""
        points = np.asarray(points_mm, dtype=np.float64)
        found = np.zeros(points.shape[:-1], dtype=bool)
        for x, y, z, diameter in self.grains_mm:
            found |= np.sum((points - (x, y, z)) ** 2, axis=-1) <= (diameter / 2) ** 2
        return found

    def share(self, grid: VolumeGrid) -> Floats:
        """Return how much of each voxel the grains fill, by volume, however small the grain."""
        share = np.zeros(grid.shape)
        for x, y, z, diameter in self.grains_mm:
            box = LesionBox.around(grid, (x, y, z), diameter / 2)
            if box.grid is not None:
                share[box.slices] += _ball_share(box.grid, (x, y, z), diameter)
        return np.minimum(share, 1.0)

    def attenuation_per_mm(self, energy_kev: float) -> float:
        """Return the attenuation of calcium oxalate."""
        return attenuation_per_mm(Tissue.CALCIFICATION, energy_kev=energy_kev)


def _ball_share(grid: VolumeGrid, center_mm: tuple[float, float, float], diameter_mm: float) -> Floats:
    """Return how much of each voxel a ball fills, (z, y, x).

    The ball is cut into bars along x, at least 24 by 24, whose overlaps with the voxels are exact. So neither
    the cost nor the volume depends on the voxels; scaling makes the volume that of the ball.
    """
    n = max(24, math.ceil(3 * diameter_mm / min(grid.spacing_mm)))
    cuts = diameter_mm * (np.arange(n + 1) / n - 0.5)
    middles_sq = ((cuts[1:] + cuts[:-1]) / 2) ** 2
    halves = np.sqrt(np.maximum((diameter_mm / 2) ** 2 - middles_sq[:, None] - middles_sq, 0.0))[..., None]
    z, y, x = (
        low + np.arange(count + 1, dtype=np.float64) * d - c
        for low, count, d, c in zip(grid.low_mm, grid.shape, grid.spacing_mm, center_mm[::-1], strict=True)
    )
    lengths = np.diff(np.clip(x, -halves, halves), axis=-1)
    in_rows = np.tensordot(_overlaps(y, cuts), lengths, axes=(1, 1))
    filled = np.tensordot(_overlaps(z, cuts), in_rows, axes=(1, 1))
    bars_mm3 = 2 * float(halves.sum()) * (diameter_mm / n) ** 2
    share: Floats = filled * (math.pi / 6 * diameter_mm**3 / bars_mm3 / math.prod(grid.spacing_mm))
    return share


def _overlaps(edges: Floats, cuts: Floats) -> Floats:
    """Return the length that each cell between edges shares with each between cuts, (cell, cut)."""
    shared: Floats = np.minimum(edges[1:, None], cuts[1:]) - np.maximum(edges[:-1, None], cuts[:-1])
    return np.maximum(shared, 0.0)
