"""The joint misfit for fixed parameters, and for a fixed volume: objectives of an alternating solver."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives.norms import Scalar, normal_equations
from duotomo.objectives.objective import Objective, Pending, Product
from duotomo.objectives.term import BoundTerm, shown, shown_adjoint, warped, warped_adjoint
from duotomo.operators import LinearOperator, Warp


class VolumePart(Pending):
    """Joint misfit for fixed transforms, `F(f) = 1/2 sum over visits k of |sqrt(w_k) (A_k T_k B f - p_k)|^2`.

    A quadratic of f, (z, y, x). Made by `JointMisfit.volume_part`, whose projectors count its applications.

    Parameters
    ----------
    visits : sequence of (BoundTerm, Warp or None)
        The terms, each with its warp; None for the visit in whose frame the volume is.
    grid : VolumeGrid
        Of the volume.
    basis : LinearOperator, optional
        B, as for `JointMisfit`.
    """

    axes = ("z", "y", "x")

    def __init__(
        self,
        visits: Sequence[tuple[BoundTerm, Warp | None]],
        grid: VolumeGrid,
        basis: LinearOperator | None = None,
    ) -> None:
        self.visits, self.shape, self.basis = tuple(visits), grid.shape, basis
        self.operators = tuple(visit.misfit.operator for visit, _ in visits)

    def value(self, x: torch.Tensor) -> float:
        self.check(x)
        volume = shown(self.basis, x)
        return sum(visit.misfit.value(warped(warp, volume)) for visit, warp in self.visits)

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        self.check(x)
        total: Scalar = 0.0
        gradient, volume = None, shown(self.basis, x)
        for visit, warp in self.visits:
            value, image = visit.misfit.evaluate(warped(warp, volume))
            total, gradient = total + value, added(gradient, warped_adjoint(warp, image))
        assert gradient is not None
        return total, shown_adjoint(self.basis, gradient)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the Hessian product, `d -> sum over visits of B^T T^T A^T w A T B d`, the same for all x."""
        self.check(x)

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            total, volume = None, shown(self.basis, d)
            for visit, warp in self.visits:
                image = visit.misfit.hessian_product(warped(warp, volume))
                total = added(total, warped_adjoint(warp, image))
            assert total is not None
            return shown_adjoint(self.basis, total)

        return product


class ParamsPart(Objective):
    """Joint misfit for a fixed volume, as a function of all parameters.

    `F(zeta) = 1/2 sum over visits k with a transform of |sqrt(w_k) (A_k T_k(zeta_k) f - p_k)|^2`. The
    argument is the parameters of one visit after the other, float64 on the CPU. Visits without a transform
    add a constant, and are left out. The value is infinite where a transform is not defined, as in
    `JointMisfit`.

    Made by `JointMisfit.params_part`, whose projectors count its applications.

    Parameters
    ----------
    visits : sequence of BoundTerm
        The terms with a transform.
    volume : torch.Tensor
        f, (z, y, x), in 1/mm.

    Raises
    ------
    ShapeError
        If no visit has a transform.
    """

    axes = ("parameter",)

    def __init__(self, visits: Sequence[BoundTerm], volume: torch.Tensor) -> None:
        if not visits:
            raise ShapeError(
                "JointMisfit.params_part: expected at least one visit with a transform; got none. "
                "There are no parameters to find."
            )
        self.visits, self.volume = tuple(visits), volume
        self.shape = (sum(visit.n_params for visit in visits),)
        self.operators = tuple(visit.misfit.operator for visit in visits)

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the parameters of each visit.

        Parameters
        ----------
        x : torch.Tensor
            All parameters, (n_params,).

        Returns
        -------
        tuple of torch.Tensor
            Views of x, one (n_params,) for each visit.
        """
        self.check(x)
        return x.split_with_sizes([visit.n_params for visit in self.visits])

    def value(self, x: torch.Tensor) -> float:
        try:
            warps = [visit.warp(row) for visit, row in self._rows(x)]
        except GeometryError:
            return math.inf
        visits = zip(self.visits, warps, strict=True)
        return sum(visit.misfit.value(warped(warp, self.volume)) for visit, warp in visits)

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        total, slopes = 0.0, []
        try:
            for visit, row in self._rows(x):
                value, image = visit.misfit.value_and_gradient(warped(visit.warp(row), self.volume))
                total += value
                slopes.append(visit.pulled_back(row, self.volume, image))
        except GeometryError:
            return math.inf, torch.zeros_like(x)
        return total, torch.cat(slopes).to(x)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the Gauss-Newton product `d -> J^T w J d`, J the derivative of all `A_k T_k(zeta_k) f`."""
        rows = self._rows(x)

        def product(d: torch.Tensor) -> torch.Tensor:
            parts = []
            for (visit, row), along in zip(rows, self.split(d), strict=True):
                image = visit.misfit.hessian_product(visit.along(row, self.volume, along))
                parts.append(visit.pulled_back(row, self.volume, image))
            return torch.cat(parts).to(d)

        return product

    def normal_equations(self, params: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Return F, its gradient and the Gauss-Newton matrix.

        They take one projection per parameter and one per visit. Visits do not share parameters, so the
        matrix has one block for each.

        Parameters
        ----------
        params : torch.Tensor
            All parameters, (n_params,), at most 64 for each visit.

        Returns
        -------
        value : float
            F, a sum over the visits.
        gradient : torch.Tensor
            In all parameters, (n_params,), float64 on the CPU.
        matrix : torch.Tensor
            `J^T w J`, (n_params, n_params), float64 on the CPU.

        Raises
        ------
        ShapeError
            If a visit has more parameters.
        GeometryError
            If a transform is not defined.
        """
        total, start = 0.0, 0
        gradient = torch.zeros(self.shape, dtype=torch.float64)
        matrix = torch.zeros(self.shape * 2, dtype=torch.float64)
        for visit, row in self._rows(params):
            columns = visit.misfit.columns(visit.derivative_images(row, self.volume))
            residual = visit.misfit.residual(warped(visit.warp(row), self.volume))
            own = slice(start, start + visit.n_params)
            value, gradient[own], matrix[own, own] = normal_equations(columns, residual)
            total, start = total + value, own.stop
        return total, gradient, matrix

    def _rows(self, x: torch.Tensor) -> list[tuple[BoundTerm, torch.Tensor]]:
        return list(zip(self.visits, self.split(x), strict=True))


def added(total: torch.Tensor | None, part: torch.Tensor) -> torch.Tensor:
    """Return a sum with one more part, in place; the first part is a new tensor, and becomes the sum."""
    return part if total is None else total.add_(part)
