"""The covariance of a motion by a parametric bootstrap: noise drawn, and the last stage solved, again."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.blocks import Block, coupled_block
from duotomo.methods.level import Level
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.problem import Problem
from duotomo.methods.result import Result
from duotomo.methods.scales import scales_of
from duotomo.methods.settings import Coupled, Settings
from duotomo.methods.study import Study
from duotomo.methods.uncertainty import OnPart, profiled_curvature, refusal
from duotomo.objectives.term import shown, warped

TOLERANCE = 1e-7
"""Of the objective's decrease, at which a solve ends."""


@torch.no_grad()
def bootstrap(
    study: Study,
    settings: Settings,
    result: Result,
    n_draws: int,
    *,
    seed: int = 0,
    n_steps: int = 200,
    on_part: OnPart | None = None,
) -> tuple[MotionUncertainty, ...]:
    """Return how sure the motions of a result are, by solving for them again and again.

    The result is solved to its end on the level that `uncertainty_of` uses; what it predicts gets white noise
    of the variance that the weights stand for, and volume and motions are solved for again, from there. It
    asks for no curvature, and so checks the form "noise" of `uncertainty_of`, at hundreds of times its cost.

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
    profiled, problem = profiled_curvature(study, settings, result)
    scales = scales_of(study, settings.priors)

    def solved(level: Level, volume: torch.Tensor, params: tuple[torch.Tensor, ...]) -> Block:
        own = Problem(level, problem.transforms, problem.priors, scales)
        return coupled_block(
            own, volume, params, solver=Coupled(), n_steps=n_steps, tolerance=TOLERANCE, on_step=None
        )

    base = solved(problem.level, profiled.volume, tuple(profiled.params))
    predicted = _predicted(problem, base)
    rows = []
    for draw in range(n_draws):
        level = _drawn(problem.level, predicted, seed + draw)
        rows.append(torch.cat(solved(level, base.volume, base.params).params))
        if on_part is not None:
            on_part(draw + 1, n_draws)
    modes = torch.stack(rows, dim=1)
    modes = (modes - modes.mean(dim=1, keepdim=True)) / (n_draws - 1) ** 0.5
    core = torch.eye(n_draws, dtype=torch.float64)
    parts = modes.split_with_sizes(profiled.sizes)
    return tuple(
        MotionUncertainty(motion=motion, form="bootstrap", modes=own, core=core)
        for motion, own in zip(result.motions, parts, strict=True)
    )


def _predicted(problem: Problem, base: Block) -> list[torch.Tensor]:
    """Return the line integrals that volume and motions predict, of each visit."""
    volume, rows, found = shown(problem.misfit.basis, base.volume), iter(base.params), []
    for visit in problem.misfit.visits:
        warp = None if visit.transform is None else visit.warp(next(rows))
        found.append(visit.misfit.operator(warped(warp, volume)))
    return found


def _drawn(level: Level, predicted: list[torch.Tensor], seed: int) -> Level:
    """Return a level whose projections are predicted ones with noise."""
    result, visits = copy(level), []
    generator = torch.Generator().manual_seed(seed)
    for visit, views, sigma in zip(level.visits, predicted, level.noises, strict=True):
        noise = torch.randn(views.shape, generator=generator, dtype=torch.float64).to(views)
        if visit.weights is not None:
            roots = visit.weights.clamp(min=1e-30).rsqrt()
            noise *= torch.where(visit.weights > 0, roots, 0.0)
        visits.append(replace(visit, projections=views + sigma * noise))
    result.visits = tuple(visits)
    return result
