"""Least squares with total variation, nowhere negative; it chooses its weight from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.operators import Projector
from duotomo.reconstruct.noise import KAPPA, noise_level, total_variation_weight
from duotomo.solvers import OnStep, PrimalDual, Solution, Step


@dataclass(frozen=True, kw_only=True)
class TvLeastSquares:
    """Minimise `1/2 sum of w (A f - p)^2 + tv_weight * TV(f)` over `f >= 0` by `duotomo.solvers.PrimalDual`.

    n_steps, tolerance: the solver's. tv_weight: None takes it from the data, `kappa` times the pull of their
    noise (`noise_level`, `total_variation_weight`). depth_weight: factor of the differences along z.

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
        self,
        projector: Projector,
        projections: torch.Tensor,
        *,
        weights: torch.Tensor | None,
        start: torch.Tensor | None,
        on_step: OnStep | None,
    ) -> Solution:
        """Return the solver's solution, from `start` (zero when not given).

        The adjoint that chose tv_weight counts as one application.
        """
        tv_weight, cost = self.tv_weight, 0
        if tv_weight is None:
            sigma = noise_level(projections, weights)
            device, dtype = projections.device, projections.dtype
            tv_weight = total_variation_weight(
                projector, sigma, weights, kappa=self.kappa, device=device, dtype=dtype
            )
            cost = 1

        def dearer(step: Step) -> Step:
            return replace(step, applications=step.applications + cost)

        solution = self._solver().solve(
            projector,
            projections,
            tv_weight=tv_weight,
            grid=projector.grid,
            weights=weights,
            depth_weight=self.depth_weight,
            start=start,
            on_step=None if on_step is None else lambda step: on_step(dearer(step)),
        )
        return replace(solution, history=tuple(dearer(step) for step in solution.history))
