"""Phantoms that hold lesions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms.lesion import Lesion
from duotomo.phantoms.lesion_calcifications import CalcificationCluster
from duotomo.phantoms.lesion_mass import SpiculatedMass
from duotomo.phantoms.phantom import Phantom

__all__ = ["CalcificationCluster", "Lesion", "SpiculatedMass", "WithLesions"]


@dataclass(frozen=True, kw_only=True)
class WithLesions(Phantom):
    """A phantom with lesions in place of its tissue: `(1 - share) phantom + share lesion`, one after another.

    Parameters
    ----------
    phantom : Phantom
        Without them.
    lesions : tuple of Lesion
        Such as `SpiculatedMass` and `CalcificationCluster`.
    energy_kev : float
        Of the X-rays, for the lesions; that of the phantom, if it has one.

    Examples
    --------
    >>> from duotomo.phantoms.solids import Ellipsoid
    >>> ball = Ellipsoid(center_mm=(0.0, 20.0, 20.0), radii_mm=(15.0, 15.0, 15.0), value=0.05)
    >>> mass = SpiculatedMass(center_mm=(0.0, 20.0, 20.0), radius_mm=4.0, seed=1)
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> volume = WithLesions(phantom=ball, lesions=(mass,)).voxels(grid)
    >>> [round(float(volume[20, 20, x]), 5) for x in (20, 32)]
    [0.07858, 0.05]
    """

    phantom: Phantom
    lesions: tuple[Lesion, ...]
    energy_kev: float = 20.0

    def __post_init__(self) -> None:
        energy_kev = getattr(self.phantom, "energy_kev", self.energy_kev)
        if energy_kev != self.energy_kev:
            raise DuotomoError(
                f"WithLesions: expected the phantom's energy_kev, {energy_kev:g}; got {self.energy_kev:g}. "
                f"Give both the same X-rays."
            )

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean attenuation over each voxel, lesions included."""
        volume = self.phantom.voxels(grid, dtype=dtype)
        for lesion in self.lesions:
            value = lesion.attenuation_per_mm(self.energy_kev)
            # Slice by slice, so that the temporary arrays stay small.
            for layer, share in zip(volume, lesion.share(grid), strict=True):
                layer += (share * (value - layer)).astype(dtype, copy=False)
        return volume
