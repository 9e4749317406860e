"""Registration of two reconstructions: the motion under which they agree best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.centroid import centroid
from duotomo.methods.level import block_mean
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.objectives import CrossCorrelation, ImageMisfit, LocalCorrelation, Objective, SumOfSquares
from duotomo.objectives.embedded import Embedded
from duotomo.objectives.priors.bending import bending_priors, sign_form
from duotomo.objectives.priors.folding import FoldingPenalty
from duotomo.objectives.spline_misfit import SplineMisfit
from duotomo.solvers import GaussNewton, LevenbergMarquardt, Solution, Step
from duotomo.solvers.history import OnStep
from duotomo.transforms import Affine, BSpline, Inverse, Model, Motion, Rigid, Transform, Translation
from duotomo.transforms.inversion import best_inverse
from duotomo.transforms.models import ChainModel, LatticeModel
from duotomo.transforms.transform import FEW_PARAMS

INNER_STEPS, INNER_TOLERANCE = 60, 0.05
"""Of the conjugate gradients in each Gauss-Newton step of a B-spline, whose products need no warps."""

FEW_INNER_STEPS, LARGE_TOLERANCE = 20, 0.1
"""The same of other transforms, each of whose products takes two warps."""

TOLERANCE = 1e-3
"""A stage ends once a step lowers the objective by no more than this fraction of it."""

STIFFNESS = 1333.0
"""Factor of the settings' bending energy, whose weight suits a joint misfit.

Artefacts of limited-angle reconstructions lie still in the frame of the machine while the breast moves; a
softer lattice follows them.
"""

FIRST_STIFFNESS = 10.0
"""Further factor of the bending energy in all stages of control points but the last."""

Misfit = type[LocalCorrelation] | type[SumOfSquares] | type[CrossCorrelation]

OnStageStep = Callable[[int, Stage, Step], None]
"""Called with the number of the stage, from 0, the stage, and the step."""


MOST_INVERTED, INVERSE_TOLERANCE, INVERSE_STEPS = 60_000, 0.01, 50
"""Points that a motion is inverted on, the tolerance in voxels, and the largest number of steps."""

RESAMPLING_STEPS = 12
"""Largest number of steps for a volume: those after serve points outside of it, at the end of the lattice."""


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
    misfit: Misfit = LocalCorrelation,
    on_step: OnStageStep | None = None,
) -> Registration:
    """Return the motion T under which the reference volume, `f_1(T(x))`, agrees best with the moving one.

    `min over zeta of 1/2 |T(zeta) n(f_1) - n(f_2)|^2`, n a local normalisation, through the models and
    resolutions of `registration_stages`. A B-spline does not fold.

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
        `LocalCorrelation`; or `SumOfSquares`, where n is the identity; or `CrossCorrelation`.
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
        found = register_stage(
            stage,
            reference,
            moving,
            grid=grid,
            moving_grid=moving_grid,
            transform=stage.model(moving_grid),
            settings=settings,
            start=start,
            n_steps=n_steps,
            misfit=misfit,
            on_step=None if on_step is None else partial(on_step, number, stage),
        )
        start = found.motion
    return found


def register_stage(
    stage: Stage,
    reference: torch.Tensor,
    moving: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    transform: Transform,
    settings: Settings,
    start: Motion,
    n_steps: int,
    misfit: Misfit,
    on_step: OnStep | None,
) -> Registration:
    """Return the motion of one of the stages of `register`; the volumes and grids are the finest ones."""
    return register_once(
        block_mean(reference, stage.coarsen),
        block_mean(moving, stage.coarsen),
        grid=grid.coarsen(stage.coarsen),
        moving_grid=moving_grid.coarsen(stage.coarsen),
        transform=transform,
        settings=settings,
        stiffness=stage.stiffness,
        start=start,
        n_steps=n_steps,
        misfit=misfit,
        on_step=on_step,
    )


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
    """Return the stages that `register` goes through.

    Models without control points run at each of their resolutions once. A model with control points comes
    after a rigid and an affine stage: along depth, scale and shear are determined weakly, and stiff models
    determine them best. It runs twice, first with half the resolution and a larger bending energy.

    Parameters
    ----------
    settings : Settings
        Whose models and resolutions are used.

    Returns
    -------
    list of Stage
        Each with a model.
    """
    given: dict[tuple[object, ...], Stage] = {}
    for stage in settings.stages:
        if stage.model is not None:
            given.setdefault((stage.coarsen, stage.model), stage)
    stages = [stage for stage in given.values() if not _has_lattice(stage.model)]
    soft = list(dict.fromkeys(stage.model for stage in given.values() if _has_lattice(stage.model)))
    if not soft:
        return stages
    levels, n_steps = _levels(settings), settings.stages[-1].n_steps
    known = {stage.model for stage in stages}
    if not known & {Rigid, Affine}:
        stages.append(Stage(coarsen=levels[0], model=Rigid, n_steps=n_steps))
    if Affine not in known:
        stages += [Stage(coarsen=level, model=Affine, n_steps=n_steps) for level in levels[1:] or levels]
    before = levels[-2:][0]
    stages += [
        Stage(coarsen=before, model=model, stiffness=FIRST_STIFFNESS, n_steps=n_steps) for model in soft
    ]
    return [*stages, Stage(coarsen=levels[-1], model=soft[-1], n_steps=n_steps)]


