"""Registration of two volumes from the start to a result, stage by stage, or on from a checkpoint."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods.registration import (
    Misfit,
    centered_motion,
    check_models,
    register_stage,
    registration_stages,
    resample_to_reference,
)
from duotomo.methods.result import Result
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.state_check import check_state
from duotomo.objectives import LocalCorrelation
from duotomo.solvers import History
from duotomo.solvers.history import OnStep
from duotomo.transforms import Motion, model_name

REGISTERED = "visit_2_registered"


def registered(
    reference: torch.Tensor,
    moving: torch.Tensor,
    *,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    settings: Settings,
    n_steps: int = 30,
    misfit: Misfit = LocalCorrelation,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return what `register` finds from the centroids on, with the moving volume brought to the reference.

    Parameters
    ----------
    reference, moving, grid, moving_grid, settings, n_steps, misfit
        As for `register`.
    on_step : callable, optional
        Called with every `Step`.
    checkpoint : Checkpoint, optional
        Keeps the state after every stage; the run goes on from the one there.

    Returns
    -------
    Result
        The reference volume, `visit_2_registered` beside it, and the motion.

    Raises
    ------
    DuotomoError
        If no stage of the settings has a model, or a volume has no positive values.
    """
    check_models(settings)
    stages = registration_stages(settings)
    transforms = [stage.model(moving_grid) for stage in stages if stage.model is not None]
    motion = centered_motion(reference, moving, grid=grid, moving_grid=moving_grid)
    state = None if checkpoint is None else checkpoint.load()
    if state is None:
        state = State.initial({}, coarsen=stages[0].coarsen, params=[motion.params])
    else:
        # Before the first stage, a translation.
        kept = [transforms[min(state.stage, len(stages)) - 1] if state.stage else motion.transform]
        check_state(
            "register",
            state,
            n_stages=len(stages),
            coarsens={stage.coarsen for stage in stages},
            shapes=lambda _: {},
            transforms=lambda _: kept,
        )
        if state.stage > 0:
            motion = Motion(transforms[state.stage - 1], state.params[0])
    history = History(lambda: 0, on_step, earlier=state.history, seconds=state.seconds)
    for number in range(state.stage, len(stages)):
        stage = stages[number]
        edge_mm = min(grid.coarsen(stage.coarsen).spacing_mm)
        found = register_stage(
            stage,
            reference,
            moving,
            grid=grid,
            moving_grid=moving_grid,
            transform=transforms[number],
            settings=settings,
            start=motion,
            n_steps=n_steps,
            misfit=misfit,
            on_step=history.part(f"{model_name(stage.model)} at {edge_mm:g} mm", stage=number),
        )
        motion = found.motion
        state = State(
            stage=number + 1,
            block=0,
            volumes={},
            coarsen=stage.coarsen,
            model=model_name(stage.model),
            params=(motion.params.detach().cpu(),),
            status=found.solution.status,
            reason=found.solution.reason,
            applications=0,
            seconds=history.seconds,
            history=history.steps,
        )
        if checkpoint is not None:
            checkpoint.save(state)
    brought = resample_to_reference(moving, motion, grid=grid, moving_grid=moving_grid)
    return Result(
        method="register",
        grid=grid,
        volume=reference,
        others={REGISTERED: brought},
        motions=(motion,),
        status=state.status,
        reason=state.reason,
        applications=0,
        seconds=state.seconds,
        history=state.history,
    )
