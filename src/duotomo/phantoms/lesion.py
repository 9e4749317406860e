"""What a lesion is."""

from __future__ import annotations

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
            (..., xyz), in mm.

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
