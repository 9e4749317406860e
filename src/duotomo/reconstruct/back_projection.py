"""Back projection, unfiltered: the blurred image that every other method improves on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.operators import Counted, Projector
from duotomo.reconstruct._rays import misfit, quotient, ray_lengths, refuse_start
from duotomo.solvers import History, OnStep, Solution, Status


@dataclass(frozen=True, kw_only=True)
class BackProjection:
    """Give every voxel the mean over its rays of the mean attenuation along each ray.

    `f = A^T (w p / A 1) / A^T w`, w the weights, or ones: a weighted mean, in 1/mm, never outside the range
    of `p / A 1`. An even volume comes back as it is. Voxels that no ray meets are zero.

    >>> BackProjection()
    BackProjection()
    """

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
        """Return the back projection, one step; start is refused. Objective: `1/2 sum of w (A f - p)^2`."""
        refuse_start("BackProjection", start)
        operator = Counted(projector)
        history = History(lambda: operator.applications, on_step)
        history.start(objective=misfit(projections, weights))
        # Rays beside the grid say nothing about it, and do not count in the mean: A^T never reads them.
        means = quotient(projections, ray_lengths("BackProjection", operator, projections))
        if weights is not None:
            means *= weights
        total = operator.adjoint(torch.ones_like(projections) if weights is None else weights)
        volume = quotient(operator.adjoint(means), total)
        value = misfit(operator(volume).sub_(projections), weights)
        history.add(objective=value, step_size=1.0)
        return history.solution(volume, Status.CONVERGED, "A direct method: there is nothing to repeat.")
