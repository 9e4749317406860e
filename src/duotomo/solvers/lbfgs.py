"""The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal, 1980)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from duotomo.solvers._checks import check_counts, check_first_step, check_start, check_tolerances, dot, norm
from duotomo.solvers._progress import Progress
from duotomo.solvers.line_search import NotFound, StrongWolfe
from duotomo.solvers.solution import Solution, Step

if TYPE_CHECKING:
    from duotomo.objectives import Objective


@dataclass(frozen=True, kw_only=True)
class Lbfgs:
    """Minimise an objective by steps along `-B g`, B the inverse Hessian that the last steps suggest.

    With `s = x_{k+1} - x_k`, `y = g_{k+1} - g_k` and `rho = 1 / s.y` of the last `memory` steps,

        B_{k+1} = (1 - rho s y^T) B_k (1 - rho y s^T) + rho s s^T,    begun with (s.y / y.P y) P,

    P the identity, or what `minimise` is given. The objective never grows by more than rounding.

    n_steps: at most so many. tolerance: converged once a step lowers the objective by no more than this part
    of it. gradient_tolerance: converged once the gradient has fallen to this part of its norm at the start.
    first_step: length of the first trial, in the units of x. line_search: how far each step goes.

    >>> Lbfgs(n_steps=50).memory
    8
    """

    n_steps: int
    memory: int = 8
    tolerance: float = 1e-9
    gradient_tolerance: float = 1e-6
    first_step: float = 1.0
    line_search: StrongWolfe = field(default_factory=StrongWolfe)

    def __post_init__(self) -> None:
        where = "Lbfgs"
        check_counts(where, n_steps=self.n_steps, memory=self.memory)
        check_tolerances(where, tolerance=self.tolerance, gradient_tolerance=self.gradient_tolerance)
        check_first_step(where, self.first_step)

    @torch.no_grad()
    def minimise(
        self,
        objective: Objective,
        start: torch.Tensor,
        *,
        precondition: Callable[[torch.Tensor], torch.Tensor] | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> Solution:
        """Return the `Solution` from `start`, which is left as it is.

        precondition: `r -> P r`, symmetric and positive definite, near the inverse Hessian but for a factor;
        it returns a new tensor. on_step is called after each step.
        """
        progress = Progress(
            n_steps=self.n_steps,
            applications=lambda: objective.applications,
            on_step=on_step,
            tolerance=self.tolerance,
            gradient_tolerance=self.gradient_tolerance,
        )
        x = check_start("Lbfgs.minimise", start, objective.shape)
        value, gradient = objective.value_and_gradient(x)
        if solution := progress.begin(x, value, norm(gradient)):
            return solution
        pairs: deque[_Pair] = deque(maxlen=self.memory)
        length = self.first_step
        while progress.goes_on:
            direction = _descent(gradient, pairs, precondition)
            first = 1.0 if pairs else length / norm(direction)
            found = self.line_search.search(
                objective, x, direction, value=value, gradient=gradient, first=first
            )
            if isinstance(found, NotFound):
                if not pairs:
                    return progress.stuck(x, found.n_evaluations, finite=found.finite)
                # The memory may be what misleads; the steepest descent needs none.
                length = norm(pairs[-1].moved)
                pairs.clear()
                continue
            direction.mul_(found.step)
            changed = found.gradient - gradient
            product = dot(direction, changed)
            # Only a positive product keeps B positive definite.
            if product > torch.finfo(x.dtype).eps * norm(direction) * norm(changed):
                pairs.append(_Pair(moved=direction, changed=changed, product=product))
            x, value, gradient = found.x, found.value, found.gradient
            if solution := progress.advance(x, value, norm(gradient), found.step):
                return solution
        return progress.out_of_steps(x)


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A step `moved` (s), by how much it `changed` the gradient (y), and their `product` s.y."""

    moved: torch.Tensor
    changed: torch.Tensor
    product: float


def _descent(
    gradient: torch.Tensor,
    pairs: deque[_Pair],
    precondition: Callable[[torch.Tensor], torch.Tensor] | None,
) -> torch.Tensor:
    """Return `-B g` by the two-loop recursion, which never forms B."""
    direction, factors = -gradient, []
    for pair in reversed(pairs):
        factors.append(dot(pair.moved, direction) / pair.product)
        direction.sub_(pair.changed, alpha=factors[-1])
    if precondition is not None:
        direction = precondition(direction)
    if pairs:
        last = pairs[-1].changed
        direction.mul_(pairs[-1].product / dot(last, last if precondition is None else precondition(last)))
    for pair, factor in zip(pairs, reversed(factors), strict=True):
        direction.add_(pair.moved, alpha=factor - dot(pair.changed, direction) / pair.product)
    return direction
