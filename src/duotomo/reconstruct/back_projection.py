"""Back projection, unfiltered: the blurred image that every other method improves on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.objectives import ProjectionMisfit
from duotomo.reconstruct._rays import half_square, quotient, ray_lengths, refuse_start
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import History, Solution, Status
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore


@dataclass(frozen=True, kw_only=True)
class BackProjection(Algorithm):
    """Give every voxel the mean over its rays of the mean attenuation along each ray.

    `f = A^T (w p / A 1) / A^T w`, w the weights, or ones: a weighted mean, in 1/mm, never outside the range
    of `p / A 1`. An even volume comes back as it is. Voxels that no ray meets are zero.

    Examples
    --------
    >>> BackProjection()
    BackProjection()
    """

    @torch.no_grad()
    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Project back, in one step. A start is refused.

        In the history, objective is `1/2 sum of w (A f - p)^2`.
        """
        refuse_start("BackProjection", start)
        operator, projections, weights = misfit.operator, misfit.data, misfit.weights
        history = History(lambda: misfit.applications, on_step)
        history.start(objective=half_square(projections, weights))
        # Rays beside the grid say nothing about it, and do not count in the mean: A^T never reads them.
        means = quotient(projections, ray_lengths("BackProjection", operator, projections))
        if weights is not None:
            means *= weights
        total = operator.adjoint(torch.ones_like(projections) if weights is None else weights)
        volume = quotient(operator.adjoint(means), total)
        value = half_square(operator(volume).sub_(projections), weights)
        history.add(objective=value, step_size=1.0)
        return history.solution(volume, Status.CONVERGED, "A direct method: there is nothing to repeat.")
