"""Registration of two reconstructions: the motion under which one looks like the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.blocks import OnStep
from duotomo.methods.level import block_mean
from duotomo.methods.models import carried_over
from duotomo.methods.problem import DENSE
from duotomo.methods.settings import Settings, Stage
from duotomo.objectives import Bending, CrossCorrelation, Objective, SumOfSquares
from duotomo.solvers import GaussNewton, LevenbergMarquardt, Solution, Step
from duotomo.transforms import BSpline, Transform, inverse

INNER_STEPS = 20

Misfit = type[SumOfSquares] | type[CrossCorrelation]

OnStageStep = Callable[[int, Stage, Step], None]
"""Called with the number of the stage, from 0, the stage, and the step."""


MOST_INVERTED, INVERSE_TOLERANCE, INVERSE_STEPS = 200_000, 0.01, 50
"""Points that a motion is inverted on, how exactly, in voxels, and in at most how many steps."""


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
    misfit: Misfit = SumOfSquares,
    on_step: OnStageStep | None = None,
) -> Registered:
    """Return the motion T under which the reference volume, as `f_1(T(x))`, is nearest to the moving one.

    `min over zeta of 1/2 |T(zeta) f_1 - f_2|^2`, through the models and resolutions of the settings' stages.
    reference: f_1, (z, y, x) on `grid`. moving: f_2, on `moving_grid`. start: any motion; models that cannot
    follow it take what is nearest. misfit: SumOfSquares, or CrossCorrelation for volumes whose values differ
    by a factor. n_steps: of each stage, at most. on_step: called after every step.
    """
    check_models(settings)
    for number, stage in enumerate(registration_stages(settings)):
        found = register_once(
            block_mean(reference, stage.coarsen),
            block_mean(moving, stage.coarsen),
            grid=grid.coarsen(stage.coarsen),
            moving_grid=moving_grid.coarsen(stage.coarsen),
            transform=_model(stage, moving_grid),
            settings=settings,
            stiffness=stage.stiffness,
            start=start,
            n_steps=n_steps,
            misfit=misfit,
            on_step=None if on_step is None else partial(on_step, number, stage),
        )
        start = found.transform, found.params
    return found


def check_models(settings: Settings) -> None:
    """Raise unless the settings have a stage with a model of motion."""
    if not registration_stages(settings):
        raise DuotomoError(
            "register: expected settings with a model of motion in some stage; got none. Give a stage one."
        )


def registration_stages(settings: Settings) -> list[Stage]:
    """Return the stages that `register` goes through: each model at each resolution and stiffness once."""
    chosen: dict[tuple[object, ...], Stage] = {}
    for stage in settings.stages:
        if stage.model is not None:
            chosen.setdefault((stage.coarsen, stage.model, stage.stiffness), stage)
    return list(chosen.values())


def register_once(
    reference: torch.Tensor,
    moving: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    transform: Transform,
    settings: Settings,
    start: tuple[Transform, torch.Tensor],
    stiffness: float = 1.0,
    n_steps: int = 30,
    misfit: Misfit = SumOfSquares,
    on_step: OnStep | None = None,
) -> Registered:
    """Return the motion of one model at one resolution, as `register` does for many.

    transform: the model, on the moving visit's grid of any resolution. stiffness: multiplies the bending
    energy of the settings' priors.
    """
    # Fitting a motion to itself would add rounding to it every time.
    params = start[1] if start[0] is transform else carried_over(*start, transform)
    objective = misfit(
        transform, reference, moving, reference=grid, moving=moving_grid, central_step=settings.central_step
    )
    bending = stiffness * settings.priors.bending
    solution = _minimise(objective, transform, params, bending, n_steps, on_step)
    return Registered(transform=transform, params=solution.value, solution=solution)


def resample_to_reference(
    volume: torch.Tensor,
    transform: Transform,
    params: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
) -> torch.Tensor:
    """Return a moving volume in the reference frame, `f_2(T^-1(x))` on `grid`.

    Where the inverse has no closed form, it is found on at most about 200,000 points, to a hundredth of a
    voxel, and is linear between them.
    """
    tolerance_mm = INVERSE_TOLERANCE * min(grid.spacing_mm)
    back = inverse(
        transform, params, _enough_points(grid), tolerance_mm=tolerance_mm, max_steps=INVERSE_STEPS
    )
    warped: torch.Tensor = back.transform.warp(back.params, moving_grid, grid)(volume)
    return warped


def _enough_points(grid: VolumeGrid) -> VolumeGrid:
    """Return a grid that reaches beyond another, with few enough points to invert a smooth motion on."""
    factor = 1
    while math.prod(-(-n // factor) + 2 for n in grid.shape) > MOST_INVERTED:
        factor += 1
    n_z, n_y, n_x = (-(-n // factor) + 2 for n in grid.shape)
    d_z, d_y, d_x = (d * factor for d in grid.spacing_mm)
    # One more all around: a displacement field fades beyond its outermost points.
    return VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=grid.center_mm)


def _minimise(
    objective: SumOfSquares | CrossCorrelation,
    transform: Transform,
    params: torch.Tensor,
    bending: float,
    n_steps: int,
    on_step: OnStep | None,
) -> Solution:
    if isinstance(objective, SumOfSquares) and transform.n_params <= DENSE:
        return LevenbergMarquardt(n_steps=n_steps).minimise(objective, params, on_step=on_step)
    total: Objective = objective
    if isinstance(transform, BSpline) and bending > 0:
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, params.shape, generator=generator).double() * 2 - 1
        prior = Bending(transform)
        # Both are means over the diagonals: signs.H signs is an unbiased guess of the trace.
        stiffness = float(signs @ objective.curvature(params)(signs))
        total = objective + (bending * stiffness / float(signs @ prior.curvature(params)(signs))) * prior
    solver = GaussNewton(n_steps=n_steps, inner_steps=INNER_STEPS, damping=1e-3)
    return solver.minimise(total, params, on_step=on_step)


def _model(stage: Stage, moving_grid: VolumeGrid) -> Transform:
    assert stage.model is not None
    return stage.model.build(moving_grid)