def _has_lattice(model: Model | None) -> bool:
    return isinstance(model, LatticeModel | ChainModel)


def _levels(settings: Settings) -> list[tuple[int, int, int]]:
    """Return the resolutions from the coarsest of the settings to the last one, each half as coarse."""
    finest = settings.stages[-1].coarsen
    levels = [max((stage.coarsen for stage in settings.stages), key=math.prod)]
    while levels[-1] != finest:
        z, y, x = (max(end, -(-n // 2)) for n, end in zip(levels[-1], finest, strict=True))
        levels.append((z, y, x))
    return levels


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
    misfit: Misfit = LocalCorrelation,
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
        transform,
        reference,
        moving,
        reference=grid,
        moving=moving_grid,
        central_step=settings.central_step,
        cubic=settings.central_step is None,
    )
    bending = stiffness * STIFFNESS * settings.priors.bending
    solution = _minimise(objective, transform, params, bending, n_steps, on_step)
    return Registration(motion=Motion(transform, solution.value), solution=solution)


def resample_to_reference(
    volume: torch.Tensor, motion: Motion, *, grid: VolumeGrid, moving_grid: VolumeGrid
) -> torch.Tensor:
    """Resample a moving volume to the reference frame, `f_2(T^-1(x))`.

    Where the inverse has no closed form, it is computed on at most about 60,000 points, to a hundredth of a
    voxel, and is linear between them. Where T folds, it is what comes nearest to an inverse: `trust_of`
    judges the motion.

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
    inverse = reference_to_moving(motion, grid=grid, max_steps=RESAMPLING_STEPS)
    return inverse.motion.warp(moving_grid, grid)(volume)


def reference_to_moving(motion: Motion, *, grid: VolumeGrid, max_steps: int = INVERSE_STEPS) -> Inverse:
    """Return `T^-1` as `resample_to_reference` uses it, for points of a grid of the reference frame."""
    tolerance_mm = INVERSE_TOLERANCE * min(grid.spacing_mm)
    return best_inverse(motion, _enough_points(grid), tolerance_mm=tolerance_mm, max_steps=max_steps)


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
    objective: ImageMisfit,
    transform: Transform,
    params: torch.Tensor,
    bending: float,
    n_steps: int,
    on_step: OnStep | None,
) -> Solution:
    if isinstance(objective, SumOfSquares) and transform.n_params <= FEW_PARAMS:
        few = LevenbergMarquardt(n_steps=n_steps, tolerance=TOLERANCE)
        return few.minimise(objective, params, on_step=on_step)
    data: Objective = objective
    diagonal: torch.Tensor | None = None
    if isinstance(transform, BSpline) and objective.central_step is None:
        data = SplineMisfit(objective)
        diagonal = data.diagonal(params)
    total = data
    for own, energy in bending_priors(transform) if bending > 0 else ():
        # Both are estimates of traces over the same parameters.
        ours, its = (sign_form(one.curvature(params), len(params), own) for one in (data, energy))
        total = total + (bending * ours / its) * energy
        if diagonal is not None:
            # The diagonal of the bending energy hardly varies over the lattice.
            diagonal[own] += bending * ours / (own.stop - own.start)
    for start, part in transform.lattice_parts():
        if isinstance(part, BSpline):
            unfolded: Objective = Embedded(FoldingPenalty(part), length=transform.n_params, start=start)
            # A motion that folds already is not refused.
            if unfolded.value(params) < math.inf:
                total = total + data.value(params) * unfolded
    solver = GaussNewton(
        n_steps=n_steps,
        tolerance=TOLERANCE,
        inner_steps=FEW_INNER_STEPS if diagonal is None else INNER_STEPS,
        inner_tolerance=LARGE_TOLERANCE if diagonal is None else INNER_TOLERANCE,
        damping=1e-3,
    )
    if diagonal is None or not float(diagonal.max()) > 0:
        return solver.minimise(total, params, on_step=on_step)
    # Control points that act on nothing have no curvature.
    scale = 1 / diagonal.clamp(min=1e-6 * float(diagonal.mean()))
    return solver.minimise(total, params, precondition=lambda x: lambda r: scale * r, on_step=on_step)


def _centroid_mm(volume: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the centroid of what is positive, xyz."""
    voxels = centroid(volume)
    if voxels is None:
        raise DuotomoError(
            "centered_motion: expected a volume with positive values; got none. Check the file: "
            "attenuation is positive."
        )
    rows = zip(grid.low_mm, voxels, grid.spacing_mm, strict=True)
    zyx = [low + at * edge for low, at, edge in rows]
    return torch.tensor(zyx[::-1], dtype=torch.float64)
