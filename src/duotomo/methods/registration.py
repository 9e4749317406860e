"""Registration of two reconstructions: the motion under which one looks like the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.level import averaged
from duotomo.methods.models import carried_over
from duotomo.methods.settings import Settings, Stage
from duotomo.objectives import Bending, CrossCorrelation, Objective, SumOfSquares
from duotomo.solvers import GaussNewton, LevenbergMarquardt, Solution
from duotomo.transforms import BSpline, Transform, inverse

INNER_STEPS = 20
_MOST_DENSE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Registered:
    """The motion found, moving_to_reference, and how the search for it ended."""

    transform: Transform
    params: torch.Tensor
    solution: Solution


def register(
    reference: torch.Tensor,
    moving: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    settings: Settings,
    start: tuple[Transform, torch.Tensor],
    n_steps: int = 30,
    misfit: type[SumOfSquares] | type[CrossCorrelation] = SumOfSquares,
) -> Registered:
    """Return the motion T under which the reference volume, seen as `f_1(T(x))`, is nearest to the moving one.

    `min over zeta of 1/2 |T(zeta) f_1 - f_2|^2`, through the models and resolutions of the settings' stages.
    reference: f_1, (z, y, x) on `grid`. moving: f_2, on `moving_grid`. start: any motion; models that cannot
    follow it take what is nearest. misfit: SumOfSquares, or CrossCorrelation for volumes whose values differ
    by a factor. n_steps: of each stage, at most.
    """
    transform, params = start
    solution: Solution | None = None
    for stage in _stages(settings):
        assert stage.model is not None
        target = stage.model.build(moving_grid)
        params = carried_over(transform, params, target)
        transform = target
        objective = misfit(
            transform,
            averaged(reference, stage.coarsen),
            averaged(moving, stage.coarsen),
            reference=grid.coarsen(stage.coarsen),
            moving=moving_grid.coarsen(stage.coarsen),
            central_step=settings.central_step,
        )
        solution = _minimise(objective, transform, params, settings.priors.bending, n_steps)
        params = solution.value
    assert solution is not None
    return Registered(transform=transform, params=params, solution=solution)


def seen_in_reference(
    volume: torch.Tensor, transform: Transform, params: torch.Tensor, *, grid: VolumeGrid, moving_grid: VolumeGrid
) -> torch.Tensor:
    """Return a moving volume in the reference frame, `f_2(T^-1(x))` on `grid`."""
    back = inverse(transform, params, grid)
    warped: torch.Tensor = back.transform.warp(back.params, moving_grid, grid)(volume)
    return warped


def _minimise(
    objective: SumOfSquares | CrossCorrelation,
    transform: Transform,
    params: torch.Tensor,
    bending: float,
    n_steps: int,
) -> Solution:
    if isinstance(objective, SumOfSquares) and transform.n_params <= _MOST_DENSE:
        return LevenbergMarquardt(n_steps=n_steps).minimise(objective, params)
    total: Objective = objective
    if isinstance(transform, BSpline) and bending > 0:
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, params.shape, generator=generator).double() * 2 - 1
        prior = Bending(transform)
        # Both are means over the diagonals: signs.H signs is an unbiased guess of the trace.
        stiffness = float(signs @ objective.curvature(params)(signs))
        total = objective + (bending * stiffness / float(signs @ prior.curvature(params)(signs))) * prior
    return GaussNewton(n_steps=n_steps, inner_steps=INNER_STEPS, damping=1e-3).minimise(total, params)


def _stages(settings: Settings) -> list[Stage]:
    """Return each model's stages at each resolution once."""
    chosen: list[Stage] = []
    for stage in settings.stages:
        known = [(other.coarsen, other.model) for other in chosen]
        if stage.model is not None and (stage.coarsen, stage.model) not in known:
            chosen.append(stage)
    return chosen
