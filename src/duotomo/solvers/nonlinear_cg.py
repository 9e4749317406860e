"""Nonlinear conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from duotomo.objectives import Objective
from duotomo.solvers._checks import check_first_step, check_start, dot, norm
from duotomo.solvers._progress import Descent
from duotomo.solvers.history import OnStep
from duotomo.solvers.line_search import NotFound, StrongWolfe
from duotomo.solvers.solution import Solution

Beta = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], float]
"""`(gradient, gradient_before, direction_before) -> beta`, all of the shape of x."""


def polak_ribiere(
    gradient: torch.Tensor, gradient_before: torch.Tensor, direction_before: torch.Tensor
) -> float:
    """Return `max(0, g.y / |g_before|^2)`, `y = g - g_before` (Polak and Ribiere, 1969; Powell, 1984).

    Parameters
    ----------
    gradient, gradient_before, direction_before : torch.Tensor
        Of the shape of x.

    Returns
    -------
    float
        The share of the direction before in the next one.

    Examples
    --------
    >>> polak_ribiere(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]))
    4.0
    """
    changed = gradient - gradient_before
    return max(0.0, dot(gradient, changed) / dot(gradient_before, gradient_before))


def hager_zhang(
    gradient: torch.Tensor, gradient_before: torch.Tensor, direction_before: torch.Tensor
) -> float:
    """Return `(y - 2 d |y|^2 / d.y).g / d.y`, bounded from below (Hager and Zhang, 2005).

    d is the direction before. The direction that follows is one of descent whatever the line search.

    Parameters
    ----------
    gradient, gradient_before, direction_before
        As for `polak_ribiere`.

    Returns
    -------
    float
        As there.

    Examples
    --------
    >>> hager_zhang(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0]))
    4.0
    """
    changed = gradient - gradient_before
    product = dot(direction_before, changed)
    if product == 0:
        return 0.0
    along = 2 * dot(changed, changed) * dot(direction_before, gradient) / product
    beta = (dot(changed, gradient) - along) / product
    bound = -1 / (norm(direction_before) * min(0.01, norm(gradient_before)))
    return max(beta, bound)


@dataclass(frozen=True, kw_only=True)
class NonlinearCg(Descent[Objective]):
    """Minimise an objective by steps along `d = -g + beta d_before`.

    Where that does not lead down, or too little, d starts again from `-g`. The objective never grows by more
    than rounding.

    Parameters
    ----------
    n_steps, tolerance, gradient_tolerance
        As for `GaussNewton`.
    beta : callable
        `hager_zhang`, `polak_ribiere`, or another function of the gradient, the gradient before and the
        direction before.
    first_step : float
        Length of the first trial, in the units of x.
    line_search : StrongWolfe
        Chooses the step size; conjugacy needs a close one.

    Examples
    --------
    >>> NonlinearCg(n_steps=50, beta=polak_ribiere).line_search.curvature
    0.1
    """

    beta: Beta = hager_zhang
    tolerance: float = 1e-9
    first_step: float = 1.0
    line_search: StrongWolfe = field(default_factory=lambda: StrongWolfe(curvature=0.1))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_first_step("NonlinearCg", self.first_step)

    @torch.no_grad()
    def minimise(
        self,
        objective: Objective,
        start: torch.Tensor,
        *,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Minimise any objective from an initial guess."""
        progress = self._progress(objective, on_step)
        x = check_start("NonlinearCg.minimise", start, objective.shape)
        value, gradient = objective.value_and_gradient(x)
        size = norm(gradient)
        if solution := progress.begin(x, value, size):
            return solution
        direction, slope, step, fresh = -gradient, -(size**2), self.first_step / size, True
        while progress.goes_on:
            found = self.line_search.search(
                objective, x, direction, value=value, gradient=gradient, first=step
            )
            if isinstance(found, NotFound):
                if fresh:
                    return progress.stuck(x, found.n_evaluations, finite=found.finite)
                step *= slope / -(size**2)
                direction, slope, fresh = -gradient, -(size**2), True
                continue
            beta = self.beta(found.gradient, gradient, direction)
            x, value, gradient = found.x, found.value, found.gradient
            size = norm(gradient)
            if solution := progress.advance(x, value, size, found.step):
                return solution
            direction.mul_(beta).sub_(gradient)
            slope_before, slope, fresh = slope, dot(direction, gradient), False
            if not slope < -1e-10 * size * norm(direction):
                direction, slope, fresh = -gradient, -(size**2), True
            # As if this step changed the objective, to first order, as much as the last one did.
            step = found.step * slope_before / slope
        return progress.out_of_steps(x)
