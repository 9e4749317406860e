"""Weighted least squares by conjugate gradients, stopped early."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo import solvers
from duotomo.operators import LinearOperator, Projector, Weighting
from duotomo.solvers import OnStep, Solution


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """Minimise `1/2 sum of w (A f - p)^2` by the solver `duotomo.solvers.Cgls`.

    n_steps: at most so many; few regularise, many fit the noise. tolerance: the solver's. Values may be
    negative.

    >>> LeastSquares(n_steps=20)
    LeastSquares(n_steps=20, tolerance=0.0)
    """

    n_steps: int
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        self._solver()

    def _solver(self) -> solvers.Cgls:
        return solvers.Cgls(n_steps=self.n_steps, tolerance=self.tolerance)

    def run(
        self,
        projector: Projector,
        projections: torch.Tensor,
        *,
        weights: torch.Tensor | None,
        start: torch.Tensor | None,
        on_step: OnStep | None,
    ) -> Solution:
        """Return the solver's solution, from `start` (zero when not given)."""
        operator: LinearOperator = projector
        data = projections
        if weights is not None:
            roots = torch.sqrt(weights)
            operator, data = Weighting(roots) @ projector, roots * projections
        return self._solver().solve(operator, data, start=start, on_step=on_step)
