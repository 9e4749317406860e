"""The joint objective of one stage, with its priors and its preconditioner."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from duotomo.methods.level import Level
from duotomo.methods.preconditioner import Preconditioner, inverse_curvature, motion_curvatures
from duotomo.methods.priors import Priors
from duotomo.methods.scales import Scales
from duotomo.methods.volume_preconditioner import VolumePreconditioner
from duotomo.objectives import JointMisfit, Nonnegativity, Objective, TotalVariation
from duotomo.objectives.priors.bending import weighted_bending
from duotomo.transforms import Transform


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
        self.level, self.transforms = level, tuple(transforms)
        self.priors, self.scales = priors, scales
        self.misfit = JointMisfit(
            level.terms(transforms), level.grid, basis=level.basis, central_step=central_step
        )
        self.curvature = level.curvature()
        self._bending = priors.bending * max(level.grid.spacing_mm)
        self.volume_priors = self._volume_priors()
        self._preconditioner: VolumePreconditioner | None = None

    def _volume_priors(self) -> list[Objective]:
        priors, grid, terms = self.priors, self.level.grid, []
        if priors.total_variation > 0:
            weight = priors.total_variation * self.level.noise_gradient_rms()
            smoothing = priors.smoothing * self.scales.attenuation
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

    def volume_preconditioner(
        self, volume: torch.Tensor, params: Sequence[torch.Tensor]
    ) -> VolumePreconditioner:
        """Return the preconditioner of the volume, which is made once: motions change it little."""
        if self._preconditioner is None:
            self._preconditioner = VolumePreconditioner(self.of_volume(params), volume)
        return self._preconditioner

    def of_both(
        self, volume: torch.Tensor, params: Sequence[torch.Tensor]
    ) -> tuple[Objective, Preconditioner]:
        """Return the objective of `[f, zeta_1, ...]`, and the preconditioner of a quasi-Newton method."""
        curvatures = motion_curvatures(self.misfit, volume, params)
        objective: Objective = self.misfit
        for prior in self.volume_priors:
            objective = objective + self.misfit.on_volume(prior)
        for index, bending in enumerate(self.bending([one.diagonal for one in curvatures])):
            if bending is not None:
                objective = objective + self.misfit.on_params(index, bending)
        of_volume, sizes = self.volume_preconditioner(volume, params), [len(row) for row in params]
        inverses = [
            inverse_curvature(transform, own, self._bending, of_volume.largest)
            for transform, own in zip(self.transforms, curvatures, strict=True)
        ]
        return objective, Preconditioner(volume.numel(), of_volume, sizes, inverses)

    def bending(self, diagonals: Sequence[torch.Tensor]) -> list[Objective | None]:
        """Return the bending energy of the parameters of each moving visit; None where the model has none.

        `diagonals` are those of the misfit's curvature along the parameters of each visit.
        """
        if self._bending == 0:
            return [None] * len(self.transforms)
        return [
            weighted_bending(
                transform,
                self._bending,
                [float(diagonal[a : a + part.n_params].mean()) for a, part in transform.lattice_parts()],
            )
            for transform, diagonal in zip(self.transforms, diagonals, strict=True)
        ]
