"""Registration of two reconstructions: the motion under which they agree best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.level import block_mean
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.objectives import CrossCorrelation, Objective, SumOfSquares
from duotomo.objectives.priors.bending import bending_priors, sign_form
from duotomo.solvers import GaussNewton, LevenbergMarquardt, Solution, Step
from duotomo.solvers.history import OnStep
from duotomo.transforms import Inverse, Motion, Transform, Translation, invert
from duotomo.transforms.transform import FEW_PARAMS

INNER_STEPS = 20

Misfit = type[SumOfSquares] | type[CrossCorrelation]

OnStageStep = Callable[[int, Stage, Step], None]
"""Called with the number of the stage, from 0, the stage, and the step."""


MOST_INVERTED, INVERSE_TOLERANCE, INVERSE_STEPS = 200_000, 0.01, 50
"""Points that a motion is inverted on, the tolerance in voxels, and the largest number of steps."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Registration:
    """Motion found by a registration, and how its solver ended.

    Parameters
    ----------
    motion : Motion
        moving_to_reference.
    solution : Solution
        Of the last stage.
    """

    motion: Motion
    solution: Solution


def register(
    reference: torch.Tensor,
    moving: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    settings: Settings,
    start: Motion,
    n_steps: int = 30,
    misfit: Misfit = SumOfSquares,
    on_step: OnStageStep | None = None,
) -> Registration:
    """Return the motion T under which the reference volume, `f_1(T(x))`, agrees best with the moving one.

    `min over zeta of 1/2 |T(zeta) f_1 - f_2|^2`, through the models and resolutions of the settings' stages.

    Parameters
    ----------
    reference : torch.Tensor
        f_1, (z, y, x) on `grid`, in 1/mm.
    moving : torch.Tensor
        f_2, (z, y, x) on `moving_grid`, in 1/mm.
    grid, moving_grid : VolumeGrid
        Of the two volumes.
    settings : Settings
        Whose models, resolutions and bending energy are used.
    start : Motion
        Initial guess; converted to the first model by `Motion.convert`.
    n_steps : int
        Steps of each stage, at most.
    misfit : type
        `SumOfSquares`, or `CrossCorrelation` for volumes whose values differ by a factor.
    on_step : callable, optional
        Called with the number of the stage, from 0, the `Stage`, and the `Step`.

    Returns
    -------
    Registration
        The motion found.

    Raises
    ------
    DuotomoError
        If no stage of the settings has a model.
    """
    check_models(settings)
    for number, stage in enumerate(registration_stages(settings)):
        assert stage.model is not None
        found = register_once(
            block_mean(reference, stage.coarsen),
            block_mean(moving, stage.coarsen),
            grid=grid.coarsen(stage.coarsen),
            moving_grid=moving_grid.coarsen(stage.coarsen),
            transform=stage.model(moving_grid),
            settings=settings,
            stiffness=stage.stiffness,
            start=start,
            n_steps=n_steps,
            misfit=misfit,
            on_step=None if on_step is None else partial(on_step, number, stage),
        )
        start = found.motion
    return found


