"""A phantom that is made once for every grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.geometry import VolumeGrid
from duotomo.phantoms.phantom import Phantom


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
