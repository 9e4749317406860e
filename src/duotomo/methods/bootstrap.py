"""The covariance of a motion by a parametric bootstrap: noise drawn, and the last stage solved, again."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.blocks import Block, coupled_block
from duotomo.methods.level import Level
from duotomo.methods.motion_prior import STIFFNESS
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.problem import Problem
from duotomo.methods.result import Result
from duotomo.methods.settings import Coupled, Settings
from duotomo.methods.study import Study
from duotomo.methods.uncertainty import OnPart, problem_at, refusal
from duotomo.objectives.term import shown, warped

TOLERANCE = 1e-7
"""Of the objective's decrease, at which a solve ends."""

N_STEPS = 200
"""Of a solve, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Redrawn:
    """A result solved to its end, from which noise is drawn, and everything solved for, again.

    Parameters
    ----------
    problem : Problem
        On the level that `uncertainty_of` uses, with the prior of the motion that it assumes.
    base : Block
        Volume and motions without drawn noise.
    predicted : tuple of torch.Tensor
        Line integrals that they predict, of each visit, (view, v, u).
    n_steps : int
        Of each solve, at most.
    """

    problem: Problem = field(repr=False)
    base: Block = field(repr=False)
    predicted: tuple[torch.Tensor, ...] = field(repr=False)
    n_steps: int

    @classmethod
    def of(cls, study: Study, settings: Settings, result: Result, *, n_steps: int = N_STEPS) -> Redrawn:
        """Return the draws of a result."""
        problem, volume, params = problem_at(study, settings, result)
        # The covariance assumes smoother control points than the run.
        priors = replace(problem.priors, bending=STIFFNESS * problem.priors.bending)
        problem = Problem(problem.level, problem.transforms, priors, problem.scales)
        base = _solved(problem, volume, tuple(params), n_steps)
        return cls(problem=problem, base=base, predicted=_predicted(problem, base), n_steps=n_steps)

    def params(self, seed: int) -> torch.Tensor:
        """Return the parameters of all motions, in a row, that the noise of a seed leads to."""
        return torch.cat(self.solved(seed).params)

    @torch.no_grad()
    def solved(self, seed: int | None) -> Block:
        """Return volume and motions that the noise of a seed leads to; none adds no noise."""
        return _solved(self.drawn(seed), self.base.volume, self.base.params, self.n_steps)

    def drawn(self, seed: int | None) -> Problem:
        """Return the problem whose data are those predicted, with the noise of a seed, or none."""
        level = _drawn(self.problem.level, self.predicted, seed)
        return Problem(level, self.problem.transforms, self.problem.priors, self.problem.scales)


@torch.no_grad()
def bootstrap(
    study: Study,
    settings: Settings,
    result: Result,
    n_draws: int,
    *,
    seed: int = 0,
    n_steps: int = N_STEPS,
    on_part: OnPart | None = None,
) -> tuple[MotionUncertainty, ...]:
    """Return how sure the motions of a result are, by solving for them again and again.

    The result is solved to its end on the level that `uncertainty_of` uses, with the prior of the motion that
    this assumes; what it predicts gets white noise of the variance that the weights stand for, and volume and
    motions are solved for again, from there. It asks for no curvature, and so checks the form "noise" of
    `uncertainty_of`, at hundreds of times its cost.

    Both agree where noise is so small that the motion follows it linearly, and where the priors of the volume
    are parabolas and leave little of the data unexplained. Elsewhere this is what the estimate does.

    Parameters
    ----------
    study, settings, result
        As for `uncertainty_of`.
    n_draws : int
        At least 2; deviations are known to `1 / sqrt(2 n_draws)`.
    seed : int
        Of the first draw; the others follow.
    n_steps : int
        Of each solve, at most.
    on_part : callable, optional
        Hears of every draw.

    Returns
    -------
    tuple of MotionUncertainty
        Of each moving visit; without numbers, but with a reason, as for `uncertainty_of`.

    Raises
    ------
    DuotomoError
        If there are fewer than two draws.
    """
    if n_draws < 2:
        raise DuotomoError(f"bootstrap: expected n_draws >= 2; got {n_draws}. Use some hundred.")
    reason = refusal(study, result)
    if reason or not result.motions:
        return tuple(MotionUncertainty.none(motion, reason) for motion in result.motions)
    redrawn = Redrawn.of(study, settings, result, n_steps=n_steps)
    rows = []
    for draw in range(n_draws):
        rows.append(redrawn.params(seed + draw))
        if on_part is not None:
            on_part(draw + 1, n_draws)
    modes = torch.stack(rows, dim=1)
    modes = (modes - modes.mean(dim=1, keepdim=True)) / (n_draws - 1) ** 0.5
    core = torch.eye(n_draws, dtype=torch.float64)
    parts = modes.split_with_sizes([len(motion.params) for motion in result.motions])
    return tuple(
        MotionUncertainty(motion=motion, form="bootstrap", modes=own, core=core)
        for motion, own in zip(result.motions, parts, strict=True)
    )


def _solved(problem: Problem, volume: torch.Tensor, params: tuple[torch.Tensor, ...], n_steps: int) -> Block:
    return coupled_block(
        problem, volume, params, solver=Coupled(), n_steps=n_steps, tolerance=TOLERANCE, on_step=None
    )


def _predicted(problem: Problem, base: Block) -> tuple[torch.Tensor, ...]:
    """Return the line integrals that volume and motions predict, of each visit."""
    volume, rows, found = shown(problem.misfit.basis, base.volume), iter(base.params), []
    for visit in problem.misfit.visits:
        warp = None if visit.transform is None else visit.warp(next(rows))
        found.append(visit.misfit.operator(warped(warp, volume)))
    return tuple(found)


def _drawn(level: Level, predicted: tuple[torch.Tensor, ...], seed: int | None) -> Level:
    """Return a level whose projections are predicted ones, with the noise of a seed."""
    result, visits = copy(level), []
    generator = torch.Generator().manual_seed(seed or 0)
    for visit, views, sigma in zip(level.visits, predicted, level.noises, strict=True):
        if seed is None:
            visits.append(replace(visit, projections=views))
            continue
        noise = torch.randn(views.shape, generator=generator, dtype=torch.float64).to(views)
        if visit.weights is not None:
            roots = visit.weights.clamp(min=1e-30).rsqrt()
            noise *= torch.where(visit.weights > 0, roots, 0.0)
        visits.append(replace(visit, projections=views + sigma * noise))
    result.visits = tuple(visits)
    return result
