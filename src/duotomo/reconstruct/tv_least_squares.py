"""Least squares with total variation, nowhere negative; it chooses its weight from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import ProjectionMisfit, TotalVariation
from duotomo.reconstruct._rays import projector_of
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.noise import KAPPA, noise_level, total_variation_weight
from duotomo.solvers import PrimalDual, Solution, Step
from duotomo.solvers.history import OnStep


@dataclass(frozen=True, kw_only=True)
class TvLeastSquares(Algorithm):
    """Minimise `1/2 sum of w (A f - p)^2 + tv_weight * TV(f)` over `f >= 0` by `duotomo.solvers.PrimalDual`.

    Parameters
    ----------
    n_steps : int
        Steps, at most.
    tolerance : float
        The solver's.
    tv_weight : float, optional
        Weight of total variation; unless given, `kappa` times the RMS of the noise gradient, from the data
        (`noise_level`, `total_variation_weight`).
    kappa : float
        Its factor.
    depth_weight : float
        Factor of the differences along z.

    Raises
    ------
    DuotomoError
        If a setting is negative or not finite.

    Examples
    --------
    >>> TvLeastSquares(n_steps=100)
    TvLeastSquares(n_steps=100, tolerance=0.0001, tv_weight=None, kappa=1.0, depth_weight=1.0)
    """

    n_steps: int = 300
    tolerance: float = 1e-4
    tv_weight: float | None = None
    kappa: float = KAPPA
    depth_weight: float = 1.0

    def __post_init__(self) -> None:
        self._solver()
        named = (("tv_weight", self.tv_weight), ("kappa", self.kappa), ("depth_weight", self.depth_weight))
        for name, value in named:
            if value is not None and not 0 <= value < math.inf:
                raise DuotomoError(
                    f"TvLeastSquares: expected {name} >= 0 and finite; got {value}. Zero turns it off."
                )

    def _solver(self) -> PrimalDual:
        return PrimalDual(n_steps=self.n_steps, tolerance=self.tolerance)

    @torch.no_grad()
    def run(
        self, misfit: ProjectionMisfit, start: torch.Tensor | None = None, on_step: OnStep | None = None
    ) -> Solution:
        """Minimise misfit and total variation. Without a start, from zero.

        The adjoint that chose tv_weight counts as one application.
        """
        grid = projector_of("TvLeastSquares", misfit).grid
        tv_weight, before = self.tv_weight, misfit.applications
        if tv_weight is None:
            sigma = noise_level(misfit.data, misfit.weights)
            tv_weight = total_variation_weight(
                misfit.operator,
                sigma,
                misfit.weights,
                kappa=self.kappa,
                device=misfit.data.device,
                dtype=misfit.data.dtype,
            )
        cost = misfit.applications - before

        def dearer(step: Step) -> Step:
            return replace(step, applications=step.applications + cost)

        solution = self._solver().minimise(
            misfit + tv_weight * TotalVariation(grid, depth_weight=self.depth_weight),
            start,
            on_step=None if on_step is None else lambda step: on_step(dearer(step)),
        )
        return replace(solution, history=tuple(dearer(step) for step in solution.history))
