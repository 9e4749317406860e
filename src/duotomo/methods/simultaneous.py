"""One volume and the motion of all visits, from one objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from duotomo.methods.model_choice import MOVED_MM, apart_mm
from duotomo.methods.multi_start import as_begun, multi_start
from duotomo.methods.result import Result
from duotomo.methods.runner import VOLUME, Runner, model_named
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.state_check import check_starts, check_state
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep
from duotomo.transforms import Motion, Transform, model_name


def simultaneous(
    study: Study,
    settings: Settings,
    *,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return the volume and the motions that together explain all visits best.

    `min over f, zeta of 1/2 |A_1 f - p_1|^2 + sum over moving visits k of 1/2 |A_k T(zeta_k) f - p_k|^2`,
    with the priors of the settings, stage by stage.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Schedule, solver and priors, such as `Settings.for_study(study, Affine)`.
    on_step : callable, optional
        Called with every `Step`.
    checkpoint : Checkpoint, optional
        Keeps the state after every block of steps; a run that finds one there resumes from it, to the same
        result.

    Returns
    -------
    Result
        The volume in the reference frame, and the motion of each moving visit.

    Raises
    ------
    DuotomoError
        If there is a moving visit, and the first stage of the settings has no model.
    GeometryError
        If the grids of two visits share no volume after the initial guess.
    """
    state = _kept(study, settings, checkpoint)
    if state is None or state.starts:
        ended = () if state is None else state.starts
        state = multi_start(study, settings, on_step, checkpoint=checkpoint, ended=ended)
    if settings.stiffer:
        settings, state = _chosen(study, settings, state, on_step, checkpoint)
    else:
        settings = as_begun(settings, state)
    runner = Runner(study, settings, on_step=on_step, checkpoint=checkpoint)
    state = runner.run(state)
    return Result.of_state("simultaneous", study, state, runner.motions(state), state.volumes[VOLUME])


def _chosen(
    study: Study, settings: Settings, state: State, on_step: OnStep | None, checkpoint: Checkpoint | None
) -> tuple[Settings, State]:
    """Return the settings of the model that the data ask for, and the state that it goes on from.

    Where the score does not ask for control points, their first stage is tried: a score is relative to what
    the residuals hold, and rays with scatter hold much. Whether it is kept or not, its cost counts. A run
    that is killed meanwhile tries again.
    """
    soft, stiff = replace(settings, stiffer=()), settings.without_choice
    pairs = zip(soft.stages, stiff.stages, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: _alike(*pair), pairs))
    model = soft.stages[common].model if common < len(soft.stages) else None
    if model is None:
        return stiff, state
    if state.stage > common or (state.stage == common and state.block > 0):
        # Resumed after the choice: the model tells which it was.
        return (soft if state.model == model_name(model) else stiff), state
    shared = replace(soft, stages=soft.stages[:common])
    runner = Runner(study, shared, on_step=on_step, checkpoint=checkpoint)
    state = runner.run(state)
    if state.status is Status.DIVERGED:
        return stiff, state
    if runner.choice(state, model).needs_lattice:
        return soft, state
    trial = Runner(study, replace(soft, stages=soft.stages[: common + 1]), on_step=on_step)
    tried = trial.run(state)
    volume, grid = state.volumes[VOLUME], study.grid.coarsen(state.coarsen)
    if tried.status is Status.DIVERGED or (
        apart_mm(runner.motions(state), trial.motions(tried), volume, grid) <= MOVED_MM
    ):
        return stiff, replace(state, applications=tried.applications, seconds=tried.seconds)
    if checkpoint is not None:
        checkpoint.save(tried)
    return soft, tried


def _kept(
    study: Study, settings: Settings, checkpoint: Checkpoint | None, *, known: Sequence[Motion] | None = None
) -> State | None:
    """Return the state to go on from, if there is one; raise unless it fits the study and the settings."""
    state = None if checkpoint is None else checkpoint.load()
    if state is None:
        return None
    stages = (*settings.stages, *settings.stiffer)

    def transforms(name: str) -> list[Transform]:
        if known is not None:
            return [motion.transform for motion in known]
        model = model_named(stages, name)
        return [model(study.grid_of(visit)) for visit in study.moving]

    for one in check_starts("simultaneous", state.starts) if state.starts else (state,):
        check_state(
            "simultaneous",
            one,
            n_stages=max(len(settings.stages), len(settings.stiffer)),
            coarsens={stage.coarsen for stage in stages},
            shapes=lambda coarsen: {VOLUME: study.grid.coarsen(coarsen).shape},
            transforms=transforms,
        )
    return state


def _alike(one: Stage, other: Stage) -> bool:
    return (one.coarsen, one.model) == (other.coarsen, other.model)


def with_known_motion(
    study: Study,
    settings: Settings,
    motions: Sequence[Motion],
    *,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return the volume that explains all visits best, for a known motion of the breast between them.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Whose schedule and priors are used; their models are not.
    motions : sequence of Motion
        moving_to_reference, of each moving visit; none for a study of one visit.
    on_step : callable, optional
        Called with every `Step`.
    checkpoint : Checkpoint, optional
        Keeps the state after every block of steps.

    Returns
    -------
    Result
        The volume in the reference frame, with the motions given.
    """
    fixed = settings.with_known_motion()
    runner = Runner(study, fixed, known=tuple(motions), on_step=on_step, checkpoint=checkpoint)
    state = runner.run(_kept(study, fixed, checkpoint, known=motions) or runner.first_state())
    return Result.of_state("known motion", study, state, motions, state.volumes[VOLUME])
