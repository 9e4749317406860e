"""The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal, 1980)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from duotomo.objectives import Objective
from duotomo.solvers._checks import check_counts, check_first_step, check_start, dot, norm
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
        memory = _Memory(self.memory, x, precondition)
        length = self.first_step
        while progress.goes_on:
            direction = memory.descent(gradient)
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
            memory.add(direction.mul_(found.step), gradient.neg_().add_(found.gradient))
            x, value, gradient = found.x, found.value, found.gradient
            if solution := progress.advance(x, value, norm(gradient), found.step):
                return solution
            if at_rest is not None and at_rest(x):
                return progress.stop(x, Status.CONVERGED, "What was to be found has come to rest.")
        return progress.out_of_steps(x)


class _Memory:
    """The last steps s and changes of the gradient y, one per row, with their products, and with them B.

    `-B g` lies in the span of P g, all P y and all s. So the two-loop recursion runs on coefficients, for
    which it needs only products of vectors: those among the rows are kept, those with g are two
    matrix-vector products. It reads the rows twice, where the recursion on vectors reads and writes the
    direction once for each of them, and waits for a GPU once, where that waits at each of them.
    """

    def __init__(
        self, size: int, like: torch.Tensor, precondition: Callable[[torch.Tensor], torch.Tensor] | None
    ) -> None:
        self._precondition, self._shape = precondition, like.shape
        # Made when first used: a run of few steps needs few rows.
        self._moved, self._changed = (like.new_empty(size, 0) for _ in range(2))
        self._size = size
        self._steps = np.zeros((size, size))  # s_i . y_j
        self._bends = np.zeros((size, size))  # y_i . P y_j
        self.last_length = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget all pairs."""
        self._order: list[int] = []  # rows, oldest first

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self._order)

    def add(self, moved: torch.Tensor, changed: torch.Tensor) -> None:
        """Remember a step and how it changed the gradient, in place of the oldest if there is no room."""
        length = norm(moved)
        # Only a positive product keeps B positive definite.
        if dot(moved, changed) <= torch.finfo(moved.dtype).eps * length * norm(changed):
            return
        if self._moved.shape[1] == 0:
            self._moved, self._changed = (moved.new_zeros(self._size, moved.numel()) for _ in range(2))
        row = self._order.pop(0) if self.n_pairs == self._size else self.n_pairs
        self._order.append(row)
        self.last_length = length
        self._moved[row], self._changed[row] = moved.flatten(), changed.flatten()
        preconditioned = self._preconditioned(changed)
        products = torch.stack(
            [
                self._moved @ changed.flatten(),
                self._changed @ moved.flatten(),
                self._changed @ preconditioned.flatten(),
            ]
        )
        of_moved, of_changed, of_preconditioned = products.double().cpu().numpy()
        self._steps[:, row], self._steps[row, :] = of_moved, of_changed
        self._bends[:, row] = self._bends[row, :] = of_preconditioned

    def descent(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return `-B g`."""
        preconditioned = self._preconditioned(gradient)
        if not self._order:
            return -preconditioned
        products = torch.stack([self._moved @ gradient.flatten(), self._changed @ preconditioned.flatten()])
        of_moved, of_changed = products.double().cpu().numpy()
        last = self._order[-1]
        scale = self._steps[last, last] / self._bends[last, last]
        # The first loop's vector is -(g + Y c), newest first; the second's -scale P (g + Y c) + S d.
        c, d = np.zeros(self._size), np.zeros(self._size)
        for i in reversed(self._order):
            c[i] = -(of_moved[i] + self._steps[i] @ c) / self._steps[i, i]
        for i in self._order:
            back = -scale * (of_changed[i] + self._bends[i] @ c) + self._steps[:, i] @ d
            d[i] = c[i] - back / self._steps[i, i]
        along = torch.from_numpy(np.stack([c, d])).to(gradient)
        summed = torch.addmv(gradient.flatten(), self._changed.T, along[0]).view(self._shape)
        direction = self._preconditioned(summed).mul_(-scale).flatten()
        return direction.addmv_(self._moved.T, along[1]).view(self._shape)

    def _preconditioned(self, vector: torch.Tensor) -> torch.Tensor:
        return vector.clone() if self._precondition is None else self._precondition(vector)
