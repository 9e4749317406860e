"""The interface of transforms: a map of points by parameters, its warps, and their derivatives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from duotomo.errors import GeometryError, ShapeError, check_finite, check_same, check_tensor, finite_check
from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import warp_kernels
from duotomo.kernels.warp.point_map import PointMap
from duotomo.operators import Warp
from duotomo.operators.derivatives import eagerly, is_tracked, outside, plain
from duotomo.transforms.fitting import fitted_params
from duotomo.transforms.linearised import Linearised, matrix_derivatives
from duotomo.transforms.maps import (
    ElementaryMap,
    LatticeMap,
    grid_displacement,
    grid_map,
    map_points,
    map_tensors,
    move_points,
)

FEW_PARAMS = 64
"""Largest number of parameters for which derivative images, and the matrix of their products, are made."""

if TYPE_CHECKING:
    from duotomo.transforms.lattice_transform import LatticeTransform
    from duotomo.transforms.motion import Motion

Physical = Mapping[str, "torch.Tensor | Physical"]


class Transform(ABC):
    """Map from the moving frame to the reference frame, `x -> T(x)`, by parameters.

    The parameters are a float64 tensor, (n_params,), passed to every call; zeros are the identity. They are
    scaled so that a unit step of one moves the corners of `grid` by about a voxel; `physical` converts them
    to millimetres and degrees.

    A new transform sets `grid` and `n_params`, and implements `maps` and `physical`; all else follows. Warps
    resample a volume on a reference grid to a moving grid; both are `grid` unless given, and the moving grid
    is like the reference grid unless given.

    Attributes
    ----------
    grid : VolumeGrid
        Grid that scales the parameters, and the default grid of warps.
    n_params : int
        Number of parameters.
    is_linear : bool
        Whether `maps` is one map, and it is linear in the parameters but for a constant; coefficients are
        multiples of one parameter each. Derivatives in the parameters are then taken without autograd.
    """

    grid: VolumeGrid
    n_params: int
    is_linear: bool = False

    @abstractmethod
    def maps(self, params: torch.Tensor) -> tuple[ElementaryMap, ...]:
        """Return the matrices and lattices that T is composed of, differentiable in the parameters.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,), float64, checked already.

        Returns
        -------
        tuple of MatrixMap or LatticeMap
            Maps of points in mm, applied in this order.
        """

    @abstractmethod
    def physical(self, params: torch.Tensor) -> Physical:
        """Return the parameters in physical units.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).

        Returns
        -------
        dict of str to torch.Tensor
            By name, float64, in mm and degrees as the names say.
        """

    def identity(self) -> torch.Tensor:
        """Return the parameters of the identity.

        Returns
        -------
        torch.Tensor
            Zeros, (n_params,), float64 on the CPU.
        """
        return torch.zeros(self.n_params, dtype=torch.float64)

    @property
    def control_spacing_mm(self) -> tuple[float, float, float] | None:
        """Distance of the control points, (z, y, x) in mm; None for a transform without any."""
        return None

    def lattice_parts(self) -> tuple[tuple[int, LatticeTransform], ...]:
        """Return the parts of this transform that a bending energy applies to.

        Returns
        -------
        tuple of (int, LatticeTransform)
            Parts whose parameters are B-spline coefficients, each with the index of its first parameter; none
            for a transform without control points.
        """
        return ()

    def inverse(self, params: torch.Tensor) -> Motion | None:
        """Return the inverse in closed form.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).

        Returns
        -------
        Motion or None
            Reference frame to moving frame; None where there is no closed form, see `Motion.inverse`.
        """
        return None

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        """Return the parameters of this transform whose motion is nearest to another one.

        Parameters
        ----------
        motion : Motion
            The motion to approximate, of any transform.

        Returns
        -------
        torch.Tensor
            (n_params,), float64: the least-squares fit over points of `grid`, by Gauss-Newton steps from the
            identity. Transforms with a closed form override this.

        Raises
        ------
        DuotomoError
            If `maps` is not differentiable in the parameters, or the fit is not finite.
        """
        return fitted_params(self.maps, self.grid, self.n_params, motion)

    def check(self, params: torch.Tensor) -> torch.Tensor:
        """Return valid parameters in float64.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).

        Returns
        -------
        torch.Tensor
            The same in float64.

        Raises
        ------
        ShapeError
            If they are not (n_params,), or are a batch of `torch.func.vmap`.
        DtypeError, NonFiniteError
            If they are not finite floating-point numbers.
        """
        return self._check_row("params", params)

    def _check_row(self, name: str, row: torch.Tensor) -> torch.Tensor:
        where = type(self).__name__
        check_tensor(
            where, name, row, shape=(self.n_params,), axes=("parameter",), batch_ok=False, finite=False
        )
        values = plain(row)
        if values.shape != row.shape:
            raise ShapeError(
                f"{where}: expected {name} of one motion; got a batch of them, by torch.func.vmap. Write a "
                f"loop: torch.stack([transform.warp(row)(volume) for row in {name}])."
            )
        check_finite(where, name, values)
        return row.double()

    def points(self, params: torch.Tensor, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return where points go, differentiable in both arguments.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).
        xyz_mm : torch.Tensor
            Points x of the moving frame, (..., xyz), in mm.

        Returns
        -------
        torch.Tensor
            T(x), in the reference frame, (..., xyz), in mm, float64.
        """
        xyz_mm = _check_points(type(self).__name__, xyz_mm)
        return move_points(self.maps(self.check(params)), xyz_mm)

    def jacobian(self, params: torch.Tensor, xyz_mm: torch.Tensor) -> torch.Tensor:
        """Return the Jacobian, `dT_i / dx_j`, at points.

        Parameters
        ----------
        params, xyz_mm
            As for `points`.

        Returns
        -------
        torch.Tensor
            (..., i, j), float64, without unit.
        """
        xyz_mm = _check_points(type(self).__name__, xyz_mm)
        maps = self.maps(self.check(params))
        columns = []
        for axis in range(3):
            along = torch.zeros_like(xyz_mm)
            along[..., axis] = 1
            columns.append(torch.func.jvp(lambda at: move_points(maps, at), (xyz_mm,), (along,))[1])
        return torch.stack(columns, dim=-1)

    def warp(
        self,
        params: torch.Tensor,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        *,
        cubic: bool = False,
    ) -> Warp:
        """Return the operator `f -> f(T(.))`, from the reference grid to the moving grid.

        Gradients reach the parameters through it and through its adjoint, once: there are no second
        derivatives in the parameters.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).
        reference, moving : VolumeGrid, optional
            Grids of the volume and of the warped volume.
        cubic : bool
            Interpolate by Keys' cubic convolution instead of linearly.

        Returns
        -------
        Warp
            From (z, y, x) on the reference grid to (z, y, x) on the moving grid.

        Raises
        ------
        GeometryError
            If no voxel of the moving grid lands on the reference grid.
        """
        reference, moving = self._grids(reference, moving)
        return eagerly(_checked_warp)(self, params, reference, moving, cubic=cubic)

    def jvp(
        self,
        params: torch.Tensor,
        volume: torch.Tensor,
        d_params: torch.Tensor,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        *,
        cubic: bool = False,
        central_step: float | None = None,
    ) -> torch.Tensor:
        """Return the derivative of the warped volume along a direction, `grad f(T(x)) . dT(x)`.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).
        volume : torch.Tensor
            f, (..., z, y, x) on the reference grid, in 1/mm.
        d_params : torch.Tensor
            Direction d in the parameters, (n_params,).
        reference, moving, cubic
            As for `warp`.
        central_step : float, optional
            h: return `(T(p + h d) f - T(p - h d) f) / (2 h)` instead.

        Returns
        -------
        torch.Tensor
            (..., z, y, x) on the moving grid, detached.

        Raises
        ------
        GeometryError
            If no voxel of the moving grid lands on the reference grid, or `central_step` is not positive.
        """
        reference, moving = self._grids(reference, moving)
        params, d_params = self.check(params), self._check_row("d_params", d_params)
        self._check_volume(volume, reference)()
        if central_step is not None:
            self._check_step(central_step)
            ahead, behind = (
                self.warp(params + sign * central_step * d_params, reference, moving, cubic=cubic)
                for sign in (1, -1)
            )
            return (ahead(volume) - behind(volume)) / (2 * central_step)
        params = params.detach()
        warp = self.warp_of(params, reference, moving, cubic=cubic)
        tangents = self.tangents(params, d_params.detach(), reference, moving)
        volumes = volume.detach().reshape(-1, *reference.shape).contiguous()
        return warp.along(volumes, tangents).reshape(*volume.shape[:-3], *moving.shape)

    def vjp(
        self,
        params: torch.Tensor,
        volume: torch.Tensor,
        cotangent: torch.Tensor,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        *,
        cubic: bool = False,
        central_step: float | None = None,
    ) -> torch.Tensor:
        """Return the gradient in the parameters of `<T f, cotangent>`.

        Parameters
        ----------
        params, volume
            As for `jvp`.
        cotangent : torch.Tensor
            (..., z, y, x) on the moving grid, with the batch of `volume`.
        reference, moving, cubic, central_step
            As for `jvp`; the central differences are those of one parameter after the other.

        Returns
        -------
        torch.Tensor
            (n_params,), float64, summed over the batch.

        Raises
        ------
        GeometryError
            If no voxel of the moving grid lands on the reference grid, or `central_step` is not positive.
        """
        reference, moving = self._grids(reference, moving)
        params = self.check(params)
        where = type(self).__name__
        checks = [self._check_volume(volume, reference)]
        shape = (*volume.shape[:-3], *moving.shape)
        axes = (*(f"batch {i}" for i in range(volume.ndim - 3)), "z", "y", "x")
        check_tensor(where, "cotangent", cotangent, shape=shape, axes=axes, batch_ok=False, finite=False)
        check_same(where, "cotangent", cotangent, device=volume.device, dtype=volume.dtype)
        checks.append(finite_check(where, "cotangent", cotangent))
        if central_step is not None:
            for check in checks:
                check()
            images = self.derivative_images(
                params, volume, reference, moving, cubic=cubic, central_step=central_step
            )
            return (images.double() * cotangent.double()).flatten(1).sum(dim=1).to(params.device)
        linearised = Linearised(self, params, reference, moving, cubic=cubic)
        volumes = volume.detach().reshape(-1, *reference.shape).contiguous()
        cotangents = cotangent.detach().reshape(-1, *moving.shape).contiguous()
        parts = [linearised.pull_back(f, b) for f, b in zip(volumes, cotangents, strict=True)]
        for check in checks:
            check()
        gradient = torch.zeros_like(params.detach())
        for part in parts:
            gradient += part().to(gradient.device)
        return gradient

    def derivative_images(
        self,
        params: torch.Tensor,
        volume: torch.Tensor,
        reference: VolumeGrid | None = None,
        moving: VolumeGrid | None = None,
        *,
        cubic: bool = False,
        central_step: float | None = None,
    ) -> torch.Tensor:
        """Return the derivative of the warped volume in every parameter.

        Parameters
        ----------
        params, volume, reference, moving, cubic, central_step
            As for `jvp`.

        Returns
        -------
        torch.Tensor
            (parameter, ..., z, y, x) on the moving grid.

        Raises
        ------
        ShapeError
            If there are more than 64 parameters.
        GeometryError
            If no voxel of the moving grid lands on the reference grid, or `central_step` is not positive.
        """
        reference, moving = self._grids(reference, moving)
        params = self.check(params)
        if self.n_params > FEW_PARAMS:
            raise ShapeError(
                f"{type(self).__name__}: expected at most {FEW_PARAMS} parameters for one derivative image "
                f"each; got {self.n_params}. Use jvp and vjp, which need no images."
            )
        along = torch.eye(self.n_params, dtype=torch.float64, device=params.device)
        if central_step is not None or any(isinstance(one, LatticeMap) for one in self.maps(params)):
            return torch.stack(
                [
                    self.jvp(params, volume, d, reference, moving, cubic=cubic, central_step=central_step)
                    for d in along
                ]
            )
        self._check_volume(volume, reference)()
        point_map = self.warp_of(params.detach(), reference, moving, cubic=cubic).point_map
        derivatives = matrix_derivatives(self, params, reference, moving).view(3, 4, -1)
        volumes = volume.detach().reshape(-1, *reference.shape).contiguous()
        images = volume.new_empty(self.n_params, len(volumes), *moving.shape)
        slopes = volume.new_empty(3, *moving.shape)
        z, y, x = (torch.arange(n).to(volume) for n in moving.shape)
        for one, of_all in zip(volumes, images.unbind(1), strict=True):
            warp_kernels(volume.device).slopes(one, slopes, point_map, cubic=cubic)
            for image, matrix in zip(of_all, derivatives.unbind(-1), strict=True):
                image.zero_()
                for slope, (a, b, c, d) in zip(slopes, matrix.tolist(), strict=True):
                    if any((a, b, c, d)):
                        image.addcmul_(slope, (a * z + d)[:, None, None] + (b * y)[:, None] + c * x)
        return images.reshape(self.n_params, *volume.shape[:-3], *moving.shape)

    def displacement(self, params: torch.Tensor, grid: VolumeGrid | None = None) -> torch.Tensor:
        """Return the displacement, `T(x) - x`, at the voxel centres of a grid.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,).
        grid : VolumeGrid, optional
            Of the moving frame; that of the transform unless given.

        Returns
        -------
        torch.Tensor
            (xyz, z, y, x), in mm, float64.
        """
        return grid_displacement(self.maps(self.check(params)), grid or self.grid, params.device)

    def determinants(self, params: torch.Tensor, grid: VolumeGrid | None = None) -> torch.Tensor:
        """Return the determinant of the Jacobian at the voxel centres of a grid.

        T folds where it is not positive.

        Parameters
        ----------
        params, grid
            As for `displacement`.

        Returns
        -------
        torch.Tensor
            (z, y, x), float64: volume in the reference frame per volume in the moving frame.
        """
        grid = grid or self.grid
        point_map = grid_map(self.maps(self.check(params)), grid)
        values = params.new_empty(grid.shape, dtype=torch.float64)
        warp_kernels(values.device).determinants(values, point_map)
        return values

    def _grids(
        self, reference: VolumeGrid | None, moving: VolumeGrid | None
    ) -> tuple[VolumeGrid, VolumeGrid]:
        reference = reference or self.grid
        return reference, moving or reference

    def tangents(
        self, params: torch.Tensor, d_params: torch.Tensor, reference: VolumeGrid, moving: VolumeGrid
    ) -> tuple[torch.Tensor, ...]:
        """Return how matrices and coefficients of the map change along a direction in the parameters.

        Parameters
        ----------
        params, d_params : torch.Tensor
            Where, and the direction, (n_params,), float64, checked, without history.
        reference, moving : VolumeGrid
            Grids of the volume and of the warped volume.

        Returns
        -------
        tuple of torch.Tensor
            One of the shape of each of `Warp.tensors`.
        """
        if self.is_linear and self.lattice_parts():
            matrices, coefficients = map_tensors(self.maps(d_params), reference, moving)
            return torch.zeros_like(matrices), *coefficients
        tangents: tuple[torch.Tensor, ...] = torch.func.jvp(
            lambda p: _flat(map_tensors(self.maps(p), reference, moving)), (params,), (d_params,)
        )[1]
        return tangents

    def warp_of(
        self, params: torch.Tensor, reference: VolumeGrid, moving: VolumeGrid, *, cubic: bool
    ) -> Warp:
        """Return `warp` of parameters that are known to be some.

        Parameters
        ----------
        params : torch.Tensor
            Parameters, (n_params,), float64, checked.
        reference, moving, cubic
            As for `warp`.

        Returns
        -------
        Warp
            From (z, y, x) on the reference grid to (z, y, x) on the moving grid.
        """
        maps = self.maps(params)
        tensors = _flat(map_tensors(maps, reference, moving))

        def point_map(matrices: torch.Tensor, *coefficients: torch.Tensor) -> PointMap:
            return self._check_overlap(map_points(maps, (matrices, coefficients)), reference, moving)

        return Warp(
            outside(point_map, *tensors),
            domain=reference.shape,
            range=moving.shape,
            cubic=cubic,
            tensors=tensors if any(map(is_tracked, tensors)) else (),
        )

    def _check_overlap(self, point_map: PointMap, reference: VolumeGrid, moving: VolumeGrid) -> PointMap:
        last = np.array(reference.shape) - 1.0
        for with_lattices in (False, True):
            # Most often the matrices alone make the grids meet, and nobody need look at all coefficients.
            low, high = point_map.bounds(moving.shape, with_lattices=with_lattices)
            misses = (high <= -1) | (low >= last + 1)
            if not misses.any():
                return point_map
        axis = int(np.argmax(misses))
        raise GeometryError(
            f"{type(self).__name__}: expected the moving grid to land on the reference grid; got voxels "
            f"{low[axis]:.6g} to {high[axis]:.6g} along {'zyx'[axis]}, where the reference has 0 to "
            f"{last[axis]:.0f}. Check the grids' center_mm, or start from a transform that overlaps."
        )

    def _check_step(self, central_step: float) -> None:
        if not 0 < central_step < math.inf:
            raise GeometryError(
                f"{type(self).__name__}: expected a positive central_step; got {central_step}. Use 0.01, or "
                f"None for the exact derivative."
            )

    def _check_volume(self, volume: torch.Tensor, reference: VolumeGrid) -> Callable[[], None]:
        """Raise unless this is a volume on the grid; return what raises unless it is finite."""
        where, axes = type(self).__name__, ("z", "y", "x")
        check_tensor(where, "volume", volume, shape=reference.shape, axes=axes, finite=False)
        return finite_check(where, "volume", volume)


def _checked_warp(
    transform: Transform,
    params: torch.Tensor,
    reference: VolumeGrid,
    moving: VolumeGrid,
    *,
    cubic: bool,
) -> Warp:
    return transform.warp_of(transform.check(params), reference, moving, cubic=cubic)


def _flat(tensors: tuple[torch.Tensor, tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
    return tensors[0], *tensors[1]


def _check_points(where: str, xyz_mm: torch.Tensor) -> torch.Tensor:
    check_tensor(where, "xyz_mm", xyz_mm, shape=(3,), axes=("xyz",), finite=False)
    check_finite(where, "xyz_mm", plain(xyz_mm))
    return xyz_mm.double()
