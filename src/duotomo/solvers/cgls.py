"""Conjugate gradients for least squares (Hestenes and Stiefel, 1952)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.objectives import ProjectionMisfit
from duotomo.solvers._checks import check_data_term, norm, start_or_none
from duotomo.solvers._progress import Progress
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution, Status
from duotomo.solvers.solver import Solver


@dataclass(frozen=True, kw_only=True)
class Cgls(Solver[ProjectionMisfit]):
    """Minimise `|A x - b|` by conjugate gradients on the normal equations, without forming `A^T A`.

    A and b are the operator and the data of a `ProjectionMisfit`, both times the roots of its weights.

    Step k minimises `|A x - b|` over `x_0 + span{s, (A^T A) s, ..., (A^T A)^(k-1) s}`, `s = A^T (b - A x_0)`.
    From zero it tends to the minimiser of least norm; stopped early, it regularises.

    In the history, objective is `|A x - b|^2 / 2`, its gradient `A^T (A x - b)`.

    Parameters
    ----------
    n_steps : int
        Steps, at most.
    tolerance : float
        Converged once `|A^T (b - A x)| <= tolerance * |A^T b|`.

    Examples
    --------
    >>> Cgls(n_steps=20)
    Cgls(n_steps=20, tolerance=0.0)
    """

    @torch.no_grad()
    def minimise(
        self,
        objective: ProjectionMisfit,
        start: torch.Tensor | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Minimise the misfit of projections, from zero if no start is given.

        The norms of the history are those of the recurrence, which in float32 drift from a residual computed
        afresh.

        Parameters
        ----------
        objective : ProjectionMisfit
            What is minimised.
        start : torch.Tensor, optional
            Initial guess, of the operator's domain; left as it is.
        on_step : callable, optional
            Called with each `Step`.
        """
        where = "Cgls.minimise"
        misfit = check_data_term(where, objective, "Use Lbfgs, which takes every objective.")
        progress = Progress(n_steps=self.n_steps, applications=lambda: misfit.applications, on_step=on_step)
        operator, data = misfit.whitened()
        guess = start_or_none(where, start, misfit)
        if guess is None:
            x, residual = data.new_zeros(operator.domain), data.clone()
        else:
            x, residual = guess, data - operator(guess)
        gradient = operator.adjoint(residual)
        slope, goal = norm(gradient), 0.0
        if self.tolerance > 0:
            # Measured against |A^T b|, not against the start, so that a good start has less to do.
            goal = self.tolerance * (slope if guess is None else norm(operator.adjoint(data)))
        if solution := progress.begin(x, norm(residual) ** 2 / 2, slope):
            return solution
        converged = f"The gradient fell to {self.tolerance:g} of that at zero."
        if slope <= goal:
            return progress.stop(x, Status.CONVERGED, converged)
        direction = gradient.clone()
        while progress.goes_on:
            image = operator(direction)
            curvature = norm(image) ** 2
            if curvature == 0:
                return progress.stop(x, Status.BREAKDOWN, "The operator takes the search direction to zero.")
            alpha = slope**2 / curvature
            residual.sub_(image, alpha=alpha)
            value = norm(residual) ** 2 / 2
            # Before the operator meets the residual, which it would refuse.
            if not (math.isfinite(curvature) and math.isfinite(value)):
                return progress.stop(x, Status.DIVERGED, "The residual is not finite any more.")
            gradient = operator.adjoint(residual)
            slope, slope_before = norm(gradient), slope
            if not math.isfinite(slope):
                return progress.stop(x, Status.DIVERGED, "The gradient is not finite any more.")
            x.add_(direction, alpha=alpha)
            progress.record(value, slope, alpha)
            if slope <= goal:
                return progress.stop(x, Status.CONVERGED, converged)
            direction.mul_((slope / slope_before) ** 2).add_(gradient)
        return progress.out_of_steps(x)
