"""Every solver of objectives, and every problem whose minimum is known, once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from duotomo.objectives import Objective
from duotomo.solvers import (
    GaussNewton,
    Lbfgs,
    LevenbergMarquardt,
    NonlinearCg,
    hager_zhang,
    polak_ribiere,
)

Solver = GaussNewton | Lbfgs | LevenbergMarquardt | NonlinearCg
SolverCase = tuple[str, Callable[..., Solver]]


class LeastSquares(Objective):
    """`1/2 |r(x)|^2` of a residual with a dense Jacobian; an evaluation or a product counts two applications.

    spoiled: evaluations after so many return NaN.
    """

    def __init__(
        self,
        n: int,
        residual: Callable[[torch.Tensor], torch.Tensor],
        jacobian: Callable[[torch.Tensor], torch.Tensor],
        *,
        spoiled: float = math.inf,
    ) -> None:
        self.shape, self.residual, self.jacobian, self.spoiled = (n,), residual, jacobian, spoiled
        self.n_evaluations, self.n_products = 0, 0

    @property
    def applications(self) -> int:
        return 2 * (self.n_evaluations + self.n_products)

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.n_evaluations += 1
        factor = math.nan if self.n_evaluations > self.spoiled else 1.0
        residual = factor * self.residual(x)
        return float(residual.double() @ residual.double()) / 2, self.jacobian(x).T @ residual

    def curvature(self, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        jacobian = self.jacobian(x)

        def product(d: torch.Tensor) -> torch.Tensor:
            self.n_products += 1
            return jacobian.T @ (jacobian @ d)

        return product

    def normal_equations(self, x: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        value, gradient = self.value_and_gradient(x)
        jacobian = self.jacobian(x)
        return value, gradient, jacobian.T @ jacobian


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An objective with a start and its minimiser."""

    objective: LeastSquares
    start: torch.Tensor
    minimiser: torch.Tensor


ProblemCase = tuple[str, Callable[[torch.dtype], Problem]]


def linear(m: int, n: int, *, spread: float, noise: float, seed: int = 5) -> Callable[[torch.dtype], Problem]:
    """Return `|A x - b|^2 / 2` with singular values of A from 1 to `spread`."""

    def build(dtype: torch.dtype) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        draw = torch.randn(m, n, generator=generator, dtype=torch.float64)
        u, _, vt = torch.linalg.svd(draw, full_matrices=False)
        matrix = u @ torch.diag(torch.logspace(0, math.log10(spread), n, dtype=torch.float64)) @ vt
        data = matrix @ torch.randn(n, generator=generator, dtype=torch.float64)
        data += noise * torch.randn(m, generator=generator, dtype=torch.float64)
        a, b = matrix.to(dtype), data.to(dtype)
        return Problem(
            objective=LeastSquares(n, lambda x: a @ x - b, lambda x: a),
            start=torch.zeros(n, dtype=dtype),
            minimiser=(torch.linalg.pinv(matrix) @ data).to(dtype),
        )

    return build


def rosenbrock(dtype: torch.dtype) -> Problem:
    """Return Rosenbrock's valley, `r = (10 (y - x^2), 1 - x)`, from its usual start."""

    def residual(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    def jacobian(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.stack([-20 * x[0], x.new_tensor(10.0)]), x.new_tensor([-1.0, 0.0])])

    return Problem(
        objective=LeastSquares(2, residual, jacobian),
        start=torch.tensor([-1.2, 1.0], dtype=dtype),
        minimiser=torch.ones(2, dtype=dtype),
    )


def decay(dtype: torch.dtype) -> Problem:
    """Return the fit of `a exp(-k t) + c` to samples of itself."""
    t = torch.linspace(0, 3, 12, dtype=torch.float64).to(dtype)
    truth = torch.tensor([2.0, 1.3, 0.4], dtype=dtype)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[0] * torch.exp(-x[1] * t) + x[2]

    def jacobian(x: torch.Tensor) -> torch.Tensor:
        fall = torch.exp(-x[1] * t)
        return torch.stack([fall, -x[0] * t * fall, torch.ones_like(t)], dim=1)

    return Problem(
        objective=LeastSquares(3, lambda x: model(x) - model(truth), jacobian),
        start=torch.tensor([1.0, 0.5, 0.0], dtype=dtype),
        minimiser=truth,
    )


def problems() -> list[ProblemCase]:
    """Return the name and the builder of every problem."""
    return [
        ("square system", linear(6, 6, spread=3.0, noise=0.0)),
        ("least squares", linear(15, 8, spread=5.0, noise=0.3)),
        ("ill-conditioned", linear(12, 9, spread=300.0, noise=0.1)),
        ("Rosenbrock", rosenbrock),
        ("exponential decay", decay),
    ]


def solvers() -> list[SolverCase]:
    """Return the name of every solver of objectives, and what builds it from its common settings."""

    def gauss_newton(**settings: float) -> GaussNewton:
        return GaussNewton(inner_steps=12, inner_tolerance=1e-6, **settings)  # type: ignore[arg-type]

    def polak(**settings: float) -> NonlinearCg:
        return NonlinearCg(beta=polak_ribiere, **settings)  # type: ignore[arg-type]

    def hager(**settings: float) -> NonlinearCg:
        return NonlinearCg(beta=hager_zhang, **settings)  # type: ignore[arg-type]

    return [
        ("L-BFGS", Lbfgs),
        ("conjugate gradients, Polak-Ribiere", polak),
        ("conjugate gradients, Hager-Zhang", hager),
        ("Gauss-Newton", gauss_newton),
        ("Levenberg-Marquardt", LevenbergMarquardt),
    ]
