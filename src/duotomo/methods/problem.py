"""The joint objective of one stage, with its priors, and the preconditioner in which its parameters are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from duotomo.methods.level import Level
from duotomo.methods.scales import Scales
from duotomo.methods.settings import Priors
from duotomo.objectives import (
    Bending,
    JointMisfit,
    Nonnegativity,
    Objective,
    TotalVariation,
)
from duotomo.transforms import BSpline, Transform

DENSE = 64
"""Up to so many parameters of a visit, Gauss-Newton's matrix is made in full."""

STIFFER = 10.0
"""The preconditioner's curvature along few parameters, in units of that of one voxel."""

STIFFER_MANY = 1.0
"""The same for many parameters, whose matrix is not made."""


class Problem:
    """Misfit and priors of one stage.

    volume_priors: as functions of the volume. curvature: of the misfit, per voxel, a mean over the diagonal.
    """

    def __init__(
        self,
        level: Level,
        transforms: Sequence[Transform],
        priors: Priors,
        scales: Scales,
        central_step: float | None = None,
    ) -> None:
        self.level, self.transforms, self.priors = level, tuple(transforms), priors
        self.misfit = JointMisfit(level.terms(transforms), level.grid, central_step=central_step)
        # Noise of standard deviation 1 pulls with the root of the mean diagonal of A^T W A.
        units = [1 / level.noise_shrinks if visit.weights is None else 1.0 for visit in level.visits]
        self.curvature = level.noise_gradient_rms(units) ** 2
        self.volume_priors = self._volume_priors(scales)

    def _volume_priors(self, scales: Scales) -> list[Objective]:
        priors, grid, terms = self.priors, self.level.grid, []
        if priors.total_variation > 0:
            weight = priors.total_variation * self.level.noise_gradient_rms(scales.sigmas)
            smoothing = priors.smoothing * scales.attenuation
            terms.append(weight * TotalVariation(grid, smoothing, depth_weight=priors.depth_weight))
        if priors.nonnegativity > 0:
            terms.append((priors.nonnegativity * self.curvature) * Nonnegativity(grid))
        return terms

    def of_volume(self, params: Sequence[torch.Tensor]) -> Objective:
        """Return the objective of the volume, for fixed parameters."""
        objective: Objective = self.misfit.volume_part(params)
        for prior in self.volume_priors:
            objective = objective + prior
        return objective

    def of_both(
        self, volume: torch.Tensor, params: Sequence[torch.Tensor]
    ) -> tuple[Objective, Preconditioner]:
        """Return the objective of `[f, zeta_1, ...]`, and the preconditioner to begin a quasi-Newton method with."""
        preconditioner = Preconditioner(self, volume, params)
        objective: Objective = self.misfit
        for prior in self.volume_priors:
            objective = objective + self.misfit.on_volume(prior)
        for index, bending in enumerate(self.bending(preconditioner.curvatures)):
            if bending is not None:
                objective = objective + self.misfit.on_params(index, bending)
        return objective, preconditioner

    def bending(self, curvatures: Sequence[float]) -> list[Objective | None]:
        """Return the prior on the parameters of each moving visit; None where the model has none.

        curvatures: of the misfit along the parameters of each, a mean over the diagonal.
        """
        terms: list[Objective | None] = []
        for transform, curvature in zip(self.transforms, curvatures, strict=True):
            if isinstance(transform, BSpline) and self.priors.bending > 0:
                weight = self.priors.bending * curvature / _bending_diagonal(transform)
                terms.append(weight * Bending(transform))
            else:
                terms.append(None)
        return terms


class Preconditioner:
    """`P`, near the inverse Hessian of the joint objective but for a factor: `[f, zeta] -> [f, c H^-1 zeta]`.

    H is Gauss-Newton's matrix of each visit's parameters, or, for many of them, the mean of its diagonal.
    curvatures: the means of the diagonals.
    """

    def __init__(self, problem: Problem, volume: torch.Tensor, params: Sequence[torch.Tensor]) -> None:
        self._sizes = [len(row) for row in params]
        self._n_voxels = volume.numel()
        self._inverses: list[Callable[[torch.Tensor], torch.Tensor]] = []
        if max(self._sizes, default=0) <= DENSE and params:
            part = problem.misfit.params_part(volume)
            blocks = _blocks(part.normal_equations(torch.cat(list(params)))[2], self._sizes)
            self.curvatures = [float(block.diagonal().mean()) for block in blocks]
            self._inverses = [_dense(block, STIFFER * problem.curvature, volume) for block in blocks]
        else:
            self.curvatures = [mean_diagonal(problem, i, volume, params) for i in range(len(params))]
            self._inverses = [
                _scaled(STIFFER_MANY * problem.curvature / max(mean, 1e-30)) for mean in self.curvatures
            ]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result, start = x.clone(), self._n_voxels
        for inverse, size in zip(self._inverses, self._sizes, strict=True):
            result[start : start + size] = inverse(x[start : start + size])
            start += size
        return result


def _blocks(matrix: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [matrix[a : a + n, a : a + n] for a, n in zip(starts, sizes, strict=True)]


def _dense(
    block: torch.Tensor, stiffness: float, like: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor]:
    # A little of the diagonal keeps what the data do not see from running away.
    diagonal = block.diagonal().clamp(min=float(block.diagonal().max()) * 1e-9 + 1e-30)
    inverse = torch.linalg.inv(block + 1e-6 * torch.diag(diagonal)) * stiffness
    moved = inverse.to(like)
    return lambda part: moved @ part


def _scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda part: factor * part


def mean_diagonal(
    problem: Problem, index: int, volume: torch.Tensor, params: Sequence[torch.Tensor]
) -> float:
    """Return about the mean of the diagonal of one visit's `J^T W J`: of `(J^T sqrt(W) n)^2`, n random signs.

    index: among the moving visits.
    """
    visit = problem.misfit.moving_visits[index]
    data = visit.misfit.data
    generator = torch.Generator(device=data.device).manual_seed(index)
    signs = torch.randint(0, 2, data.shape, generator=generator, device=data.device).to(data) * 2 - 1
    if visit.misfit.weights is not None:
        signs *= visit.misfit.weights.sqrt()
    image = visit.misfit.operator.adjoint(signs)
    slope = visit.pulled_back(params[index], volume, image)
    return float(slope.square().mean())


def _bending_diagonal(spline: BSpline) -> float:
    """Return the mean of the diagonal of the bending energy's Hessian, by random signs."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (spline.n_params,), generator=generator).double() * 2 - 1
    return float(signs @ Bending(spline).curvature(spline.identity())(signs)) / spline.n_params
