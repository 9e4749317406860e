"""Cubic B-spline free-form deformation."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.kernels.warp.reference import spline_weights
from duotomo.transforms.lattice_transform import LatticeTransform
from duotomo.transforms.maps import LatticeMap
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """Least-squares fit of a B-spline to a displacement field.

    Parameters
    ----------
    params : torch.Tensor
        Parameters of the spline, (n_params,), float64, in voxels.
    residual_mm : float
        Root mean square, over voxels, of the distance between spline and field, in mm.
    """

    params: torch.Tensor
    residual_mm: float


class BSpline(LatticeTransform):
    """Free-form deformation, `T(x) = x + sum over control points j of B((x - x_j) / spacing) c_j`.

    B is a product of three cubic B-splines. The parameters are the coefficients c in voxels, (xyz, z, y, x),
    flattened. The spline is complete between the second and the last but one control point of each axis, and
    decreases to zero within two spacings of the last one.

    Parameters
    ----------
    grid : VolumeGrid
        Grid whose voxels scale the parameters, and the default grid of warps.
    lattice : VolumeGrid
        Its voxel centres are the control points, at least 4 along each axis.

    Raises
    ------
    GeometryError
        If there are fewer than 4 control points along an axis.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((65, 65, 65), (1.0, 1.0, 1.0))
    >>> BSpline.over(grid, (9, 9, 9)).n_params
    2187
    """

    is_linear = True

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        return self.fit(motion.displacement(self.grid)).params

    def params(self, *, coefficients_mm: torch.Tensor) -> torch.Tensor:
        """Return the parameters of given coefficients.

        Parameters
        ----------
        coefficients_mm : torch.Tensor
            c, (xyz, z, y, x), one per control point, in mm.

        Returns
        -------
        torch.Tensor
            c, (n_params,), float64, in voxels.

        Raises
        ------
        ShapeError, DtypeError, NonFiniteError
            If these are no coefficients on the lattice.
        """
        return self._params_of("coefficients_mm", coefficients_mm)

    def maps(self, params: torch.Tensor) -> tuple[LatticeMap, ...]:
        return (LatticeMap(lattice=self.lattice, coefficients=self.coefficients_mm(params)),)

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the coefficients.

        Returns
        -------
        dict of str to torch.Tensor
            `coefficients_mm`, (xyz, z, y, x), one per control point, float64, in mm.
        """
        return {"coefficients_mm": self.coefficients_mm(self.check(params))}

    def refined(self, params: torch.Tensor) -> Motion:
        """Return the same deformation as a spline with half the spacing, exact where this one is complete.

        By the two-scale relation of cubic B-splines: `(c[j-1] + 6 c[j] + c[j+1]) / 8` at an old control
        point, `(c[j] + c[j+1]) / 2` between two.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,), float64.

        Returns
        -------
        Motion
            The finer spline with its parameters.
        """
        coefficients = self.coefficients_mm(self.check(params))
        for axis in (1, 2, 3):
            c = coefficients.movedim(axis, 0)
            n = len(c)
            fine = c.new_empty(2 * n - 3, *c.shape[1:])
            fine[0::2] = (c[:-1] + c[1:]) / 2
            fine[1::2] = (c[:-2] + 6 * c[1:-1] + c[2:]) / 8
            coefficients = fine.movedim(0, axis)
        n_z, n_y, n_x = coefficients.shape[1:]
        d_z, d_y, d_x = (d / 2 for d in self.lattice.spacing_mm)
        lattice = VolumeGrid(
            shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=self.lattice.center_mm
        )
        finer = BSpline(self.grid, lattice)
        return Motion(finer, finer.params(coefficients_mm=coefficients))

    def fit(self, displacement_mm: torch.Tensor, grid: VolumeGrid | None = None) -> Fit:
        """Return the spline nearest to a displacement field in the least-squares sense.

        Control points that act on no voxel stay at zero.

        Parameters
        ----------
        displacement_mm : torch.Tensor
            (xyz, z, y, x), at the voxel centres of `grid`, in mm.
        grid : VolumeGrid, optional
            Grid of the field; that of the transform unless given.

        Returns
        -------
        Fit
            Parameters and residual.

        Raises
        ------
        ShapeError, DtypeError, NonFiniteError
            If this is no field on the grid.
        """
        grid = grid or self.grid
        check_tensor(
            "BSpline.fit",
            "displacement_mm",
            displacement_mm,
            shape=(3, *grid.shape),
            axes=("xyz", "z", "y", "x"),
            batch_ok=False,
        )
        field = displacement_mm.double()
        bases = [axis_basis(self.lattice, grid, axis).to(field.device) for axis in range(3)]
        # The basis is a product over the axes, so its pseudo-inverse is one too.
        inverses = [torch.linalg.pinv(basis) for basis in bases]
        coefficients = torch.einsum("czyx,kz,jy,ix->ckji", field, *inverses)
        left = field - torch.einsum("ckji,zk,yj,xi->czyx", coefficients, *bases)
        residual = float(left.square().sum(dim=0).mean().sqrt())
        return Fit(params=self.params(coefficients_mm=coefficients), residual_mm=residual)


def axis_basis(lattice: VolumeGrid, grid: VolumeGrid, axis: int) -> torch.Tensor:
    """Return the weight of each control point at each voxel centre along one axis: (voxel, control point)."""
    n_voxels = grid.shape[axis]
    voxels_mm = torch.arange(n_voxels, dtype=torch.float64) - (n_voxels - 1) / 2
    return axis_weights(lattice, voxels_mm * grid.spacing_mm[axis] + grid.center_mm[axis], axis)


def axis_weights(lattice: VolumeGrid, at_mm: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the weight of each control point at places along one axis: (place, control point)."""
    n_points = lattice.shape[axis]
    at = (at_mm - lattice.center_mm[axis]) / lattice.spacing_mm[axis] + (n_points - 1) / 2
    below = at.floor()
    weights = spline_weights(at - below, 3)
    index = below.long()[:, None] - 1 + torch.arange(4)
    match = index[:, :, None] == torch.arange(n_points)
    return (weights[:, :, None] * match).sum(dim=1)
