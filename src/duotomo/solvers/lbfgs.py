"""The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal, 1980)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from duotomo.objectives import Objective
from duotomo.solvers._checks import check_counts, check_first_step, check_start, norm
from duotomo.solvers._lbfgs_memory import Memory
from duotomo.solvers._progress import Descent
from duotomo.solvers.history import OnStep
from duotomo.solvers.line_search import NotFound, StrongWolfe
from duotomo.solvers.solution import Solution, Status


@dataclass(frozen=True, kw_only=True)
class Lbfgs(Descent[Objective]):
    """Minimise an objective by steps along `-B g`, B the inverse Hessian that the last steps suggest.

    With `s = x_{k+1} - x_k`, `y = g_{k+1} - g_k` and `rho = 1 / s.y` of the last `memory` steps,

        B_{k+1} = (1 - rho s y^T) B_k (1 - rho y s^T) + rho s s^T,    begun with (s.y / y.P y) P,

    P the identity, or what `minimise` is given. The objective never grows by more than rounding.

    Parameters
    ----------
    n_steps, tolerance, gradient_tolerance
        As for `GaussNewton`.
    memory : int
        Steps that B is made of.
    window : int
        Steps over which `tolerance` is judged: it is the mean relative decrease of one of them. With more
        than one, also only after `memory` steps: those before know little of the curvature, and are short.
    first_step : float
        Length of the first trial, in the units of x.
    line_search : StrongWolfe
        Chooses the step size.

    Examples
    --------
    >>> Lbfgs(n_steps=50).memory
    8
    """

    memory: int = 8
    tolerance: float = 1e-9
    window: int = 1
    first_step: float = 1.0
    line_search: StrongWolfe = field(default_factory=StrongWolfe)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts("Lbfgs", memory=self.memory, window=self.window)
        check_first_step("Lbfgs", self.first_step)

    @torch.no_grad()
    def minimise(
        self,
        objective: Objective,
        start: torch.Tensor,
        *,
        precondition: Callable[[torch.Tensor], torch.Tensor] | None = None,
        at_rest: Callable[[torch.Tensor], bool] | None = None,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Minimise an objective from an initial guess.

        Parameters
        ----------
        objective, start
            As for `Solver.minimise`.
        precondition : callable, optional
            The preconditioner, `r -> P r`, symmetric, positive definite and near the inverse Hessian but for
            a factor; it returns a new tensor.
        at_rest : callable, optional
            Called with x after every step; the solver has converged once it returns true.
        on_step
            As for `Solver.minimise`.

        Returns
        -------
        Solution
            Not converging is a status of it.
        """
        warm_up = self.memory if self.window > 1 else 0
        progress = self._progress(objective, on_step, window=self.window, warm_up=warm_up)
        x = check_start("Lbfgs.minimise", start, objective.shape)
        value, gradient = objective.value_and_gradient(x)
        if solution := progress.begin(x, value, norm(gradient)):
            return solution
        memory = Memory(self.memory, gradient, precondition)
        length = self.first_step
        while progress.goes_on:
            direction = memory.descent()
            first = 1.0 if memory.n_pairs else length / norm(direction)
            found = self.line_search.search(
                objective, x, direction, value=value, gradient=gradient, first=first
            )
            if isinstance(found, NotFound):
                if not memory.n_pairs:
                    return progress.stuck(x, found.n_evaluations, finite=found.finite)
                # The memory may be what misleads; the steepest descent needs none.
                length = memory.last_length
                memory.clear()
                continue
            changed = gradient.neg_().add_(found.gradient)
            x, value, gradient = found.x, found.value, found.gradient
            size = memory.add(found.step, changed, gradient)
            if solution := progress.advance(x, value, size, found.step):
                return solution
            if at_rest is not None and at_rest(x):
                return progress.stop(x, Status.CONVERGED, "What was to be found has come to rest.")
        return progress.out_of_steps(x)
