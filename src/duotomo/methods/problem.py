"""The joint objective of one stage, with its priors and its preconditioner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from duotomo.methods.level import Level
from duotomo.methods.priors import Priors
from duotomo.methods.scales import Scales
from duotomo.objectives import JointMisfit, Nonnegativity, Objective, TotalVariation
from duotomo.objectives.priors.bending import weighted_bending
from duotomo.transforms import Composition, Transform
from duotomo.transforms.transform import FEW_PARAMS

STIFFER = 10.0
"""The preconditioned curvature along few parameters, in units of that of one voxel."""

STIFFER_MANY = 1.0
"""The same for many parameters, whose matrix is not made."""

LinearMap = Callable[[torch.Tensor], torch.Tensor]


class Problem:
    """Misfit and priors of one stage.

    Attributes
    ----------
    misfit : JointMisfit
        Of all visits.
    volume_priors : list of Objective
        As functions of the volume.
    curvature : float
        Of the misfit, per voxel, a mean over the diagonal.
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
        # The gradient of noise of standard deviation 1 has the root of the mean diagonal of A^T W A as RMS.
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
        """Return the objective of the volume, (z, y, x), for fixed parameters."""
        objective: Objective = self.misfit.volume_part(params)
        for prior in self.volume_priors:
            objective = objective + prior
        return objective

    def of_both(
        self, volume: torch.Tensor, params: Sequence[torch.Tensor]
    ) -> tuple[Objective, Preconditioner]:
        """Return the objective of `[f, zeta_1, ...]`, and the preconditioner of a quasi-Newton method."""
        preconditioner = Preconditioner(
            self.misfit, self.transforms, volume, params, voxel_curvature=self.curvature
        )
        objective: Objective = self.misfit
        for prior in self.volume_priors:
            objective = objective + self.misfit.on_volume(prior)
        for index, bending in enumerate(self.bending(preconditioner.diagonals)):
            if bending is not None:
                objective = objective + self.misfit.on_params(index, bending)
        return objective, preconditioner

    def bending(self, diagonals: Sequence[torch.Tensor]) -> list[Objective | None]:
        """Return the bending energy of the parameters of each moving visit; None where the model has none.

        `diagonals` are those of the misfit's curvature along the parameters of each visit.
        """
        if self.priors.bending == 0:
            return [None] * len(self.transforms)
        return [
            weighted_bending(
                transform,
                self.priors.bending,
                [float(diagonal[a : a + part.n_params].mean()) for a, part in transform.lattice_parts()],
            )
            for transform, diagonal in zip(self.transforms, diagonals, strict=True)
        ]


class Preconditioner:
    """Approximate inverse Hessian of the joint objective, up to a factor: `[f, zeta] -> [f, c H^-1 zeta]`.

    H is the Gauss-Newton matrix of each visit's parameters, or, for many of them, the mean of its diagonal
    over each part of the transform.

    Attributes
    ----------
    diagonals : list of torch.Tensor
        Of H, or an estimate of it, (n_params,) for each moving visit.
    """

    def __init__(
        self,
        misfit: JointMisfit,
        transforms: Sequence[Transform],
        volume: torch.Tensor,
        params: Sequence[torch.Tensor],
        *,
        voxel_curvature: float,
    ) -> None:
        self._sizes = [len(row) for row in params]
        self._n_voxels = volume.numel()
        self._inverses: list[LinearMap] = []
        if max(self._sizes, default=0) <= FEW_PARAMS and params:
            part = misfit.params_part(volume)
            matrix = part.normal_equations(torch.cat(list(params)))[2]
            starts = [sum(self._sizes[:i]) for i in range(len(self._sizes))]
            blocks = [matrix[a : a + n, a : a + n] for a, n in zip(starts, self._sizes, strict=True)]
            self.diagonals = [block.diagonal() for block in blocks]
            self._inverses = [_dense(block, STIFFER * voxel_curvature, volume) for block in blocks]
        else:
            self.diagonals = [diagonal_estimate(misfit, i, volume, params) for i in range(len(params))]
            self._inverses = [
                _scaled(transform, diagonal, STIFFER_MANY * voxel_curvature)
                for transform, diagonal in zip(transforms, self.diagonals, strict=True)
            ]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result, start = x.clone(), self._n_voxels
        for inverse, size in zip(self._inverses, self._sizes, strict=True):
            result[start : start + size] = inverse(x[start : start + size])
            start += size
        return result


def diagonal_estimate(
    misfit: JointMisfit, index: int, volume: torch.Tensor, params: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Estimate the diagonal of one visit's `J^T W J` by `(J^T sqrt(W) n)^2`, n random signs; (n_params,).

    `index` counts the moving visits. Only means over many entries are accurate.
    """
    visit = misfit.moving_visits[index]
    data = visit.misfit.data
    generator = torch.Generator(device=data.device).manual_seed(index)
    signs = torch.randint(0, 2, data.shape, generator=generator, device=data.device).to(data) * 2 - 1
    if visit.misfit.weights is not None:
        signs *= visit.misfit.weights.sqrt()
    image = visit.misfit.operator.adjoint(signs)
    return visit.pulled_back(params[index], volume, image).square()


def _dense(block: torch.Tensor, stiffness: float, like: torch.Tensor) -> LinearMap:
    # A little of the diagonal keeps what the data do not see from running away.
    diagonal = block.diagonal().clamp(min=float(block.diagonal().max()) * 1e-9 + 1e-30)
    inverse = torch.linalg.inv(block + 1e-6 * torch.diag(diagonal)) * stiffness
    moved = inverse.to(like)
    return lambda part: moved @ part


def _scaled(transform: Transform, diagonal: torch.Tensor, stiffness: float) -> LinearMap:
    parts = transform.parts if isinstance(transform, Composition) else (transform,)
    sizes = [part.n_params for part in parts]
    factors = [stiffness / max(float(own.mean()), 1e-30) for own in diagonal.split_with_sizes(sizes)]
    if len(factors) == 1:
        return lambda row: factors[0] * row

    def scale(row: torch.Tensor) -> torch.Tensor:
        return torch.cat([f * own for f, own in zip(factors, row.split_with_sizes(sizes), strict=True)])

    return scale
