"""Maximum likelihood of counted photons, by multiplicative updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import LinearOperator
from duotomo.reconstruct._rays import check_steps, ray_lengths
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import History, Solution, Status
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore

LEAST_RATIO = 0.1
"""A step lowers a voxel to a tenth at most, so that a positive one stays positive."""


@dataclass(frozen=True, kw_only=True)
class MlConvex(Algorithm):
    """Maximise the likelihood of photons counted behind the object, by the ML-convex algorithm.

    Counts `y = photons exp(-p)` are Poisson of mean `b exp(-t)`, `t = A f`, `b = y exp(p)`. Each step is

        f <- f * (1 + A^T (b exp(-t) - y) / A^T (c t)),    c = 2 b (1 - (1 + t) exp(-t)) / t^2,

    the update of K. Lange and J. Fessler, "Globally convergent algorithms for maximum a posteriori
    transmission tomography", IEEE Trans. Image Process. 4, 1995. They divide by `A^T (b t exp(-t))`, which is
    faster where a voxel grows but can overshoot where it shrinks. c is the least curvature that never
    does (H. Erdogan and J. Fessler, IEEE Trans. Med. Imaging 18, 1999): the likelihood never falls, and
    positive voxels stay positive.

    Parameters
    ----------
    n_steps : int
        Updates.
    photons : float
        Per ray without object. Alone it scales the likelihood and nothing else; weights, which are the
        expected counts y, take its place.

    Raises
    ------
    DuotomoError
        If there are no steps or no photons.

    Examples
    --------
    >>> MlConvex(n_steps=10)
    MlConvex(n_steps=10, photons=250000.0)
    """

    n_steps: int
    photons: float = 250_000.0

    def __post_init__(self) -> None:
        check_steps("MlConvex", "n_steps", self.n_steps)
        if not 0 < self.photons < math.inf:
            raise DuotomoError(
                f"MlConvex: expected photons > 0 and finite; got {self.photons}. Give counts per ray."
            )

    @torch.no_grad()
    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Make `n_steps` updates.

        The start may not be negative, and what is zero stays zero; without one, the even volume of the same
        mean. In the history, objective is the negative log likelihood, less its least value for any t,
        `sum of y (e^(p - t) - 1 - (p - t))`.
        """
        operator, projections, weights = misfit.operator, misfit.data, misfit.weights
        history = History(lambda: misfit.applications, on_step)
        volume, line = _start(operator, projections, weights, start)
        counts = self.photons * torch.exp(-projections) if weights is None else weights
        blank = counts * torch.exp(projections)
        ascent = operator.adjoint(blank * torch.exp(-line) - counts)
        value = _deviance(counts, projections - line)
        norm = float(torch.linalg.vector_norm(ascent, dtype=torch.float64))
        history.start(objective=value, gradient_norm=norm)
        for _ in range(self.n_steps):
            under = operator.adjoint(blank * _curvature_times_line(line))
            # A voxel that no ray meets, or only rays through nothing, keeps its value.
            ratio = torch.where(under > 0, ascent / under, torch.zeros_like(under))
            volume *= ratio.add_(1).clamp_(min=LEAST_RATIO)
            line = operator(volume)
            ascent = operator.adjoint(blank * torch.exp(-line) - counts)
            value = _deviance(counts, projections - line)
            norm = float(torch.linalg.vector_norm(ascent, dtype=torch.float64))
            history.add(objective=value, gradient_norm=norm, step_size=1.0)
        return history.solution(volume, Status.STEP_LIMIT, f"All {self.n_steps} steps were done.")


def _start(
    operator: LinearOperator,
    projections: torch.Tensor,
    weights: torch.Tensor | None,
    start: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the volume to start from, and its line integrals."""
    if start is not None:
        if bool((start < 0).any()) or not bool((start > 0).any()):
            raise DuotomoError(
                "MlConvex: expected a start that is positive somewhere and nowhere negative; got one with "
                f"values from {float(start.min()):.6g} to {float(start.max()):.6g}. Zero voxels stay zero: "
                "clamp it to a small positive value."
            )
        return start.clone(), operator(start)
    lengths = ray_lengths("MlConvex", operator, projections)
    used = lengths > 0 if weights is None else (lengths > 0) & (weights > 0)
    total, length = ((tensor * used).sum(dtype=torch.float64) for tensor in (projections, lengths))
    mean = float(total / length)
    if not mean > 0:
        raise DuotomoError(
            f"MlConvex: expected projections whose mean over the grid's footprint is positive; got a mean "
            f"attenuation of {mean:.6g}/mm. Check their sign and the grid's place, or pass a start."
        )
    return torch.full(operator.domain, mean).to(projections), lengths.mul_(mean)


def _curvature_times_line(line: torch.Tensor) -> torch.Tensor:
    """Return `c t / b = 2 (1 - (1 + t) e^-t) / t`, by its series where the difference loses its digits."""
    large = line.clamp(min=0.1)
    closed = -2 * (torch.expm1(-large) / large + torch.exp(-large))
    series = line * (1 - line * (2 / 3 - line * (1 / 4 - line * (1 / 15 - line / 72))))
    return torch.where(line > 0.1, closed, series)


def _deviance(counts: torch.Tensor, excess: torch.Tensor) -> float:
    # expm1: near a fit, e^d - 1 - d is the small difference of large numbers.
    return float((counts * (torch.expm1(excess) - excess)).sum(dtype=torch.float64))
