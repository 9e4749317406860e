"""Weighted least squares by conjugate gradients, stopped early."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.objectives import ProjectionMisfit
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import Cgls, Solution
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Algorithm):
    """Minimise `1/2 sum of w (A f - p)^2` by the solver `duotomo.solvers.Cgls`. Values may be negative.

    Parameters
    ----------
    n_steps : int
        Steps, at most; few regularise, many fit the noise.
    tolerance : float
        The solver's.

    Examples
    --------
    >>> LeastSquares(n_steps=20)
    LeastSquares(n_steps=20, tolerance=0.0)
    """

    n_steps: int
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        self._solver()

    def _solver(self) -> Cgls:
        return Cgls(n_steps=self.n_steps, tolerance=self.tolerance)

    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Minimise the misfit. Without a start, from zero."""
        return self._solver().minimise(misfit, start, on_step=on_step)