def centered_motion(
    reference: torch.Tensor, moving: torch.Tensor, *, grid: VolumeGrid, moving_grid: VolumeGrid
) -> Motion:
    """Return the translation that takes the centroid of one volume to that of another: an initial guess.

    The centroid is that of the positive values.

    Parameters
    ----------
    reference, moving, grid, moving_grid
        As for `register`.

    Returns
    -------
    Motion
        moving_to_reference, of a `Translation`.

    Raises
    ------
    DuotomoError
        If a volume has no positive values.
    """
    shift = Translation(moving_grid)
    guess_mm = _centroid_mm(reference, grid) - _centroid_mm(moving, moving_grid)
    return Motion(shift, shift.params(translation_mm=guess_mm.tolist()))


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
    start: Motion,
    stiffness: float = 1.0,
    n_steps: int = 30,
    misfit: Misfit = SumOfSquares,
    on_step: OnStep | None = None,
) -> Registration:
    """Return the motion of one model at one resolution, as `register` does for many.

    Parameters
    ----------
    reference, moving, grid, moving_grid
        As for `register`.
    transform : Transform
        The model, on the moving visit's grid of any resolution.
    settings : Settings
        Whose bending energy and derivatives are used.
    start : Motion
        Initial guess; converted to `transform` by `Motion.convert`.
    stiffness : float
        Multiplies the bending energy of the settings' priors.
    n_steps : int
        Steps, at most.
    misfit
        As for `register`.
    on_step : callable, optional
        Called with every `Step`.

    Returns
    -------
    Registration
        The motion found.
    """
    # Fitting a motion to itself would add rounding to it every time.
    params = (start if start.transform is transform else start.convert(transform)).params
    objective = misfit(
        transform, reference, moving, reference=grid, moving=moving_grid, central_step=settings.central_step
    )
    bending = stiffness * settings.priors.bending
    solution = _minimise(objective, transform, params, bending, n_steps, on_step)
    return Registration(motion=Motion(transform, solution.value), solution=solution)


def resample_to_reference(
    volume: torch.Tensor, motion: Motion, *, grid: VolumeGrid, moving_grid: VolumeGrid
) -> torch.Tensor:
    """Resample a moving volume to the reference frame, `f_2(T^-1(x))`.

    Where the inverse has no closed form, it is computed on at most about 200,000 points, to a hundredth of a
    voxel, and is linear between them.

    Parameters
    ----------
    volume : torch.Tensor
        f_2, (z, y, x) on `moving_grid`, in 1/mm.
    motion : Motion
        T, moving_to_reference.
    grid : VolumeGrid
        Of the reference frame.
    moving_grid : VolumeGrid
        Of the moving volume.

    Returns
    -------
    torch.Tensor
        (z, y, x) on `grid`, in 1/mm.
    """
    warp = reference_to_moving(motion, grid=grid).motion.warp(moving_grid, grid)
    return warp(volume)


def reference_to_moving(motion: Motion, *, grid: VolumeGrid) -> Inverse:
    """Return `T^-1` as `resample_to_reference` uses it, for points of a grid of the reference frame."""
    tolerance_mm = INVERSE_TOLERANCE * min(grid.spacing_mm)
    return invert(motion, _enough_points(grid), tolerance_mm=tolerance_mm, max_steps=INVERSE_STEPS)


def _enough_points(grid: VolumeGrid) -> VolumeGrid:
    """Return a grid that extends beyond another, with few enough points to invert a smooth motion on."""
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
    if isinstance(objective, SumOfSquares) and transform.n_params <= FEW_PARAMS:
        return LevenbergMarquardt(n_steps=n_steps).minimise(objective, params, on_step=on_step)
    total: Objective = objective
    for own, energy in bending_priors(transform) if bending > 0 else ():
        # Both are estimates of traces over the same parameters.
        ours, its = (sign_form(one.curvature(params), len(params), own) for one in (objective, energy))
        total = total + (bending * ours / its) * energy
    solver = GaussNewton(n_steps=n_steps, inner_steps=INNER_STEPS, damping=1e-3)
    return solver.minimise(total, params, on_step=on_step)


def _centroid_mm(volume: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the centroid of what is positive, xyz."""
    positive = volume.clamp(min=0)
    centers = []
    for axis, others in ((2, (0, 1)), (1, (0, 2)), (0, (1, 2))):
        weights = positive.sum(dim=others, dtype=torch.float64).cpu()
        if not float(weights.sum()) > 0:
            raise DuotomoError(
                "centered_motion: expected a volume with positive values; got none. Check the file: "
                "attenuation is positive."
            )
        index = torch.arange(len(weights), dtype=torch.float64) + 0.5
        mean = float((index * weights).sum() / weights.sum())
        centers.append(grid.low_mm[axis] + mean * grid.spacing_mm[axis])
    return torch.tensor(centers, dtype=torch.float64)
