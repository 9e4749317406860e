"""A breast that is a function of position: skin, fat, gland, ligaments, ducts and nipple, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.density import Density
from duotomo.phantoms.phantom import OversampledPhantom
from duotomo.phantoms.rays import check_oversample

if TYPE_CHECKING:
    from duotomo.phantoms.breast_anatomy import Parts

_SMALLEST_MM = 10.0


class BreastTissue(IntEnum):
    """The labels of `Breast.tissue_at`."""

    AIR = 0
    ADIPOSE = 1
    GLANDULAR = 2
    SKIN = 3
    LIGAMENT = 4
    DUCT = 5
    NIPPLE = 6


_MATERIALS = {
    BreastTissue.ADIPOSE: Tissue.ADIPOSE,
    BreastTissue.GLANDULAR: Tissue.GLANDULAR,
    BreastTissue.SKIN: Tissue.SKIN,
    BreastTissue.LIGAMENT: Tissue.LIGAMENT,
    BreastTissue.DUCT: Tissue.DUCT,
    BreastTissue.NIPPLE: Tissue.NIPPLE,
}


@dataclass(frozen=True, kw_only=True)
class Breast(OversampledPhantom):
    """An uncompressed breast of random anatomy, the same at every resolution.

    Fat and gland are mixed by a power-law texture, whose threshold is set so that gland, ligaments and ducts
    fill the share `density.fibroglandular_share` of the volume inside the skin. Nothing lies behind the chest
    wall.

    Parameters
    ----------
    shape : BreastShape
        The outline; the nipple stands out of it.
    density : Density
        BI-RADS density.
    seed : int
        Of the anatomy.
    energy_kev : float
        Of the X-rays.
    skin_mm : float
        Thickness of the skin.
    nipple_radius_mm : float
        Of the nipple; 0 for none.
    n_ducts : int
        Ducts that lead to the nipple.

    Examples
    --------
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 30.0), radii_mm=(40.0, 35.0, 25.0))
    >>> breast = Breast(shape=shape, density=Density.C, seed=1)
    >>> [tissue.name for tissue in map(BreastTissue, breast.tissue_at([[0, 34, 40], [0, 39, 30]]))]
    ['AIR', 'NIPPLE']
    """

    shape: BreastShape
    density: Density
    seed: int
    energy_kev: float = 20.0
    skin_mm: float = 1.5
    nipple_radius_mm: float = 5.0
    n_ducts: int = 10

    def __post_init__(self) -> None:
        if min(self.shape.radii_mm) < _SMALLEST_MM:
            raise GeometryError(
                f"Breast: expected radii_mm (x, y, z) >= {_SMALLEST_MM:g}; got {self.shape.radii_mm}. "
                f"Skin, ducts and lobules have sizes in mm, and need the room."
            )
        if not 0 <= self.skin_mm < min(self.shape.radii_mm):
            raise GeometryError(
                f"Breast: expected 0 <= skin_mm < the smallest radius; got {self.skin_mm}. "
                f"Skin is about 1.5 mm thick."
            )
        if not 0 <= self.nipple_radius_mm < min(self.shape.radii_mm):
            raise GeometryError(
                f"Breast: expected 0 <= nipple_radius_mm < the smallest radius; got {self.nipple_radius_mm}. "
                f"0 leaves the nipple out."
            )
        if self.n_ducts < 1:
            raise GeometryError(f"Breast: expected n_ducts >= 1; got {self.n_ducts}. About 10 are usual.")
        if self.seed < 0:
            raise GeometryError(
                f"Breast: expected seed >= 0; got {self.seed}. Any whole number from 0 on will do."
            )

    def at(self, points_mm: Any) -> NDArray[np.float64]:
        """Return the attenuation at points.

        Parameters
        ----------
        points_mm : array_like
            (..., xyz), in mm.

        Returns
        -------
        numpy.ndarray
            (...), 1/mm, float64.
        """
        from duotomo.phantoms.breast_anatomy import tissues_and_fields
        from duotomo.phantoms.breast_texture import fill_values

        points = self._local(points_mm)
        attenuation = np.empty(points.shape[:-1])
        tissues, fields = tissues_and_fields(self._parts, points.reshape(-1, 3))
        fill_values(self._parts[0], self._values, tissues, fields, attenuation.reshape(-1))
        return attenuation

    def tissue_at(self, points_mm: Any) -> NDArray[np.int8]:
        """Return the tissue at points: of fat and gland mixed, the larger.

        Parameters
        ----------
        points_mm
            As for `at`.

        Returns
        -------
        numpy.ndarray
            (...), values of `BreastTissue`, int8.
        """
        from duotomo.phantoms.breast_anatomy import tissues_and_fields

        points = self._local(points_mm)
        tissues, _ = tissues_and_fields(self._parts, points.reshape(-1, 3))
        return tissues.reshape(points.shape[:-1])

    def voxels(self, grid: VolumeGrid, *, oversample: int = 2, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean attenuation over points of each voxel."""
        from duotomo.kernels.threads import share
        from duotomo.phantoms.breast_texture import POINT_STEPS, fill_layer

        check_oversample("Breast.voxels", oversample)
        low = np.subtract(grid.low_mm, self.shape.center_mm[::-1])
        step = np.array(grid.spacing_mm)
        heights = low[0] + (np.arange(grid.shape[0] * oversample) + 0.5) * step[0] / oversample
        volume = np.empty(grid.shape, dtype=dtype)
        layer = np.empty(grid.shape[1:])
        parts, values = self._parts, self._values
        n_steps = POINT_STEPS * oversample**3 * layer.size
        for out, z in zip(volume, heights.reshape(-1, oversample), strict=True):
            call = partial(fill_layer, *parts, values, z, low[1:], step[1:], oversample, layer)
            share(call, len(layer), steps=n_steps)
            out[:] = layer
        return volume

    def _local(self, points_mm: Any) -> NDArray[np.float64]:
        points = np.asarray(points_mm, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] != 3:
            raise GeometryError(
                f"Breast: expected points_mm (..., xyz) with 3 coordinates; got shape {points.shape}. "
                f"The last axis holds x, y, z."
            )
        return np.ascontiguousarray(points - np.asarray(self.shape.center_mm))

    @property
    def _values(self) -> NDArray[np.float64]:
        values = np.zeros(len(BreastTissue))
        for tissue, material in _MATERIALS.items():
            values[tissue] = attenuation_per_mm(material, energy_kev=self.energy_kev)
        return values

    @cached_property
    def _parts(self) -> Parts:
        from duotomo.phantoms.breast_anatomy import draw_parts

        return draw_parts(
            np.random.default_rng(self.seed),
            np.array(self.shape.radii_mm, dtype=np.float64),
            skin_mm=self.skin_mm,
            nipple_radius_mm=self.nipple_radius_mm,
            n_ducts=self.n_ducts,
            dense_share=self.density.fibroglandular_share,
        )
