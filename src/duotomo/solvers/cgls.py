"""Conjugate gradients for least squares (Hestenes and Stiefel, 1952)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import check_same, check_tensor
from duotomo.operators import Counted, LinearOperator
from duotomo.solvers._checks import check_counts, check_tolerances, norm
from duotomo.solvers._progress import Progress
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution, Status


@dataclass(frozen=True, kw_only=True)
class Cgls:
    """Minimise `|A x - b|` by conjugate gradients on the normal equations, without forming `A^T A`.

    Step k minimises `|A x - b|` over `x_0 + span{s, (A^T A) s, ..., (A^T A)^(k-1) s}`, `s = A^T (b - A x_0)`.
    From zero it tends to the minimiser of least norm; stopped early, it regularises.

    In the history, objective is `|A x - b|^2 / 2`, its gradient `A^T (A x - b)`.

    n_steps: at most so many. tolerance: converged once `|A^T (b - A x)| <= tolerance * |A^T b|`.

    >>> Cgls(n_steps=20)
    Cgls(n_steps=20, tolerance=0.0)
    """

    n_steps: int
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        check_counts("Cgls", n_steps=self.n_steps)
        check_tolerances("Cgls", tolerance=self.tolerance)

    @torch.no_grad()
    def solve(
        self,
        operator: LinearOperator,
        data: torch.Tensor,
        *,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Return the `Solution` for `operator` A and `data` b, from `start` (zero when not given).

        data: of shape `operator.range`. start: of shape `operator.domain`; left as it is. on_step is called
        after each step. The norms are those of the recurrence, which in float32 drift from a residual
        computed afresh.
        """
        where = "Cgls.solve"
        check_tensor(where, "data", data, shape=operator.range, axes=operator.range_axes, batch_ok=False)
        counted = Counted(operator)
        progress = Progress(n_steps=self.n_steps, applications=lambda: counted.applications, on_step=on_step)
        if start is None:
            x = torch.zeros(operator.domain, dtype=data.dtype, device=data.device)
            residual = data.clone()
        else:
            check_tensor(
                where, "start", start, shape=operator.domain, axes=operator.domain_axes, batch_ok=False
            )
            check_same(where, "start", start, device=data.device, dtype=data.dtype)
            x = start.clone()
            residual = data - counted(x)
        gradient = counted.adjoint(residual)
        slope, goal = norm(gradient), 0.0
        if self.tolerance > 0:
            # Measured against |A^T b|, not against the start, so that a good start has less to do.
            goal = self.tolerance * (slope if start is None else norm(counted.adjoint(data)))
        if solution := progress.begin(x, norm(residual) ** 2 / 2, slope):
            return solution
        converged = f"The gradient fell to {self.tolerance:g} of that at zero."
        if slope <= goal:
            return progress.stop(x, Status.CONVERGED, converged)
        direction = gradient.clone()
        while progress.goes_on:
            image = counted(direction)
            curvature = norm(image) ** 2
            if curvature == 0:
                return progress.stop(x, Status.BREAKDOWN, "The operator takes the search direction to zero.")
            alpha = slope**2 / curvature
            residual.sub_(image, alpha=alpha)
            misfit = norm(residual) ** 2 / 2
            # Before the operator meets the residual, which it would refuse.
            if not (math.isfinite(curvature) and math.isfinite(misfit)):
                return progress.stop(x, Status.DIVERGED, "The residual is not finite any more.")
            gradient = counted.adjoint(residual)
            slope, slope_before = norm(gradient), slope
            if not math.isfinite(slope):
                return progress.stop(x, Status.DIVERGED, "The gradient is not finite any more.")
            x.add_(direction, alpha=alpha)
            progress.record(misfit, slope, alpha)
            if slope <= goal:
                return progress.stop(x, Status.CONVERGED, converged)
            direction.mul_((slope / slope_before) ** 2).add_(gradient)
        return progress.out_of_steps(x)
