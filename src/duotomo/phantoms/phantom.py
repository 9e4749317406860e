"""What a phantom is."""

from __future__ import annotations

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
        grid : VolumeGrid
            The voxels.
        oversample : int
            Points along each edge of a voxel; 1 takes its middle.
        dtype : dtype
            Of the array.

        Returns
        -------
        numpy.ndarray
            (z, y, x), 1/mm; the caller may write into it.
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
