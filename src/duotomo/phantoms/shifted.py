"""A phantom that stands elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.geometry import VolumeGrid
from duotomo.phantoms.phantom import Phantom


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
