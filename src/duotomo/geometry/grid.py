"""The voxels of a volume."""

from __future__ import annotations

import math
from dataclasses import dataclass

from duotomo.errors import GeometryError
from duotomo.geometry._values import AsJson, counts, factors, lengths_mm
from duotomo.notebook.drawing import grid_html

_AXES = ("z", "y", "x")


@dataclass(frozen=True, kw_only=True)
class VolumeGrid(AsJson):
    """A box of equal voxels, its axes along the machine frame's.

    Along each axis, voxel i covers `low_mm + [i, i + 1] * spacing_mm`, with `low_mm = center_mm - size_mm /
    2`.

    Parameters
    ----------
    shape : tuple of int
        Voxels along (z, y, x).
    spacing_mm : tuple of float
        Edges of a voxel, (z, y, x).
    center_mm : tuple of float
        Middle of the box, (z, y, x).

    Examples
    --------
    >>> VolumeGrid(shape=(2, 4, 6), spacing_mm=(1, 0.5, 0.5), center_mm=(1, 1, 0)).high_mm
    (2.0, 2.0, 1.5)
    """

    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    center_mm: tuple[float, float, float]

    def __post_init__(self) -> None:
        where = "VolumeGrid"
        object.__setattr__(self, "shape", counts(where, "shape", self.shape, _AXES))
        spacing_mm = lengths_mm(where, "spacing_mm", self.spacing_mm, _AXES, positive=True)
        object.__setattr__(self, "spacing_mm", spacing_mm)
        center_mm = lengths_mm(where, "center_mm", self.center_mm, _AXES, positive=False)
        object.__setattr__(self, "center_mm", center_mm)

    @classmethod
    def on_detector(
        cls, shape: tuple[int, int, int], spacing_mm: tuple[float, float, float], *, gap_mm: float = 0.0
    ) -> VolumeGrid:
        """Return the grid that rests above the detector, at the chest wall, centred under the sweep.

        Its low faces are z = gap_mm and y = 0; x runs from -size/2 to size/2.

        Parameters
        ----------
        shape, spacing_mm
            As of the class.
        gap_mm : float
            From the detector to the lowest voxels.

        Returns
        -------
        VolumeGrid
            Of that shape and spacing.

        Examples
        --------
        >>> VolumeGrid.on_detector((2, 4, 6), (1.0, 0.5, 0.5), gap_mm=20).low_mm
        (20.0, 0.0, -1.5)
        """
        where = "VolumeGrid.on_detector"
        n_z, n_y, n_x = counts(where, "shape", shape, _AXES)
        d_z, d_y, d_x = lengths_mm(where, "spacing_mm", spacing_mm, _AXES, positive=True)
        return cls(
            shape=(n_z, n_y, n_x),
            spacing_mm=(d_z, d_y, d_x),
            center_mm=(gap_mm + n_z * d_z / 2, n_y * d_y / 2, 0.0),
        )

    @property
    def size_mm(self) -> tuple[float, float, float]:
        """Edges of the box (z, y, x): `shape * spacing_mm`."""
        z, y, x = (n * d for n, d in zip(self.shape, self.spacing_mm, strict=True))
        return z, y, x

    @property
    def low_mm(self) -> tuple[float, float, float]:
        """Outer faces (z, y, x) on the low side: `center_mm - size_mm / 2`."""
        z, y, x = (c - s / 2 for c, s in zip(self.center_mm, self.size_mm, strict=True))
        return z, y, x

    @property
    def high_mm(self) -> tuple[float, float, float]:
        """Outer faces (z, y, x) on the high side: `center_mm + size_mm / 2`."""
        z, y, x = (c + s / 2 for c, s in zip(self.center_mm, self.size_mm, strict=True))
        return z, y, x

    @property
    def n_voxels(self) -> int:
        """Number of voxels: the product of `shape`."""
        return math.prod(self.shape)

    def coarsen(self, factor: int | tuple[int, int, int]) -> VolumeGrid:
        """Return the grid whose voxels are unions of voxels of this one.

        The low corner stays; `shape = ceil(shape / factor)`, so the high faces may move outwards.

        Parameters
        ----------
        factor : int or tuple of int
            Voxels united along (z, y, x).

        Returns
        -------
        VolumeGrid
            With the same low corner.

        Examples
        --------
        >>> VolumeGrid.on_detector((5, 4, 6), (1, 1, 1)).coarsen(2).shape
        (3, 2, 3)
        """
        by = factors("VolumeGrid.coarsen", factor, _AXES)
        n_z, n_y, n_x = (-(-n // f) for n, f in zip(self.shape, by, strict=True))
        d_z, d_y, d_x = (d * f for d, f in zip(self.spacing_mm, by, strict=True))
        return self._from_low_corner((n_z, n_y, n_x), (d_z, d_y, d_x))

    def refine(self, factor: int | tuple[int, int, int]) -> VolumeGrid:
        """Return the grid that cuts every voxel into several; the box stays.

        Parameters
        ----------
        factor : int or tuple of int
            Into how many along (z, y, x).

        Returns
        -------
        VolumeGrid
            With the same box.

        Examples
        --------
        >>> VolumeGrid.on_detector((1, 2, 3), (1, 1, 1)).refine((1, 2, 2)).spacing_mm
        (1.0, 0.5, 0.5)
        """
        by = factors("VolumeGrid.refine", factor, _AXES)
        n_z, n_y, n_x = (n * f for n, f in zip(self.shape, by, strict=True))
        d_z, d_y, d_x = (d / f for d, f in zip(self.spacing_mm, by, strict=True))
        return self._from_low_corner((n_z, n_y, n_x), (d_z, d_y, d_x))

    def coarsened_to(self, most_voxels: int) -> VolumeGrid:
        """Return a grid over the same box, coarsened until few enough voxels are left.

        Parameters
        ----------
        most_voxels : int
            At most so many, 1 or more.

        Returns
        -------
        VolumeGrid
            This grid itself, if it has no more.

        Examples
        --------
        >>> VolumeGrid.on_detector((8, 8, 8), (1, 1, 1)).coarsened_to(100).shape
        (4, 4, 4)
        """
        factor = 1
        while self.coarsen(factor).n_voxels > max(1, most_voxels):
            factor += 1
        return self.coarsen(factor)

    def slab(self, start: int, stop: int) -> VolumeGrid:
        """Return some slices of this grid, for work that is done piece by piece.

        Parameters
        ----------
        start, stop : int
            The first slice along z, and the one after the last.

        Returns
        -------
        VolumeGrid
            Of `stop - start` slices, where they are.

        Raises
        ------
        GeometryError
            Unless `0 <= start < stop <= shape[0]`.

        Examples
        --------
        >>> VolumeGrid.on_detector((5, 4, 6), (2, 1, 1)).slab(1, 3).low_mm
        (2.0, 0.0, -3.0)
        """
        n_z, n_y, n_x = self.shape
        if not 0 <= start < stop <= n_z:
            raise GeometryError(
                f"VolumeGrid.slab: expected 0 <= start < stop <= {n_z}; got {start} and {stop}. Choose "
                f"slices of the grid."
            )
        middle_mm = self.low_mm[0] + (start + stop) / 2 * self.spacing_mm[0]
        return VolumeGrid(
            shape=(stop - start, n_y, n_x),
            spacing_mm=self.spacing_mm,
            center_mm=(middle_mm, *self.center_mm[1:]),
        )

    def _repr_html_(self) -> str:
        return grid_html(shape=self.shape, spacing_mm=self.spacing_mm, low_mm=self.low_mm)

    def _from_low_corner(
        self, shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]
    ) -> VolumeGrid:
        # Written as a shift of the centre, so that an unchanged size leaves it exactly where it was.
        z, y, x = (
            c + (n * d - s) / 2
            for c, n, d, s in zip(self.center_mm, shape, spacing_mm, self.size_mm, strict=True)
        )
        return VolumeGrid(shape=shape, spacing_mm=spacing_mm, center_mm=(z, y, x))
