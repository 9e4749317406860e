"""Least squares with total variation, nowhere negative; it chooses its weight from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import ProjectionMisfit, TotalVariation, photon_weights
from duotomo.reconstruct._rays import projector_of
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reconstruct.combined_pixels import combine_pixels
from duotomo.reconstruct.mismatch import model_mismatch, with_mismatch
from duotomo.reconstruct.noise import KAPPA, estimated_photons, noise_level, total_variation_weight
from duotomo.solvers import PrimalDual, Solution, Step
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore


@dataclass(frozen=True, kw_only=True)
class TvLeastSquares(Algorithm):
    """Minimise `1/2 sum of w (A f - p)^2 + tv_weight * TV(f)` over `f >= 0` by `duotomo.solvers.PrimalDual`.

    Unless tv_weight is given, w and tv_weight follow from the data. The variance of a ray is that of its
    noise, plus m^2, the square of what the model cannot explain: `1 / w = v + m^2`, up to a factor. v is the
    inverse of the weights given, or `exp(p) / photons` with `estimated_photons`, or that of `noise_level`
    for all rays alike; m comes from `model_mismatch`. tv_weight is `kappa` times the RMS of the gradient of
    noise of that variance (`total_variation_weight`). Pixels are combined up to the shadow of a voxel first
    (`combine_pixels`): the volume cannot show more. With tv_weight, data and weights are used as given.

    Parameters
    ----------
    n_steps : int
        Steps, at most, besides the 100 by which `model_mismatch` looks.
    tolerance : float
        The solver's. On breasts at 3 mm voxels, 1e-4 leaves 0.5 % of the objective and
        a tenth to a fifth of the error.
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
    TvLeastSquares(n_steps=100, tolerance=3e-05, tv_weight=None, kappa=0.4, depth_weight=1.0)
    """

    n_steps: int = 1500
    tolerance: float = 3e-5
    tv_weight: float | None = None
    kappa: float = KAPPA
    depth_weight: float = 1.0

    def __post_init__(self) -> None:
        PrimalDual(n_steps=self.n_steps, tolerance=self.tolerance)
        named = (("tv_weight", self.tv_weight), ("kappa", self.kappa), ("depth_weight", self.depth_weight))
        for name, value in named:
            if value is not None and not 0 <= value < math.inf:
                raise DuotomoError(
                    f"TvLeastSquares: expected {name} >= 0 and finite; got {value}. Zero turns it off."
                )

    @torch.no_grad()
    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Minimise misfit and total variation. Without a start, from zero; with a store, on from what it has.

        Without a tv_weight, the applications that chose it are counted, too.
        """
        grid = projector_of("TvLeastSquares", misfit).grid
        prior = TotalVariation(grid, depth_weight=self.depth_weight)
        solver = PrimalDual(n_steps=self.n_steps, tolerance=self.tolerance)
        if self.tv_weight is not None:
            return solver.minimise(misfit + self.tv_weight * prior, start, on_step=on_step, store=store)
        # The noise is told from anatomy by the smallest pixels there are.
        noisy, sigma = combine_pixels(*_with_noise(misfit))
        before = noisy.applications
        mismatch = model_mismatch(noisy, sigma, kappa=self.kappa)
        weighted, tv_weight = self._weighted(noisy, sigma, mismatch)
        cost = noisy.applications - before

        def dearer(step: Step) -> Step:
            return replace(step, applications=step.applications + cost)

        solution = solver.minimise(
            weighted + tv_weight * prior,
            start,
            on_step=None if on_step is None else lambda step: on_step(dearer(step)),
            store=store,
        )
        return replace(solution, history=tuple(dearer(step) for step in solution.history))

    def _weighted(
        self, noisy: ProjectionMisfit, sigma: float, mismatch: float
    ) -> tuple[ProjectionMisfit, float]:
        """Return the misfit with the weights that follow from noise and mismatch, and tv_weight."""
        data = noisy.data
        weights, sigma = with_mismatch(noisy.weights, sigma, mismatch)
        if weights is not None:
            # In the units of unweighted data, whatever the noise: steps and tolerances mean the same.
            largest = float(weights.max())
            weights, sigma = weights / largest, sigma / math.sqrt(largest)
        tv_weight = total_variation_weight(
            noisy.operator, sigma, weights, kappa=self.kappa, device=data.device, dtype=data.dtype
        )
        return ProjectionMisfit(noisy.operator, data, weights), tv_weight


def _with_noise(misfit: ProjectionMisfit) -> tuple[ProjectionMisfit, float]:
    """Return the misfit with weights by the noise, where that is known or told, and sigma to go with them."""
    data, weights = misfit.data, misfit.weights
    if weights is None and (photons := estimated_photons(data)) is not None:
        return ProjectionMisfit(misfit.operator, data, photon_weights(data, photons)), 1.0
    return misfit, noise_level(data, weights)
