"""What a phantom is; one that is made once for every grid, and one that is shifted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.geometry import Acquisition, VolumeGrid


class Phantom(Protocol):
    """Anything that can be averaged over the voxels of a grid."""

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = ...) -> NDArray[Any]:
        """Return the mean attenuation over each voxel.

        Parameters
        ----------
        grid : VolumeGrid
            The voxels.
        dtype : dtype
            Of the array.

        Returns
        -------
        numpy.ndarray
            (z, y, x), 1/mm; the caller may write into it.
        """
        ...


class OversampledPhantom(Phantom, Protocol):
    """A phantom that is averaged over as many points of a voxel as asked for."""

    def voxels(self, grid: VolumeGrid, *, oversample: int = ..., dtype: DTypeLike = ...) -> NDArray[Any]:
        """Return the mean attenuation over points of each voxel.

        Parameters
        ----------
        grid
            As for `Phantom`.
        oversample : int
            Points along each edge of a voxel; 1 takes its middle.
        dtype
            As for `Phantom`.

        Returns
        -------
        numpy.ndarray
            As of `Phantom`.
        """
        ...


class AnalyticPhantom(Protocol):
    """Anything whose integrals along rays are known without a grid."""

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = ...) -> NDArray[np.float64]:
        """Return the mean over the rays of each pixel.

        Parameters
        ----------
        acquisition : Acquisition
            Whose rays.
        oversample : int
            Rays per pixel along v and along u.

        Returns
        -------
        numpy.ndarray
            (view, v, u), without unit.
        """
        ...


class Cached(Phantom):
    """A phantom that is made once for every grid, where several scans share it.

    Parameters
    ----------
    voxels : callable
        Returns attenuation, (z, y, x) in 1/mm, on a grid: the method `voxels` of another phantom, say.

    Examples
    --------
    >>> from duotomo.phantoms import Ellipsoid
    >>> ball = Ellipsoid(center_mm=(0.0, 4.0, 4.0), radii_mm=(3.0, 3.0, 3.0), value=0.05)
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> bool((Cached(ball.voxels).voxels(grid) == ball.voxels(grid)).all())
    True
    """

    def __init__(self, voxels: Callable[[VolumeGrid], NDArray[Any]]) -> None:
        self._voxels = voxels
        self._made: dict[VolumeGrid, NDArray[Any]] = {}

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the attenuation on a grid: a copy, which lesions may be written into."""
        if grid not in self._made:
            self._made[grid] = self._voxels(grid)
        return self._made[grid].astype(dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shifted(Phantom):
    """A phantom that is shifted as a whole, `f(x - shift)`.

    Parameters
    ----------
    phantom : Phantom
        Before the shift.
    shift_mm : tuple of float
        How far it is shifted, (x, y, z) in mm.

    Examples
    --------
    >>> from duotomo.phantoms import Ellipsoid
    >>> ball = Ellipsoid(center_mm=(0.0, 4.0, 4.0), radii_mm=(3.0, 3.0, 3.0), value=0.05)
    >>> there = Ellipsoid(center_mm=(1.0, 4.0, 4.0), radii_mm=(3.0, 3.0, 3.0), value=0.05)
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> np.allclose(Shifted(phantom=ball, shift_mm=(1.0, 0.0, 0.0)).voxels(grid), there.voxels(grid))
    True
    """

    phantom: Phantom
    shift_mm: tuple[float, float, float]

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean attenuation over each voxel."""
        z, y, x = (c - s for c, s in zip(grid.center_mm, self.shift_mm[::-1], strict=True))
        return self.phantom.voxels(replace(grid, center_mm=(z, y, x)), dtype=dtype)
