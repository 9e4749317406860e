"""What the visits say of a change, once the volume that both share has explained all that it can."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from duotomo.methods.preconditioner import Preconditioner
from duotomo.methods.problem import Problem
from duotomo.objectives.term import shown, warped
from duotomo.solvers.batched_cg import Product, solve_batch

WEAK = 0.02
"""Curvature of the prior of the shared volume, per voxel, in units of the mean of the misfit's."""

TOLERANCE, N_STEPS = 0.03, 25
"""Of the solves for the shared volume."""

JOINT_TOLERANCE, JOINT_STEPS = 0.01, 60
"""Of the solve for how volume and motion answer a change."""


class Difference:
    """The slope of the objective along a change of the current visit alone, with the volume profiled out.

    The current visit sees `f + c`, the prior one `T f`. With r the whitened residuals for c = 0, the slope
    along c is `A_1^T r_1`, where r are those that the best f leaves. Total variation would leave its own mark
    in them, at every edge, and so f may change once more under a weak quadratic prior, in which the slopes of
    both visits are nearly opposite; half their difference is taken.

    Parameters
    ----------
    problem : Problem
        Of one level, two visits, the current one first.
    volume : torch.Tensor
        f, (z, y, x).
    params : sequence of torch.Tensor
        zeta of the prior visit.
    """

    def __init__(self, problem: Problem, volume: torch.Tensor, params: Sequence[torch.Tensor]) -> None:
        misfit = problem.misfit
        (zeta,) = misfit.check_params(params)
        self.current, self.prior = misfit.visits
        self.grid, self._basis = problem.level.grid, misfit.basis
        self._problem, self._volume, self._zeta = problem, volume, zeta
        self._warp = self.prior.warp(zeta)
        self._precondition = problem.volume_preconditioner(volume, params)
        self._weak = WEAK * problem.curvature
        self._shown = shown(self._basis, volume)
        self.prior_volume = warped(self._warp, self._shown)
        self.residuals = (
            -self.current.misfit.residual(self._shown),
            -self.prior.misfit.residual(self.prior_volume),
        )

    def slopes(self, current: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        """Return the slopes along a change of each voxel, (batch, z, y, x), for whitened rays of both visits.

        Parameters
        ----------
        current, prior : torch.Tensor
            (batch, view, v, u).
        """
        one, two = self._back(current.clone(), prior.clone())
        shared = solve_batch(
            self._product,
            self._coefficients(one + two),
            precondition=self._precondition,
            n_steps=N_STEPS,
            tolerance=TOLERANCE,
        )
        values = self._values(shared)
        one, two = self._back(
            current - self.current.misfit.columns(values),
            prior - self.prior.misfit.columns(self._seen(values)),
        )
        return (one - two) / 2

    def of_change(self, changes: torch.Tensor) -> torch.Tensor:
        """Return the slopes that changes of the current visit cause, at the motion found.

        changes: (batch, z, y, x).
        """
        rays = self.current.misfit.columns(changes)
        like = self.residuals[1]
        return self.slopes(rays, like.new_zeros(len(changes), *like.shape))

    @cached_property
    def _joint(self) -> tuple[Product, Preconditioner]:
        """The joint objective's curvature along `[f, zeta]` and its preconditioner, once for all changes."""
        objective, precondition = self._problem.of_both(self._volume, [self._zeta])
        at = torch.cat([self._volume.flatten(), self._zeta.to(self._volume)])
        return objective.curvature(at), precondition

    def left_of_change(self, change: torch.Tensor) -> torch.Tensor:
        """Return the slopes that are left of those of a change once a joint run has followed it.

        Not the volume alone takes a part of a change, so does the motion: in a repeated scan, tissue about a
        new mass of 5 mm is displaced until a third of it is explained. What both do is the answer of the
        joint objective's minimum to a change of the current visit, by its curvature there.

        change: (z, y, x).
        """
        product, precondition = self._joint
        rays = self.current.misfit.columns(change[None])
        pull = self._coefficients(self.current.misfit.columns_adjoint(rays.clone()))
        answer = solve_batch(
            lambda rows: torch.stack([product(row) for row in rows]),
            torch.cat([pull.flatten(1), pull.new_zeros(1, len(self._zeta))], dim=1),
            precondition=lambda rows: torch.stack([precondition(row) for row in rows]),
            n_steps=JOINT_STEPS,
            tolerance=JOINT_TOLERANCE,
        )
        n = self._volume.numel()
        values = self._values(answer[:, :n].reshape(1, *self._volume.shape))
        moved = self.prior.along(self._zeta, self._shown, answer[0, n:].double().cpu())
        left = self.slopes(
            rays - self.current.misfit.columns(values),
            -self.prior.misfit.columns(self._seen(values) + moved),
        )
        return left[0]

    def _back(self, current: torch.Tensor, prior: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        two = self.prior.misfit.columns_adjoint(prior)
        if self._warp is not None:
            two = self._warp.transpose(two)
        return self.current.misfit.columns_adjoint(current), two

    def _product(self, volumes: torch.Tensor) -> torch.Tensor:
        values = self._values(volumes)
        one, two = self._back(
            self.current.misfit.columns(values), self.prior.misfit.columns(self._seen(values))
        )
        return self._coefficients(one + two) + self._weak * volumes

    def _seen(self, values: torch.Tensor) -> torch.Tensor:
        """Return volumes as the prior visit sees them."""
        return values if self._warp is None else self._warp.forward(values)

    def _values(self, coefficients: torch.Tensor) -> torch.Tensor:
        return coefficients if self._basis is None else self._basis.forward(coefficients)

    def _coefficients(self, values: torch.Tensor) -> torch.Tensor:
        return values if self._basis is None else self._basis.transpose(values)
