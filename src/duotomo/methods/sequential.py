"""The conventional method: reconstruct each visit by itself, then register the reconstructions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.initial_guess import initial_params
from duotomo.methods.level import Factors, resampled
from duotomo.methods.registration import (
    Misfit,
    Registration,
    check_models,
    register,
    resample_to_reference,
)
from duotomo.methods.result import Result
from duotomo.methods.runner import VOLUME, Runner
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.state_check import check_state
from duotomo.methods.study import Study
from duotomo.objectives import LocalCorrelation
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep
from duotomo.transforms import Motion, Translation


def sequential(
    study: Study,
    settings: Settings,
    *,
    misfit: Misfit = LocalCorrelation,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Reconstruct each visit by itself, then register the moving visits to the reference.

    Each visit is reconstructed with the stages and priors of the settings; the registration then runs through
    the settings' models and resolutions. The volumes of the moving visits are among `others`: "visit_2" in
    its own frame, "visit_2_registered" resampled to the reference frame.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Schedule and priors.
    misfit : type
        Image misfit of the registration: `LocalCorrelation`, `SumOfSquares` or `CrossCorrelation`.
    on_step : callable, optional
        Called with every `Step` of the reconstructions.
    checkpoint : Checkpoint, optional
        Keeps the state after every block of steps.

    Returns
    -------
    Result
        The volume of the reference visit alone, and the motion of each moving visit.

    Raises
    ------
    DuotomoError
        If there is a moving visit, and no stage of the settings has a model.
    GeometryError
        If the grids of two visits share no volume after the initial guess.
    """
    settings = settings.without_choice
    # What would stop the registration is said before hours are spent.
    starts = initial_motions(study, settings)
    if study.moving:
        check_models(settings)
    fixed = settings.with_known_motion()
    n_stages = len(fixed.stages)
    state = _kept(study, fixed, checkpoint)
    for index in range(len(study.visits)):
        if state is not None and (state.stage >= (index + 1) * n_stages or state.status is Status.DIVERGED):
            continue
        runner = Runner(
            one_visit(study, index),
            fixed,
            known=(),
            offset=index * n_stages,
            on_step=on_step,
            checkpoint=checkpoint,
        )
        if state is None:
            state = runner.first_state()
        elif index > 0 and (state.stage, state.block) == (runner.offset, 0):
            state = _next_visit(state, index, runner.first_state())
        state = runner.run(state)
    assert state is not None
    began = time.perf_counter()
    volumes = [volume for name, volume in state.volumes.items() if name != VOLUME]
    volumes.append(state.volumes[VOLUME])
    coarsen, status, reason = settings.stages[-1].coarsen, state.status, state.reason
    if status is Status.DIVERGED:
        motions = starts
        if len(volumes) == 1:
            coarsen = state.coarsen
        elif state.coarsen != coarsen:
            del volumes[-1]
        others = {f"visit_{number}": volume for number, volume in enumerate(volumes[1:], start=2)}
        grids = _own_grids(study, list(others), coarsen)
    else:
        found = registered(study, settings, volumes, starts, misfit=misfit)
        motions = [one.motion for one in found]
        others, grids = in_both_frames(study, volumes, motions, coarsen=coarsen)
        for number, one in enumerate(found, start=2):
            if one.solution.status is Status.DIVERGED:
                status, reason = Status.DIVERGED, f"Registration of visit {number}: {one.solution.reason}"
    result = Result.of_state("sequential", study, replace(state, coarsen=coarsen), motions, volumes[0])
    seconds = state.seconds + time.perf_counter() - began
    return replace(result, others=others, grids=grids, status=status, reason=reason, seconds=seconds)


def one_visit(study: Study, index: int) -> Study:
    """Return one visit as a study of its own, in its own frame."""
    visit = study.visits[index]
    return Study(grid=study.grid_of(visit), visits=(replace(visit, grid=None),))


