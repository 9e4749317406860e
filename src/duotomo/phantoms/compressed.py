"""A phantom between the plates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.errors import check_lengths
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.compression import Compression
from duotomo.mechanics.mesh import Floats
from duotomo.phantoms.phantom import OversampledPhantom, Phantom
from duotomo.phantoms.rays import check_oversample
from duotomo.transforms import DisplacementField

_LATTICE_MM = 1.5
# Voxels that are warped at once: enough to keep all cores busy, few beside the volumes themselves.
_SLAB_VOXELS = 8_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressed(OversampledPhantom):
    """A phantom at rest, seen between the plates: `f(to_rest(x))`.

    The phantom is made once, at rest, and read from there by linear interpolation. Attenuation stays what it
    was, since tissue keeps its volume.

    Parameters
    ----------
    phantom : Phantom
        At rest.
    compression : Compression
        Of its body.
    rest_spacing_mm : float
        Voxels that the phantom is made on.
    margin_mm : float
        Further than this from the box around the body there is air; a nipple or other parts that stand out of
        the body need room.

    Examples
    --------
    >>> from duotomo.phantoms import Ellipsoid
    >>> from duotomo.mechanics.breast_shape import BreastShape
    >>> from duotomo.mechanics.compression import compress
    >>> shape = BreastShape(center_mm=(0.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))
    >>> body = Ellipsoid(center_mm=shape.center_mm, radii_mm=shape.radii_mm, value=0.05)
    >>> pressed = compress(shape, thickness_mm=40.0, refinements=1)
    >>> breast = Compressed(phantom=body, compression=pressed, rest_spacing_mm=2.0)
    >>> volume = breast.voxels(VolumeGrid.on_detector((25, 25, 50), (2.0, 2.0, 2.0)))
    >>> round(float(volume[10, 5, 25]), 6), float(volume[22, 5, 25])
    (0.05, 0.0)
    """

    phantom: Phantom
    compression: Compression
    rest_spacing_mm: float = 0.5
    margin_mm: float = 8.0

    def __post_init__(self) -> None:
        check_lengths("Compressed", "rest_spacing_mm", self.rest_spacing_mm)
        check_lengths("Compressed", "margin_mm", self.margin_mm)

    def voxels(self, grid: VolumeGrid, *, oversample: int = 1, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the mean attenuation over points of each voxel."""
        check_oversample("Compressed.voxels", oversample)
        rest_grid, rest = self._rest
        lattice = _around(grid)
        field = DisplacementField(lattice)
        params = field.params(displacement_mm=self.compression.field(lattice))
        volume = np.zeros(grid.shape, dtype=dtype)
        n_z, n_y, n_x = grid.shape
        n_slab = max(1, _SLAB_VOXELS // (n_y * n_x * oversample**3))
        for start in range(0, n_z, n_slab):
            slab = grid.slab(start, min(start + n_slab, n_z))
            if self._in_air(slab):
                continue
            warped = field.warp(params, rest_grid, slab.refine(oversample))(rest)
            cells = warped.reshape(slab.shape[0], oversample, n_y, oversample, n_x, oversample)
            volume[start : start + slab.shape[0]] = cells.mean(dim=(1, 3, 5)).numpy()
        return volume

    @cached_property
    def _rest(self) -> tuple[VolumeGrid, torch.Tensor]:
        # Twice the margin: between the plates it is narrower than it was at rest.
        grid = _covering(self.compression.rest_mm, 2 * self.margin_mm, self.rest_spacing_mm)
        return grid, torch.as_tensor(np.asarray(self.phantom.voxels(grid), dtype=np.float32))

    def _in_air(self, grid: VolumeGrid) -> bool:
        low = self.compression.moved_mm.min(axis=0) - self.margin_mm
        high = self.compression.moved_mm.max(axis=0) + self.margin_mm
        return bool((np.array(grid.low_mm[::-1]) > high).any() or (np.array(grid.high_mm[::-1]) < low).any())


def _covering(points_mm: Floats, margin_mm: float, spacing_mm: float) -> VolumeGrid:
    """Return cubic voxels that cover points, (point, xyz), and a margin around them.

    The lowest points lie on faces of voxels, so that none is cut by the chest wall.
    """
    low, high = points_mm.min(axis=0)[::-1], points_mm.max(axis=0)[::-1]
    n_margin = math.ceil(margin_mm / spacing_mm)
    n_z, n_y, n_x = (math.ceil(size) + 2 * n_margin for size in (high - low) / spacing_mm)
    z, y, x = (low + (np.array([n_z, n_y, n_x]) / 2 - n_margin) * spacing_mm).tolist()
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(spacing_mm,) * 3, center_mm=(z, y, x))


def _around(grid: VolumeGrid) -> VolumeGrid:
    """Return a lattice that reaches beyond the grid, since a displacement field fades where it ends."""
    n_z, n_y, n_x = (math.ceil(size / _LATTICE_MM) + 2 for size in grid.size_mm)
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(_LATTICE_MM,) * 3, center_mm=grid.center_mm)
