"""A phantom given by the voxels of a grid of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import DtypeError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms.phantom import Phantom

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled(Phantom):
    """A volume that is constant within each voxel of its own grid, and zero outside.

    Parameters
    ----------
    volume : numpy.ndarray
        Attenuation, (z, y, x) on `grid`, 1/mm. It is kept as given, not copied.
    grid : VolumeGrid
        Of the volume.

    Examples
    --------
    >>> fine = VolumeGrid.on_detector((2, 4, 4), (1.0, 0.5, 0.5))
    >>> phantom = Sampled(volume=np.arange(32.0).reshape(2, 4, 4), grid=fine)
    >>> phantom.voxels(fine.coarsen(2)).tolist()
    [[[10.5, 12.5], [18.5, 20.5]]]
    """

    volume: NDArray[Any]
    grid: VolumeGrid

    def __post_init__(self) -> None:
        if self.volume.dtype.kind not in "fiu":
            raise DtypeError(
                f"Sampled: expected volume of real numbers; got {self.volume.dtype}. "
                f"Convert it with .astype(np.float32)."
            )
        if self.volume.shape != self.grid.shape:
            raise ShapeError(
                f"Sampled: expected volume (z, y, x) = {self.grid.shape}; got {self.volume.shape}. "
                f"Pass the grid that the volume was sampled on."
            )
        # A sum is finite only if each of its terms is.
        if not np.isfinite(self.volume.sum(dtype=np.float64)):
            raise NonFiniteError(
                "Sampled: expected volume to be finite; got NaN or infinity. "
                "Replace them, for example with np.nan_to_num(...)."
            )

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the exact mean attenuation over each voxel.

        `f(k) = sum over s of volume(s) |voxel k and voxel s| / |voxel k|`, one axis after the other, since
        the overlap of two boxes is the product of their overlaps along the axes. A grid around the whole
        phantom therefore holds all of its attenuation, whatever the voxels.
        """
        in_z, in_y, in_x = (_Overlaps.of(grid, self.grid, axis) for axis in range(3))
        volume = np.zeros(grid.shape, dtype=dtype)
        # Slice by slice, so that nothing but a slice is held in float64.
        for layer, reached, shares in zip(volume, in_z.cells, in_z.shares, strict=True):
            if shares.any():
                section = np.einsum("z,zyx->yx", shares, self.volume[reached])
                layer[:] = in_x.mean(in_y.mean(section).T).T
        return volume


@dataclass(frozen=True, kw_only=True, eq=False)
class _Overlaps:
    """Along one axis, the phantom's cells that each cell of a grid reaches, and the share they have in it.

    cells, shares: (cell of the grid, cell reached).
    """

    cells: NDArray[np.intp]
    shares: Array

    @classmethod
    def of(cls, grid: VolumeGrid, phantom: VolumeGrid, axis: int) -> _Overlaps:
        width, step, n_steps = grid.spacing_mm[axis], phantom.spacing_mm[axis], phantom.shape[axis]
        low = grid.low_mm[axis] - phantom.low_mm[axis] + np.arange(grid.shape[axis])[:, None] * width
        cells = np.floor(low / step) + np.arange(math.ceil(width / step) + 1)
        common = np.minimum(low + width, (cells + 1) * step) - np.maximum(low, cells * step)
        within = (cells >= 0) & (cells < n_steps)
        shares = np.where(within, np.maximum(common, 0.0) / width, 0.0)
        return cls(cells=np.clip(cells, 0, n_steps - 1).astype(np.intp), shares=shares)

    def mean(self, values: Array) -> Array:
        """Return the means over the grid's cells, (cell, line), of values on the phantom's, (cell, line)."""
        means = np.zeros((len(self.cells), values.shape[1]))
        for reached, shares in zip(self.cells.T, self.shares.T, strict=True):
            means += shares[:, None] * values[reached]
        return means
