"""Least squares with total variation, nowhere negative; it chooses its weight from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import ProjectionMisfit, TotalVariation, photon_weights
from duotomo.reconstruct._rays import projector_of
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.mismatch import short_fit, with_mismatch
from duotomo.reconstruct.noise import KAPPA, estimated_photons, noise_level, total_variation_weight
from duotomo.solvers import PrimalDual, Solution, Step
from duotomo.solvers.history import OnStep


@dataclass(frozen=True, kw_only=True)
class TvLeastSquares(Algorithm):
    """Minimise `1/2 sum of w (A f - p)^2 + tv_weight * TV(f)` over `f >= 0` by `duotomo.solvers.PrimalDual`.

    Unless tv_weight is given, w and tv_weight follow from the data. The variance of a ray is that of its
    noise, plus m^2, the square of what the model cannot explain: `1 / w = v + m^2`, v the inverse of the
    weights given, or `exp(p) / photons` with `estimated_photons`, or that of `noise_level` for all rays
    alike; m from `model_mismatch`, by a short fit from which the solver goes on. tv_weight is `kappa` times
    the RMS of the gradient of noise of that variance (`total_variation_weight`). With tv_weight, the weights
    are used as they are given.

    Parameters
    ----------
    n_steps : int
        Steps, at most, besides the 50 of the short fit.
    tolerance : float
        The solver's.
    tv_weight : float, optional
        Weight of total variation.
    kappa : float
        Its factor, unless it is given.
    depth_weight : float
        Factor of the differences along z.

    Raises
    ------
    DuotomoError
        If a setting is negative or not finite.

    Examples
    --------
    >>> TvLeastSquares(n_steps=100)
    TvLeastSquares(n_steps=100, tolerance=0.0001, tv_weight=None, kappa=0.3, depth_weight=1.0)
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

        Without a tv_weight, the applications that chose it are counted, too.
        """
        grid = projector_of("TvLeastSquares", misfit).grid
        tv_weight, before = self.tv_weight, misfit.applications
        if tv_weight is None:
            misfit, tv_weight, start = self._weighted(misfit, start)
        cost = misfit.applications - before

        def dearer(step: Step) -> Step:
            return replace(step, applications=step.applications + cost)

        solution = self._solver().minimise(
            misfit + tv_weight * TotalVariation(grid, depth_weight=self.depth_weight),
            start,
            on_step=None if on_step is None else lambda step: on_step(dearer(step)),
        )
        return replace(solution, history=tuple(dearer(step) for step in solution.history))

    def _weighted(
        self, misfit: ProjectionMisfit, start: torch.Tensor | None
    ) -> tuple[ProjectionMisfit, float, torch.Tensor]:
        """Return the misfit with the weights that follow from the data, tv_weight, and a start."""
        data, weights = misfit.data, misfit.weights
        if weights is None and (photons := estimated_photons(data)) is not None:
            sigma, weights = 1.0, photon_weights(data, photons)
        else:
            sigma = noise_level(data, weights)
        expected = ProjectionMisfit(misfit.operator, data, weights)
        mismatch, volume = short_fit(expected, sigma, kappa=self.kappa, start=start)
        weights, sigma = with_mismatch(weights, sigma, mismatch)
        if weights is not None:
            # In the units of unweighted data, whatever the noise: steps and tolerances mean the same.
            largest = float(weights.max())
            weights, sigma = weights / largest, sigma / math.sqrt(largest)
        tv_weight = total_variation_weight(
            misfit.operator, sigma, weights, kappa=self.kappa, device=data.device, dtype=data.dtype
        )
        return ProjectionMisfit(misfit.operator, data, weights), tv_weight, volume
