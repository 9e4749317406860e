"""Truncated, damped Gauss-Newton: Levenberg and Marquardt's method without a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from duotomo.objectives import Objective
from duotomo.solvers._checks import check_counts, check_start, check_tolerances, norm, rounding
from duotomo.solvers._damped_cg import Product, newton_step
from duotomo.solvers._progress import Descent
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution, Status

_GOOD, _POOR, _ACCEPTED = 0.75, 0.25, 1e-4
_LESS, _MORE = 0.2, 8.0
_FIRST_DAMPING = 1e-2
_MOST_REJECTIONS = 10


@dataclass(frozen=True, kw_only=True)
class GaussNewton(Descent[Objective]):
    """Minimise an objective by steps d that solve `(H + mu M) d = -g`, H its curvature at x.

    The system is solved by preconditioned conjugate gradients, only as far as it pays. A trial is accepted
    if the objective falls by more than a small part of what the model promised; mu falls after good trials
    and grows after bad ones. The objective never grows. A rejected trial counts as a step.

    Parameters
    ----------
    n_steps : int
        Steps, at most.
    tolerance : float
        Converged once a step lowers the objective by no more than this part of it.
    gradient_tolerance : float
        Converged once the gradient has fallen to this part of its norm at the start.
    inner_steps : int
        Curvature products in each, at most.
    inner_tolerance : float
        By how much the residual of the system has to fall.
    damping : float
        mu at the start, in units of `p.H p / p.M p`, `p = -M^-1 g`.

    Examples
    --------
    >>> from duotomo.solvers import GaussNewton
    >>> GaussNewton(n_steps=5, inner_steps=10).damping
    0.0
    """

    inner_steps: int
    inner_tolerance: float = 0.1
    damping: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts("GaussNewton", inner_steps=self.inner_steps)
        check_tolerances("GaussNewton", inner_tolerance=self.inner_tolerance, damping=self.damping)

    @torch.no_grad()
    def minimise(
        self,
        objective: Objective,
        start: torch.Tensor,
        *,
        precondition: Callable[[torch.Tensor], Product] | None = None,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Minimise an objective that has a curvature from an initial guess.

        Parameters
        ----------
        objective, start
            As for `Solver.minimise`.
        precondition : callable, optional
            Called with x after each accepted step; returns the preconditioner, `r -> M^-1 r`, symmetric,
            positive definite and near `H^-1`. Without it, M is the identity.
        on_step
            As for `Solver.minimise`.

        Returns
        -------
        Solution
            Not converging is a status of it.
        """
        progress = self._progress(objective, on_step)
        x = check_start("GaussNewton.minimise", start, objective.shape)
        value, gradient = objective.value_and_gradient(x)
        if solution := progress.begin(x, value, norm(gradient)):
            return solution
        curvature, inverse = objective.curvature(x), precondition(x) if precondition else None
        damping, n_rejected = self.damping, 0
        while progress.goes_on:
            step = newton_step(
                gradient,
                curvature,
                precondition=inverse,
                damping=damping,
                n_steps=self.inner_steps,
                tolerance=self.inner_tolerance,
            )
            if step is None:
                reason = "The curvature is not positive, or not finite, along the gradient."
                return progress.stop(x, Status.BREAKDOWN, reason)
            if n_rejected == 0 and step.decrease <= rounding(x) * abs(value):
                return progress.at_rounding(x)
            trial = x + step.direction
            trial_value, trial_gradient = objective.value_and_gradient(trial)
            slope = norm(trial_gradient)
            finite = math.isfinite(trial_value) and math.isfinite(slope)
            ratio = (value - trial_value) / step.decrease if finite else -math.inf
            if ratio < _ACCEPTED:
                n_rejected += 1
                damping = max(_MORE * damping, _FIRST_DAMPING)
                progress.reject()
                if n_rejected == _MOST_REJECTIONS:
                    return progress.stuck(x, n_rejected, finite=finite)
                continue
            if ratio > _GOOD:
                damping *= _LESS
            elif ratio < _POOR:
                damping = max(2 * damping, _FIRST_DAMPING)
            x, value, gradient = trial, trial_value, trial_gradient
            if solution := progress.advance(x, value, slope, 1.0, held_back=n_rejected > 0):
                return solution
            n_rejected = 0
            if progress.goes_on:
                curvature, inverse = objective.curvature(x), precondition(x) if precondition else None
        return progress.out_of_steps(x)