def initial_motions(study: Study, settings: Settings) -> list[Motion]:
    """Return the motion that each moving visit starts from."""
    rows = initial_params(study, guess=settings.initial_guess)
    grids = [study.grid_of(visit) for visit in study.moving]
    return [Motion(Translation(grid), params) for grid, params in zip(grids, rows, strict=True)]


def registered(
    study: Study,
    settings: Settings,
    volumes: Sequence[torch.Tensor],
    starts: Sequence[Motion],
    *,
    misfit: Misfit = LocalCorrelation,
) -> list[Registration]:
    """Return the motion of each moving visit, from a volume of each visit in its own frame.

    `volumes` lie on the grids of the settings' last stage; `starts` are the initial guesses.
    """
    coarsen = settings.stages[-1].coarsen
    grids = [study.grid_of(visit) for visit in study.visits]
    # The stages count their voxels from those of full resolution.
    full = [
        resampled(volume, grid.coarsen(coarsen), grid) for volume, grid in zip(volumes, grids, strict=True)
    ]
    return [
        register(
            full[0],
            volume,
            grid=study.grid,
            moving_grid=grid,
            settings=settings,
            start=start,
            misfit=misfit,
        )
        for volume, grid, start in zip(full[1:], grids[1:], starts, strict=True)
    ]


def in_both_frames(
    study: Study,
    volumes: Sequence[torch.Tensor],
    motions: Sequence[Motion],
    *,
    coarsen: tuple[int, int, int],
) -> tuple[dict[str, torch.Tensor], dict[str, VolumeGrid]]:
    """Return the volumes of the moving visits by name, in their own frame and in the reference frame.

    `volumes` are those of all visits, on their grids coarsened by `coarsen`. Also returns the grids of those
    that do not lie on the reference's.
    """
    others = {}
    moved = zip(study.moving, volumes[1:], motions, strict=True)
    for number, (visit, volume, motion) in enumerate(moved, start=2):
        others[f"visit_{number}"] = volume
        others[f"visit_{number}_registered"] = resample_to_reference(
            volume,
            motion,
            grid=study.grid.coarsen(coarsen),
            moving_grid=study.grid_of(visit).coarsen(coarsen),
        )
    return others, _own_grids(study, list(others), coarsen)


def _own_grids(study: Study, names: Sequence[str], coarsen: tuple[int, int, int]) -> dict[str, VolumeGrid]:
    grids = {f"visit_{number}": study.grid_of(visit) for number, visit in enumerate(study.visits, start=1)}
    own = {name: grids[name] for name in names if name in grids}
    return {name: grid.coarsen(coarsen) for name, grid in own.items() if grid != study.grid}


def _kept(study: Study, settings: Settings, checkpoint: Checkpoint | None) -> State | None:
    """Return the state to go on from, if there is one; raise unless it fits the study and the settings."""
    state = None if checkpoint is None else checkpoint.load()
    if state is None:
        return None
    n_stages, last = len(settings.stages), settings.stages[-1].coarsen
    # After its last stage, the volume is that of the visit before.
    done = min(max(state.stage - (state.block == 0), 0) // n_stages, len(study.visits) - 1)
    grids = [study.grid_of(visit) for visit in study.visits]

    def shapes(coarsen: Factors) -> dict[str, tuple[int, ...]]:
        earlier = {f"visit_{number + 1}": grids[number].coarsen(last).shape for number in range(done)}
        return {**earlier, VOLUME: grids[done].coarsen(coarsen).shape}

    check_state(
        "sequential",
        state,
        n_stages=len(grids) * n_stages,
        coarsens={stage.coarsen for stage in settings.stages},
        shapes=shapes,
        transforms=lambda _: (),
    )
    return state


def _next_visit(state: State, index: int, first: State) -> State:
    """Return the first state of a visit, which keeps the volumes of the visits before it."""
    volumes = {**state.volumes, f"visit_{index}": state.volumes[VOLUME], VOLUME: first.volumes[VOLUME]}
    return replace(
        first,
        volumes=volumes,
        applications=state.applications,
        seconds=state.seconds,
        history=state.history,
    )
