"""Transforms whose parameters are the coefficients of cubic B-splines."""

from __future__ import annotations

from typing import Self

import torch

from duotomo.errors import GeometryError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.transforms.models import LatticeModel
from duotomo.transforms.transform import Transform
from duotomo.transforms.units import field_scale

FEWEST = 4
"""Control points, along each axis, that determine every value of a cubic spline."""


class LatticeTransform(Transform):
    """A transform whose parameters are coefficients of cubic B-splines, one vector for each control point.

    The parameters are the coefficients in voxels, (xyz, z, y, x), flattened. The grid and the lattice of
    control points are those of `BSpline`.
    """

    def __init__(self, grid: VolumeGrid, lattice: VolumeGrid) -> None:
        _check_lattice(type(self).__name__, lattice.shape)
        self.grid, self.lattice = grid, lattice
        self.n_params = 3 * lattice.n_voxels

    @classmethod
    def over(cls, grid: VolumeGrid, control_shape: tuple[int, int, int]) -> Self:
        """Return the transform with a given number of control points that is complete on a grid's box.

        One control point lies outside on each side, so n points divide an axis into n - 3 intervals.

        Parameters
        ----------
        grid : VolumeGrid
            Grid whose box is covered, and whose voxels scale the parameters.
        control_shape : tuple of int
            Control points, (z, y, x), at least 4 along each axis.

        Returns
        -------
        LatticeTransform
            Of the class that this is called on.

        Raises
        ------
        GeometryError
            If there are fewer than 4 control points along an axis.
        """
        return cls(grid, control_lattice(cls.__name__, grid, control_shape))

    @classmethod
    def shaped(cls, control_shape: tuple[int, int, int]) -> LatticeModel:
        """Return the model with a given number of control points, on any grid.

        Parameters
        ----------
        control_shape : tuple of int
            Control points, (z, y, x), at least 4 along each axis.

        Returns
        -------
        LatticeModel
            Builds `over(grid, control_shape)`.
        """
        return LatticeModel(cls, control_shape=control_shape)

    @classmethod
    def spaced(cls, spacing_mm: float) -> LatticeModel:
        """Return the model with a given largest distance of control points, on any grid.

        Parameters
        ----------
        spacing_mm : float
            Largest distance of neighbouring control points, in mm.

        Returns
        -------
        LatticeModel
            Builds the transform with the fewest control points that have that distance or less.
        """
        return LatticeModel(cls, spacing_mm=spacing_mm)

    @property
    def control_spacing_mm(self) -> tuple[float, float, float]:
        return self.lattice.spacing_mm

    def lattice_parts(self) -> tuple[tuple[int, LatticeTransform], ...]:
        return ((0, self),)

    def coefficients_mm(self, params: torch.Tensor) -> torch.Tensor:
        """Return the coefficients of the splines.

        Parameters
        ----------
        params : torch.Tensor
            The same in voxels, flattened, (n_params,).

        Returns
        -------
        torch.Tensor
            (xyz, z, y, x), one per control point, in mm.
        """
        return params.reshape(3, *self.lattice.shape) * field_scale(self.grid, params)

    def _params_of(self, name: str, values_mm: torch.Tensor) -> torch.Tensor:
        """Return the parameters of coefficients, (xyz, z, y, x); `name` is that of the argument."""
        where, axes = type(self).__name__, ("xyz", "z", "y", "x")
        check_tensor(where, name, values_mm, shape=(3, *self.lattice.shape), axes=axes, batch_ok=False)
        return (values_mm.double() / field_scale(self.grid, values_mm)).reshape(-1)


def control_lattice(where: str, grid: VolumeGrid, control_shape: tuple[int, int, int]) -> VolumeGrid:
    """Return the control points of cubic splines that are complete on a grid's box."""
    _check_lattice(where, control_shape)
    d_z, d_y, d_x = (s / (n - 3) for s, n in zip(grid.size_mm, control_shape, strict=True))
    return VolumeGrid(shape=control_shape, spacing_mm=(d_z, d_y, d_x), center_mm=grid.center_mm)


def _check_lattice(where: str, shape: tuple[int, int, int]) -> None:
    if min(shape) < FEWEST:
        raise GeometryError(
            f"{where}: expected at least {FEWEST} control points along each of (z, y, x); got "
            f"{tuple(shape)}. A cubic spline needs {FEWEST}; use more, or an affine transform."
        )
