"""Runs the stages of a schedule, block by block, from the start or from a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.methods.blocks import Block, alternating_block, coupled_block, volume_block
from duotomo.methods.initial_guess import initial_params
from duotomo.methods.level import FINEST, Factors, Level, resampled
from duotomo.methods.model_choice import ModelChoice, model_choice
from duotomo.methods.problem import Problem
from duotomo.methods.scales import Scales, level_of, scales_of
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Coupled, Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.study import Study
from duotomo.solvers import History, Status
from duotomo.solvers.history import OnStep
from duotomo.transforms import Model, Motion, Transform, Translation, model_name

VOLUME = "volume"
"""Name, in a state, of the volume being reconstructed."""

SETTLED = 0.001
"""A motion has settled once it changes by less within ten steps, in voxels of its level (RMS)."""

MOVING, COARSEST = 0.6, 3.3
"""Of the total variation, while a motion is estimated: a volume that is flattened asks for another motion; on
the coarsest of several levels, one that is not may hold a wrong one."""

FIRST_STEPS = 15
"""Steps of the volume alone from zeros, without which a motion has no gradient."""


class Runner:
    """Runs the schedule of one volume and the motions of all moving visits.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Schedule, solver and priors.
    known : sequence of Motion, optional
        Of the moving visits, if their motion is not estimated.
    offset : int
        Number of the first stage, for methods that run several schedules in a row.
    on_step : callable, optional
        Called with every `Step`.
    checkpoint : Checkpoint, optional
        Keeps the state after every block of steps.
    """

    def __init__(
        self,
        study: Study,
        settings: Settings,
        *,
        known: Sequence[Motion] | None = None,
        offset: int = 0,
        on_step: OnStep | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        if known is None and study.moving and settings.stages[0].model is None:
            raise DuotomoError(
                "Settings: expected a model in the first stage, or a known motion; got neither. Give one."
            )
        self.study, self.settings, self.known, self.offset = study, settings, known, offset
        self._on_step, self._checkpoint = on_step, checkpoint
        self._level: Level | None = None
        self._scales: Scales | None = None

    def run(self, state: State) -> State:
        """Return the last state: that of the last stage, or of a block that diverged."""
        while state.stage < self.offset + len(self.settings.stages) and state.status is not Status.DIVERGED:
            state = self._advance(state)
            if self._checkpoint is not None:
                self._checkpoint.save(state)
        return state

    def first_state(self) -> State:
        """Return the state to start from: a volume of zeros, and the initial guess of the motion."""
        stage, like = self.settings.stages[0], self.study.reference.projections
        grid = self.study.grid.coarsen(stage.coarsen)
        if self.known is None:
            params = initial_params(self.study, guess=self.settings.initial_guess)
        else:
            params = [motion.params for motion in self.known]
        volumes = {VOLUME: torch.zeros(grid.shape, dtype=like.dtype, device=like.device)}
        return State.initial(volumes, coarsen=stage.coarsen, params=params, stage=self.offset)

    def motions(self, state: State) -> tuple[Motion, ...]:
        """Return the motion of each moving visit in a state."""
        transforms = self._transforms(model_named(self.settings.stages, state.model))
        return tuple(Motion(one, row) for one, row in zip(transforms, state.params, strict=True))

    def choice(self, state: State, model: Model) -> ModelChoice:
        """Return whether the motions of a state need the control points of a model."""
        return model_choice(
            self.study,
            self._at(state.coarsen),
            self._known_scales(),
            self.settings.priors,
            volume=state.volumes[VOLUME],
            motions=self.motions(state),
            model=model,
        )

    def _transforms(self, model: Model) -> tuple[Transform, ...]:
        if self.known is not None:
            return tuple(motion.transform for motion in self.known)
        return tuple(model(self.study.grid_of(visit)) for visit in self.study.moving)

    def _advance(self, state: State) -> State:
        """Return the state after one more block."""
        began = time.perf_counter()
        number = state.stage - self.offset
        stage = self.settings.stages[number]
        level = self._at(stage.coarsen, edges=self._counts_edges(number))
        history = continued(state, lambda: level.applications, self._on_step, began=began)
        volume = state.volumes[VOLUME]
        if stage.fresh and state.block == 0:
            volume = volume.new_zeros(level.grid.shape)
        else:
            volume = resampled(volume, self.study.grid.coarsen(state.coarsen), level.grid)
        model = state.model if stage.model is None else model_name(stage.model)
        transforms, params = self._converted(state, stage.model)
        priors = replace(self.settings.priors, bending=self.settings.priors.bending * stage.stiffness)
        priors = replace(priors, total_variation=priors.total_variation * self._variation(stage))
        problem = Problem(level, transforms, priors, self._known_scales(), self.settings.central_step)
        length = self.settings.solver.block
        n_steps = min(length, stage.n_steps - state.block * length)
        what = "volume" if stage.model is None else model
        note = history.part(f"{what} at {min(level.grid.spacing_mm):g} mm", stage=state.stage)
        try:
            block = self._block(problem, stage, volume, params, n_steps, note)
        except GeometryError as error:
            if not state.history:
                raise  # The visits share no volume from the start.
            reason = f"The motion left the volume, and is given as none. {error}"
            still = tuple(one.identity().to(row) for one, row in zip(transforms, params, strict=True))
            block = Block(
                volume=volume, params=still, status=Status.DIVERGED, reason=reason, objective=math.inf
            )
        done = block.status is Status.CONVERGED or (state.block + 1) * length >= stage.n_steps
        return replace(
            advanced(state, history, done=done),
            volumes={**state.volumes, VOLUME: block.volume},
            coarsen=stage.coarsen,
            model=model,
            params=block.params,
            status=block.status,
            reason=block.reason,
        )

    def _block(
        self,
        problem: Problem,
        stage: Stage,
        volume: torch.Tensor,
        params: tuple[torch.Tensor, ...],
        n_steps: int,
        note: OnStep,
    ) -> Block:
        solver, tolerance = self.settings.solver, self.settings.tolerance
        memory = solver.memory
        if stage.model is None or not params:
            return volume_block(
                problem, volume, params, memory=memory, n_steps=n_steps, tolerance=tolerance, on_step=note
            )
        if not bool(volume.any()):
            first = volume_block(
                problem, volume, params, memory=memory, n_steps=FIRST_STEPS, tolerance=0.0, on_step=note
            )
            volume = first.volume
            if first.status is Status.DIVERGED:
                return first
            if not bool(volume.any()):
                reason = f"The volume stayed empty, and shows no motion. {first.reason}"
                return replace(first, status=Status.DIVERGED, reason=reason)
        if isinstance(solver, Coupled):
            return coupled_block(
                problem,
                volume,
                params,
                solver=solver,
                n_steps=n_steps,
                tolerance=tolerance,
                on_step=note,
                settles=SETTLED * min(stage.coarsen) if tolerance > 0 else None,
            )
        return alternating_block(
            problem, volume, params, solver=solver, n_steps=n_steps, tolerance=tolerance, on_step=note
        )

    def _converted(
        self, state: State, model: Model | None
    ) -> tuple[tuple[Transform, ...], tuple[torch.Tensor, ...]]:
        """Return the transforms of a stage, and the motions so far converted to them."""
        if model is None or model_name(model) == state.model or self.known is not None:
            named = model_named(self.settings.stages, state.model) if model is None else model
            return self._transforms(named), state.params
        motions = self.motions(state)
        targets = self._transforms(model)
        rows = zip(motions, targets, strict=True)
        return targets, tuple(motion.convert(target).params for motion, target in rows)

    def _variation(self, stage: Stage) -> float:
        """Return the factor of the total variation in a stage."""
        coarsest = self.settings.stages[0].coarsen
        if stage.model is None or coarsest == FINEST:
            return 1.0
        return COARSEST if stage.coarsen == coarsest else MOVING

    def _counts_edges(self, number: int) -> bool:
        """Whether rays at sharp edges count less in a stage: not where a stiff motion is refined last."""
        stage, earlier = self.settings.stages[number], self.settings.stages[:number]
        refined = stage.coarsen == FINEST and any(one.model == stage.model for one in earlier)
        if stage.model is None or not refined:
            return True
        return stage.model(self.study.grid).control_spacing_mm is not None

    def _at(self, coarsen: Factors, *, edges: bool = True) -> Level:
        wanted = coarsen, self.settings.priors.edges if edges else 0.0
        if self._level is None or (self._level.coarsen, self._level.edges) != wanted:
            self._level = level_of(
                self.study,
                coarsen,
                basis=self.settings.basis,
                priors=replace(self.settings.priors, edges=wanted[1]),
                scales=self._known_scales(),
            )
        return self._level

    def _known_scales(self) -> Scales:
        if self._scales is None:
            self._scales = scales_of(self.study, self.settings.priors)
        return self._scales


def model_named(stages: Sequence[Stage], name: str) -> Model:
    """Return the model of that name among those of the stages, or that of an initial guess."""
    models = (Translation, *(stage.model for stage in stages if stage.model is not None))
    for model in models:
        if model_name(model) == name:
            return model
    known = ", ".join(dict.fromkeys(map(model_name, models)))
    raise DuotomoError(
        f"Settings: expected a state whose model is one of {known}; got {name[:80]!r}. Resume with the "
        f"settings that the run began with, or remove the checkpoint to begin anew."
    )


def continued(state: State, count: Callable[[], int], on_step: OnStep | None, *, began: float) -> History:
    """Return the history that continues that of a state; `count` returns the projector applications."""
    return History(
        count,
        on_step,
        earlier=state.history,
        applications=state.applications,
        seconds=state.seconds,
        began=began,
    )


def advanced(state: State, history: History, *, done: bool) -> State:
    """Return a state with the steps so far, at its next block, or at the next stage if this one is done."""
    return replace(
        state,
        stage=state.stage + 1 if done else state.stage,
        block=0 if done else state.block + 1,
        applications=history.applications,
        seconds=history.seconds,
        history=history.steps,
    )
