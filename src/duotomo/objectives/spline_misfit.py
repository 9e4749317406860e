"""An image misfit of a B-spline, with derivatives computed axis by axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.kernels.dispatch import warp_kernels
from duotomo.objectives.image_misfit import ImageMisfit
from duotomo.objectives.objective import Objective, Product
from duotomo.transforms import BSpline
from duotomo.transforms.bspline import axis_basis
from duotomo.transforms.units import field_scale

POINTS_PER_INTERVAL = 8
"""Blocks of voxels between two control points, about, on which products of slopes are summed."""

PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""Pairs of axes, of a symmetric matrix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slopes:
    """Slopes of the warped volume along x, y and z, per mm, (xyz, z, y, x), at given parameters."""

    params: torch.Tensor
    values: torch.Tensor


class SplineMisfit(Objective):
    """The image misfit of a B-spline, at the cost of two warps for a gradient, and of none for a curvature.

    A B-spline's displacement is `B c`, B the product of one small matrix per axis, so the derivative of the
    warp is `J d = sum over axes a of s_a (B d_a)`, s_a the slope of f at T(x). The gradient, `J^T r`, is
    exact. In the curvature, `B^T S B`, the products of slopes S are summed over blocks of voxels, about 8
    between two control points, over which B hardly varies.

    The argument x is that of the misfit.

    Parameters
    ----------
    misfit : ImageMisfit
        Whose transform is a `BSpline`, differentiated exactly.

    Raises
    ------
    DuotomoError
        If the transform is another, or the misfit takes central differences.
    """

    axes = ("parameter",)

    def __init__(self, misfit: ImageMisfit) -> None:
        if not isinstance(misfit.transform, BSpline) or misfit.central_step is not None:
            raise DuotomoError(
                f"SplineMisfit: expected the misfit of a BSpline with exact derivatives; got "
                f"{type(misfit.transform).__name__} with central_step={misfit.central_step}. Use the misfit "
                f"itself."
            )
        self.misfit, self.spline, self.shape = misfit, misfit.transform, misfit.shape
        lattice, moving = self.spline.lattice, misfit.moving
        z, y, x = (
            max(1, int(interval / POINTS_PER_INTERVAL / spacing + 1e-6))
            for interval, spacing in zip(lattice.spacing_mm, moving.spacing_mm, strict=True)
        )
        self.blocks = (z, y, x)
        like = misfit.volume
        self._bases = [axis_basis(lattice, moving, axis).to(like) for axis in range(3)]
        coarse = moving.coarsen(self.blocks)
        self._block_bases = [axis_basis(lattice, coarse, axis).to(like.device) for axis in range(3)]
        self._scale = field_scale(self.spline.grid, self.spline.identity())
        self._last: _Slopes | None = None

    def value(self, x: torch.Tensor) -> float:
        return self.misfit.value(x)

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.check(x)
        try:
            value, residual = self.misfit.compare(self.misfit.warped(x))
            gradient = along_axes_adjoint(self._slopes(x) * residual, self._bases)
        except GeometryError:
            return math.inf, torch.zeros_like(x)
        return value, self._in_params(gradient).to(x)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the Gauss-Newton product, the products of slopes being summed over blocks of voxels.

        Raises
        ------
        GeometryError
            If the transform is not defined.
        """
        self.check(x)
        sums = self._block_sums(x)
        bases = self._block_bases

        def product(d: torch.Tensor) -> torch.Tensor:
            moved = along_axes(self.spline.coefficients_mm(d.double()).to(sums.device), bases)
            total = sums[:3] * moved
            for (a, b), pair in zip(PAIRS[3:], sums[3:], strict=True):
                total[a].addcmul_(pair, moved[b])
                total[b].addcmul_(pair, moved[a])
            return self._in_params(along_axes_adjoint(total, bases)).to(d)

        return product

    def diagonal(self, x: torch.Tensor) -> torch.Tensor:
        """Return the diagonal of the curvature.

        Parameters
        ----------
        x : torch.Tensor
            Where it is taken, (n_params,).

        Returns
        -------
        torch.Tensor
            (n_params,), float64 on the CPU.
        """
        self.check(x)
        squares = [basis.square() for basis in self._block_bases]
        in_mm = along_axes_adjoint(self._block_sums(x)[:3], squares)
        return self._in_params(self._in_params(in_mm).reshape(in_mm.shape))

    def _in_params(self, gradient_mm: torch.Tensor) -> torch.Tensor:
        return (gradient_mm.double().cpu() * self._scale).reshape(-1)

    def _slopes(self, params: torch.Tensor) -> torch.Tensor:
        # The curvature is asked for where the gradient was taken last.
        if self._last is None or not torch.equal(self._last.params, params):
            misfit = self.misfit
            warp = self.spline.warp(params, misfit.reference, misfit.moving, cubic=misfit.cubic)
            values = misfit.volume.new_empty(3, *misfit.moving.shape)
            kernels = warp_kernels(values.device)
            kernels.slopes(misfit.volume, values, warp.point_map, cubic=misfit.cubic)
            for along, spacing_mm in zip(values, misfit.reference.spacing_mm, strict=True):
                along /= spacing_mm
            self._last = _Slopes(params=params.detach().clone(), values=values.flip(0))
        return self._last.values

    def _block_sums(self, params: torch.Tensor) -> torch.Tensor:
        """Return the sums over blocks of the products of two slopes, (pair, z, y, x), float64."""
        slopes = self._slopes(params)
        weighted = slopes * self.misfit.voxel_curvature(params)
        sums = []
        for a, b in PAIRS:
            # A divisor of 1 makes sums of means.
            total = torch.nn.functional.avg_pool3d(
                (weighted[a] * slopes[b])[None, None], self.blocks, ceil_mode=True, divisor_override=1
            )
            sums.append(total[0, 0].double())
        return torch.stack(sums)


def along_axes(coefficients: torch.Tensor, bases: list[torch.Tensor]) -> torch.Tensor:
    """Return `B c`: splines of coefficients (..., z, y, x) at places that are a product of three axes.

    `bases` are matrices (place, control point) along z, y and x.
    """
    in_z, in_y, in_x = bases
    rows = in_y @ (coefficients @ in_x.T)
    return (in_z @ rows.flatten(-2)).reshape(*rows.shape[:-3], -1, *rows.shape[-2:])


def along_axes_adjoint(values: torch.Tensor, bases: list[torch.Tensor]) -> torch.Tensor:
    """Return `B^T v`, the adjoint of `along_axes`."""
    in_z, in_y, in_x = bases
    planes = (in_z.T @ values.flatten(-2)).reshape(*values.shape[:-3], -1, *values.shape[-2:])
    return (in_y.T @ planes) @ in_x
