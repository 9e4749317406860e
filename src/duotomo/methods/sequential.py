"""The conventional way: reconstruct each visit by itself, then register the reconstructions."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from duotomo.methods.registration import Registered, register, seen_in_reference
from duotomo.methods.runner import VOLUME, Runner
from duotomo.methods.settings import Settings
from duotomo.methods.start import first_params
from duotomo.methods.state import Checkpoint, OnRecord, Result, State
from duotomo.methods.study import Study
from duotomo.objectives import CrossCorrelation, SumOfSquares
from duotomo.solvers import Status
from duotomo.transforms import Translation


def sequential(
    study: Study,
    settings: Settings,
    *,
    misfit: type[SumOfSquares] | type[CrossCorrelation] = SumOfSquares,
    on_step: OnRecord | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return the reference reconstruction, and the motion that registers the others to it.

    Each visit is reconstructed with the stages and priors of the settings; the registration then runs through
    the settings' models and resolutions. The volumes of the moving visits are among `others`: "visit_2" in
    its own frame, "visit_2_registered" in the reference frame. misfit: what the registration minimises.
    """
    state = checkpoint.load() if checkpoint is not None else None
    fixed, n_stages = settings.with_known_motion(), len(settings.stages)
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
        elif (state.stage, state.block) == (runner.offset, 0):
            state = _next_visit(state, index, runner.first_state())
        state = runner.run(state)
    assert state is not None
    began = time.perf_counter()
    volumes = [volume for name, volume in sorted(state.volumes.items()) if name != VOLUME]
    volumes.append(state.volumes[VOLUME])
    found = registered(study, settings, volumes, misfit=misfit)
    return Result(
        method="sequential",
        grid=study.grid.coarsen(state.coarsen),
        volume=volumes[0],
        others=in_both_frames(study, volumes, found),
        transforms=tuple(one.transform for one in found),
        params=tuple(one.params for one in found),
        status=state.status,
        reason=state.reason,
        applications=state.applications,
        seconds=state.seconds + time.perf_counter() - began,
        history=state.history,
    )


def one_visit(study: Study, index: int) -> Study:
    """Return one visit as a study of its own, in its own frame."""
    visit = study.visits[index]
    return Study(grid=study.grid_of(visit), visits=(replace(visit, grid=None),))


def registered(
    study: Study,
    settings: Settings,
    volumes: list[torch.Tensor],
    *,
    misfit: type[SumOfSquares] | type[CrossCorrelation] = SumOfSquares,
) -> list[Registered]:
    """Return the motion of each moving visit, from a volume of each visit in its own frame."""
    if volumes[0].shape != study.grid.shape:
        # A run that diverged on a coarse level has nothing to register.
        return []
    found = []
    starts = first_params(study, guess=settings.first_guess)
    for visit, volume, params in zip(study.moving, volumes[1:], starts, strict=False):
        grid = study.grid_of(visit)
        found.append(
            register(
                volumes[0],
                volume,
                grid=study.grid,
                moving_grid=grid,
                settings=settings,
                start=(Translation(grid), params),
                misfit=misfit,
            )
        )
    return found


def in_both_frames(
    study: Study, volumes: list[torch.Tensor], found: list[Registered]
) -> dict[str, torch.Tensor]:
    """Return the volume of each moving visit by name, in its own frame and in that of the reference."""
    others = {}
    for number, (visit, volume, one) in enumerate(
        zip(study.moving, volumes[1:], found, strict=False), start=2
    ):
        others[f"visit_{number}"] = volume
        others[f"visit_{number}_registered"] = seen_in_reference(
            volume, one.transform, one.params, grid=study.grid, moving_grid=study.grid_of(visit)
        )
    return others


def _next_visit(state: State, index: int, first: State) -> State:
    """Return the first state of a visit, with what came before it put aside."""
    volumes = {**state.volumes, f"visit_{index}": state.volumes[VOLUME], VOLUME: first.volumes[VOLUME]}
    return replace(
        first,
        volumes=volumes,
        applications=state.applications,
        seconds=state.seconds,
        history=state.history,
    )
