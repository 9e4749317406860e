"""How sure a motion is: its covariance, with the volume profiled out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial

import torch

from duotomo.methods.level import FINEST, Factors, Level, block_mean, coarsening
from duotomo.methods.motion_prior import MotionPrior
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.preconditioner import motion_curvatures
from duotomo.methods.problem import Problem
from duotomo.methods.profiled_curvature import N_STEPS, TOLERANCE, ProfiledCurvature
from duotomo.methods.result import Result
from duotomo.methods.runner import MOVING
from duotomo.methods.sandwich import Form, SandwichParts
from duotomo.methods.scales import level_of, scales_of
from duotomo.methods.settings import Settings
from duotomo.methods.solves import SolveStore, solved_columns, solved_products
from duotomo.methods.structure import Structure
from duotomo.methods.study import Study
from duotomo.methods.trust import STRETCH, is_of_two_views, stretch_of, volume_ratio
from duotomo.solvers import Status
from duotomo.transforms import Motion
from duotomo.transforms.transform import FEW_PARAMS

SMOOTHNESS = 0.97
"""Variance of what the prior of control points leaves out, over what it assumes.

Fitted, as are those of blocks and spectrum."""

AXES = (0.48, 0.48, 0.91)
"""Variances of displacements by control points along x, y and z, over those that follow; fitted likewise."""

COMPRESSED_MM = 2.0
"""Standard deviation along each axis of what is left of a motion between two compressions: bodies are no half
ellipsoids, and tissue is not alike. Residuals do not tell of it. Fitted on four development breasts."""

SEEN_WIDTH, ABOUT_WIDTH = 0.15, 0.3
"""Windows of the structure that a motion is seen by, and of that which errors grow with: standard deviations,
in distances of control points."""

N_MODES, N_EXTRA, FIRST_STEPS = 240, 16, 5
"""Directions that many parameters are reduced to, more for the search of them, and solver steps there."""

MOST_VOXELS = 8_000_000
"""Of the level for few parameters; above, a coarser one will do."""

PER_SPACING = 11
"""Voxels between two control points, above which finer ones add nothing."""

LEAST_VOLUME = 0.05
"""Of what a motion leaves of a volume: below, it folds or nearly so."""

SINGULAR = 1e-9
"""Share of the largest curvature below which a direction is not determined; in units of the diagonal."""

OnPart = Callable[[int, int], None]
"""Called with how many solves are done, and of how many."""


class Why(Enum):
    """Why there are no numbers."""

    NOT_CONVERGED = "The run did not converge, so its motion is not where the objective is least."
    FOLDED = "The motion folds, or nearly so: at the border of what the model can describe nothing is linear."
    STRETCHED = "The motion changes volumes by more than tissue does: it is not that of a breast."
    SINGULAR = "The data do not determine all parameters of this model."


@torch.no_grad()
def uncertainty_of(
    study: Study,
    settings: Settings,
    result: Result,
    *,
    form: Form = "sandwich",
    tolerance: float = TOLERANCE,
    n_steps: int = N_STEPS,
    n_modes: int = N_MODES,
    on_part: OnPart | None = None,
    store: SolveStore | None = None,
) -> tuple[MotionUncertainty, ...]:
    """Return how sure the motions of a result are.

    The volume is profiled out: `S = H_zz - H_zf H_ff^-1 H_fz + prior` is the curvature along the parameters
    when the volume follows them. The covariance is `S^-1 M S^-1`, where M is that of the slope. Residuals
    exceed the noise, and those of neighbouring rays go together; so M is estimated from them, as a sum of two
    parts: the squares of what each block of 24 mm of the detector, in all views, adds to the slope; and the
    slopes of stationary noise with the residuals' spectrum. Their weights, and that of the prior, were fitted
    on breasts whose motions are known, so that the covariance is that of the errors. Between two compressions
    most of an error is what the model of mechanics leaves, which no residual shows; a constant is added.

    Up to 64 parameters are taken at the resolution of the result. More, those of control points, on voxels
    twice as large, in the subspace of the 240 directions that the data add most to (Bui-Thanh, Ghattas,
    Martin and Stadler, 2013; found by random sampling, Halko, Martinsson and Tropp, 2011); outside of it the
    prior stands.

    Parameters
    ----------
    study : Study
        The visits.
    settings : Settings
        Of the run.
    result : Result
        Volume and motions.
    form : str
        "sandwich"; "laplace", `S^-1`; or "noise", M being that of white noise of the variance that the
        weights stand for.
    tolerance, n_steps
        Of the solves for the volume, as for `ProfiledCurvature`.
    n_modes : int
        Directions that more than 64 parameters are reduced to.
    on_part : callable, optional
        Hears of every batch of solves.
    store : SolveStore, optional
        Keeps finished batches, and has those of a computation that was interrupted: the covariance is the
        same then, bit for bit. Of one study and one result.

    Returns
    -------
    tuple of MotionUncertainty
        Of each moving visit. Without numbers, but with a reason, where the run did not converge, where a
        motion folds or changes volumes as tissue does not, and where the curvature is singular.
    """
    reason = refusal(study, result)
    if reason or not result.motions:
        return tuple(MotionUncertainty.none(motion, reason) for motion in result.motions)
    profiled, problem = profiled_curvature(study, settings, result, tolerance=tolerance, n_steps=n_steps)
    if are_few(result.motions):
        return _of_few(problem, profiled, result, form, on_part, store)
    return _of_many(study, problem, profiled, result, form, n_modes, on_part, store)


def profiled_curvature(
    study: Study,
    settings: Settings,
    result: Result,
    *,
    tolerance: float = TOLERANCE,
    n_steps: int = N_STEPS,
) -> tuple[ProfiledCurvature, Problem]:
    """Return the curvature at a result, and the problem that it belongs to, on the level for its motions."""
    problem, volume, params = problem_at(study, settings, result)
    return ProfiledCurvature(problem, volume, params, tolerance=tolerance, n_steps=n_steps), problem


def problem_at(
    study: Study, settings: Settings, result: Result
) -> tuple[Problem, torch.Tensor, list[torch.Tensor]]:
    """Return the problem on the level for the motions of a result, and its volume and parameters there."""
    motions = result.motions
    scales, coarsen = scales_of(study, settings.priors), level_factors(study, motions)
    # Edges know a motion without control points best, and so does the run that found it.
    priors = replace(settings.priors, edges=0.0) if are_few(motions) else settings.priors
    level = level_of(study, coarsen, basis=settings.basis, priors=priors, scales=scales)
    moving = replace(priors, total_variation=MOVING * priors.total_variation)
    problem = Problem(level, [motion.transform for motion in motions], moving, scales)
    return problem, block_mean(result.volume, coarsen), [motion.params for motion in motions]


def are_few(motions: Sequence[Motion]) -> bool:
    """Return whether the parameters of all motions are so few that each is taken by itself."""
    return sum(motion.transform.n_params for motion in motions) <= FEW_PARAMS


def level_factors(study: Study, motions: Sequence[Motion]) -> Factors:
    """Return the factors of the level that a covariance is computed on."""
    spacings = [spacing for motion in motions if (spacing := motion.transform.control_spacing_mm) is not None]
    if not spacings or are_few(motions):
        factor = 1
        while study.grid.n_voxels / factor**3 > MOST_VOXELS:
            factor += 1
        return FINEST if factor == 1 else coarsening(study.grid, factor * min(study.grid.spacing_mm))
    finest_mm = min(min(spacing) for spacing in spacings) / PER_SPACING
    return coarsening(study.grid, max(2 * max(study.grid.spacing_mm), finest_mm))


def refusal(study: Study, result: Result) -> str:
    """Return why nothing can be said of the motions of a result; empty if something can."""
    if result.status is not Status.CONVERGED or result.grid != study.grid:
        return f"{Why.NOT_CONVERGED.value} {result.reason}"
    for visit, motion in zip(study.moving, result.motions, strict=True):
        determinants = motion.determinants(study.grid_of(visit).coarsen((4, 4, 4)))
        if float(determinants.min()) < LEAST_VOLUME:
            return Why.FOLDED.value
        if stretch_of(volume_ratio(determinants)) > STRETCH:
            return Why.STRETCHED.value
    return ""


def _of_few(
    problem: Problem,
    profiled: ProfiledCurvature,
    result: Result,
    form: Form,
    on_part: OnPart | None,
    store: SolveStore | None,
) -> tuple[MotionUncertainty, ...]:
    covariance = covariance_of_few(problem, profiled, form, on_part, store)
    if covariance is None:
        return tuple(MotionUncertainty.none(motion, Why.SINGULAR.value) for motion in result.motions)
    modes = torch.eye(profiled.n_params, dtype=torch.float64).split_with_sizes(profiled.sizes)
    return tuple(
        MotionUncertainty(
            motion=motion, form=form, modes=own, core=covariance, beside_mm=_beside_mm(motion, form)
        )
        for motion, own in zip(result.motions, modes, strict=True)
    )


def covariance_of_few(
    problem: Problem,
    profiled: ProfiledCurvature,
    form: Form,
    on_part: OnPart | None = None,
    store: SolveStore | None = None,
) -> torch.Tensor | None:
    """Return the covariance of the parameters of all motions; None where the curvature is singular."""
    n = profiled.n_params
    heard = None if on_part is None else partial(_shifted, on_part, 0, n)
    units = torch.eye(n, dtype=torch.float64)
    columns = solved_columns(profiled, units, store=store, on_part=heard)
    parts = SandwichParts.of(problem.level, profiled, columns, form, "few")
    scale = parts.curvature.diagonal().clamp(min=1e-300).rsqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * parts.curvature * scale)
    if not float(values[0]) > SINGULAR * float(values[-1]):
        return None
    inverse: torch.Tensor = ((vectors / values) @ vectors.T) * scale[:, None] * scale
    if form == "laplace":
        return _unit(problem.level) * inverse
    covariance: torch.Tensor = inverse @ parts.meat @ inverse
    return covariance


def _of_many(
    study: Study,
    problem: Problem,
    profiled: ProfiledCurvature,
    result: Result,
    form: Form,
    n_modes: int,
    on_part: OnPart | None,
    store: SolveStore | None,
) -> tuple[MotionUncertainty, ...]:
    curvatures = motion_curvatures(problem.misfit, profiled.volume, profiled.params)
    bending = problem.bending([one.diagonal for one in curvatures])
    unit = _unit(problem.level)
    priors = [MotionPrior(one.transform, own, unit) for one, own in zip(result.motions, bending, strict=True)]
    n_first, n_modes = (min(n, profiled.n_params) for n in (n_modes + N_EXTRA, n_modes))
    first = second = None
    if on_part is not None:
        first = partial(_shifted, on_part, 0, n_first + n_modes)
        second = partial(_shifted, on_part, n_first, n_first + n_modes)
    modes = _spread(priors, _dominant(profiled, priors, n_first, first, store)[:n_modes])
    columns = solved_columns(profiled, modes, store=store, on_part=second)
    parts = SandwichParts.of(problem.level, profiled, columns, form, "many")
    del columns
    # In units of the prior, S is I + U T U^T; outside of U the prior stands.
    eye = torch.eye(n_modes, dtype=torch.float64)
    inverse = torch.linalg.inv(eye + parts.curvature)
    if form == "laplace":
        share, core = unit, unit * (inverse - eye)
    elif form == "noise":
        share, core = 0.0, inverse @ parts.meat @ inverse
    else:
        share = SMOOTHNESS * unit
        core = inverse @ parts.meat @ inverse + share * (inverse @ inverse - eye)
    windows = []
    for visit, motion in zip(study.moving, result.motions, strict=True):
        grid = study.grid_of(visit)
        moved = motion.warp(result.grid, grid)(result.volume)
        spacing_mm = _spacing_mm(motion)
        windows.append([Structure.of(moved, grid, width * spacing_mm) for width in (SEEN_WIDTH, ABOUT_WIDTH)])
    own_modes = modes.split_with_sizes(profiled.sizes, dim=1)
    rows = zip(result.motions, priors, own_modes, windows, strict=True)
    return tuple(
        MotionUncertainty(
            motion=motion,
            form=form,
            modes=own.T.contiguous(),
            core=core,
            prior=prior,
            prior_share=share,
            learnt=eye - inverse,
            structure=seen,
            axes=AXES if form == "sandwich" else (1.0, 1.0, 1.0),
            about=about if form == "sandwich" else None,
            beside_mm=_beside_mm(motion, form),
        )
        for motion, prior, own, (seen, about) in rows
    )


def _beside_mm(motion: Motion, form: Form) -> float:
    """Return the deviation that the parameters of a motion do not account for."""
    return COMPRESSED_MM if form == "sandwich" and is_of_two_views(motion) else 0.0


def _spacing_mm(motion: Motion) -> float:
    """Return the distance of control points, or of the corners of the grid where there are none."""
    return min(motion.transform.control_spacing_mm or motion.grid.size_mm)


def _shifted(on_part: OnPart, before: int, total: int, done: int) -> None:
    on_part(before + done, total)


def _dominant(
    profiled: ProfiledCurvature,
    priors: Sequence[MotionPrior],
    n: int,
    on_part: Callable[[int], None] | None,
    store: SolveStore | None,
) -> torch.Tensor:
    """Return orthonormal directions, (direction, n_params), that data add most to, in the prior's units."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(n, profiled.n_params, dtype=torch.float64, generator=generator)
    coarse = profiled.with_steps(FIRST_STEPS)
    rows = solved_products(coarse, _spread(priors, drawn), store=store, on_part=on_part)
    # Sorted by how much the data add, so that the last can be left out.
    directions: torch.Tensor = torch.linalg.svd(_spread_adjoint(priors, rows), full_matrices=False)[2]
    return directions


def _unit(level: Level) -> float:
    """Return the variance that a misfit of 1/2 stands for: 1 with weights, that of the noise without."""
    return sum(noise**2 for noise in level.noises) / len(level.noises)


def _spread(priors: Sequence[MotionPrior], rows: torch.Tensor) -> torch.Tensor:
    parts = rows.split_with_sizes([prior.n_params for prior in priors], dim=1)
    return torch.cat([prior.spread(part) for prior, part in zip(priors, parts, strict=True)], dim=1)


def _spread_adjoint(priors: Sequence[MotionPrior], rows: torch.Tensor) -> torch.Tensor:
    parts = rows.split_with_sizes([prior.n_params for prior in priors], dim=1)
    return torch.cat([prior.spread_adjoint(part) for prior, part in zip(priors, parts, strict=True)], dim=1)
