"""Reconstruction of each visit and registration in turn, with an update of the volumes after every turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.blocks import volume_block
from duotomo.methods.initial_guess import initial_params
from duotomo.methods.level import Level, resampled
from duotomo.methods.problem import Problem
from duotomo.methods.registration import Misfit, register_once
from duotomo.methods.result import Result
from duotomo.methods.runner import VOLUME, advanced, continued, model_named
from duotomo.methods.scales import Scales, level_of, scales_of
from duotomo.methods.schedule import Stage
from duotomo.methods.sequential import in_both_frames, one_visit
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.state_check import check_state
from duotomo.methods.study import Study
from duotomo.methods.updates import Estimates, Update, replaced
from duotomo.objectives import LocalCorrelation
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep
from duotomo.transforms import Motion, Transform, model_name

SETTLED = 0.01
"""A motion has settled once an iteration changes it by less, in voxels of its level (RMS)."""

FINISHING_TURNS = 10
"""Iterations of the volumes alone, at most. Many more would end at the volume of each visit alone."""


def iterative(
    study: Study,
    settings: Settings,
    *,
    update: Update = replaced,
    volume_steps: int = 10,
    motion_steps: int = 5,
    misfit: Misfit = LocalCorrelation,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return a volume of each visit and the motion between them, by reconstruction and registration in turn.

    One iteration is `volume_steps` steps of L-BFGS on `1/2 |A_k f_k - p_k|^2`, with the settings' priors, for
    each visit k by itself; up to `motion_steps` steps on `1/2 |T(zeta_k) n(f_1) - n(f_k)|^2`, n a local
    normalisation, from the motion so far; and the update, which makes the volumes of the next iteration. The
    last iteration has no update.

    A stage of the settings makes `n_steps / volume_steps` iterations; one that has fewer steps makes one, of
    its own `n_steps`. Without a model it makes reconstructions only. Volumes of moving visits are among
    `others`: "visit_2" in its own frame, "visit_2_registered" resampled to the reference frame.

    Parameters
    ----------
    study, settings
        As for `sequential`.
    update : callable
        `replaced`, `averaged` or `symmetric`, or another `Update`.
    volume_steps, motion_steps : int
        Steps of one iteration.
    misfit
        As for `sequential`.
    on_step : callable, optional
        Called with every `Step` of either kind.
    checkpoint : Checkpoint, optional
        Keeps the state after every iteration; a run that finds one there resumes from it, to the same result.

    Returns
    -------
    Result
        The volume of the reference visit, and the motion of each moving visit.

    Raises
    ------
    DuotomoError
        If `volume_steps` or `motion_steps` is below 1.
    """
    for name, count in (("volume_steps", volume_steps), ("motion_steps", motion_steps)):
        if count < 1:
            raise DuotomoError(f"iterative: expected {name} >= 1; got {count}. Allow at least one.")
    settings = settings.without_choice
    turns = _Turns(study, settings, update, volume_steps, motion_steps, misfit, on_step)
    state = turns.kept(checkpoint) or turns.first_state()
    while state.stage < len(settings.stages) and state.status is not Status.DIVERGED:
        state = turns.advance(state)
        if checkpoint is not None:
            checkpoint.save(state)
    motions = turns.motions(state)
    volumes = [state.volumes[name] for name in turns.names]
    others, grids = in_both_frames(study, volumes, motions, coarsen=state.coarsen)
    result = Result.of_state("iterative", study, state, motions, volumes[0])
    return replace(result, others=others, grids=grids)


class _Turns:
    """Computes the state after an iteration from the state before it."""

    def __init__(
        self,
        study: Study,
        settings: Settings,
        update: Update,
        volume_steps: int,
        motion_steps: int,
        misfit: Misfit,
        on_step: OnStep | None,
    ) -> None:
        self.study, self.settings, self.update, self.misfit = study, settings, update, misfit
        self.volume_steps, self.motion_steps, self._on_step = volume_steps, motion_steps, on_step
        self._alone = [one_visit(study, index) for index in range(len(study.visits))]
        self.names = [VOLUME, *(f"visit_{number}" for number in range(2, len(study.visits) + 1))]
        self._levels: list[Level] = []
        self._scales: list[Scales] = []

    def first_state(self) -> State:
        """Return zero volumes, and the initial guess of the motion."""
        coarsen, like = self.settings.stages[0].coarsen, self.study.reference.projections
        grids = [alone.grid.coarsen(coarsen) for alone in self._alone]
        volumes = {name: like.new_zeros(grid.shape) for name, grid in zip(self.names, grids, strict=True)}
        params = initial_params(self.study, guess=self.settings.initial_guess)
        return State.initial(volumes, coarsen=coarsen, params=params)

    def kept(self, checkpoint: Checkpoint | None) -> State | None:
        """Return the state to go on from, if there is one; raise unless it fits."""
        state = None if checkpoint is None else checkpoint.load()
        if state is None:
            return None
        check_state(
            "iterative",
            state,
            n_stages=len(self.settings.stages),
            coarsens={stage.coarsen for stage in self.settings.stages},
            shapes=lambda coarsen: {
                name: alone.grid.coarsen(coarsen).shape
                for name, alone in zip(self.names, self._alone, strict=True)
            },
            transforms=self._transforms,
        )
        return state

    def _transforms(self, name: str) -> list[Transform]:
        model = model_named(self.settings.stages, name)
        return [model(self.study.grid_of(visit)) for visit in self.study.moving]

    def motions(self, state: State) -> tuple[Motion, ...]:
        """Return the motion of each moving visit in a state."""
        moved = zip(self._transforms(state.model), state.params, strict=True)
        return tuple(Motion(transform, params) for transform, params in moved)

    def advance(self, state: State) -> State:
        """Return the state after one more iteration, or after the step at which it diverged."""
        began = time.perf_counter()
        stage = self.settings.stages[state.stage]
        levels = self._at(stage.coarsen)
        n_turns = max(1, stage.n_steps // self.volume_steps)
        if stage.model is None:
            n_turns = min(n_turns, FINISHING_TURNS)
        history = continued(
            state, lambda: sum(level.applications for level in levels), self._on_step, began=began
        )
        note = partial(history.part, stage=state.stage)
        volumes, before, model = self._resampled(state, stage), self.motions(state), state.model
        motions, settled = before, False
        ended = self._reconstruct(volumes, note, n_steps=min(self.volume_steps, stage.n_steps))
        if ended is None and stage.model is not None and motions:
            model = model_name(stage.model)
            motions, ended = self._register(volumes, motions, stage, note, same=model == state.model)
            settled = model == state.model and self._settled(before, motions, stage)
        last = (state.stage, state.block) == (len(self.settings.stages) - 1, n_turns - 1)
        if ended is None and not last and motions:
            grids = tuple(level.grid for level in levels)
            volumes = list(self.update(Estimates(volumes=tuple(volumes), grids=grids, motions=motions)))
        done = settled or state.block + 1 >= n_turns
        status, reason = ended or (Status.STEP_LIMIT, f"The limit of {n_turns} iterations was reached.")
        return replace(
            advanced(state, history, done=done),
            volumes=dict(zip(self.names, volumes, strict=True)),
            coarsen=stage.coarsen,
            model=model,
            params=tuple(motion.params for motion in motions),
            status=status,
            reason=reason,
        )

    def _settled(self, before: Sequence[Motion], after: Sequence[Motion], stage: Stage) -> bool:
        """Whether an iteration moved no visit by more than `SETTLED` voxels of its level."""
        pairs = zip(before, after, strict=True)
        changes = [float((b.params - a.params).square().mean().sqrt()) for a, b in pairs]
        return self.settings.tolerance > 0 and max(changes) < SETTLED * min(stage.coarsen)

    def _resampled(self, state: State, stage: Stage) -> list[torch.Tensor]:
        """Return the volumes on the grids of a stage."""
        volumes = []
        for alone, level, name in zip(self._alone, self._levels, self.names, strict=True):
            volume = state.volumes[name]
            if stage.fresh and state.block == 0:
                volumes.append(volume.new_zeros(level.grid.shape))
            else:
                volumes.append(resampled(volume, alone.grid.coarsen(state.coarsen), level.grid))
        return volumes

    def _reconstruct(
        self, volumes: list[torch.Tensor], note: Callable[[str], OnStep], *, n_steps: int
    ) -> tuple[Status, str] | None:
        """Make the steps of every visit's own volume, in place; return how they ended, if they diverged."""
        priors, memory = self.settings.priors, self.settings.solver.memory
        for index, level in enumerate(self._levels):
            block = volume_block(
                Problem(level, (), priors, self._scales_of(index)),
                volumes[index],
                (),
                memory=memory,
                n_steps=n_steps,
                tolerance=0.0,
                on_step=note(f"visit {index + 1} at {_finest_mm(level):g} mm"),
            )
            volumes[index] = block.volume
            if block.status is Status.DIVERGED:
                return Status.DIVERGED, f"Reconstruction of visit {index + 1}: {block.reason}"
        return None

    def _register(
        self,
        volumes: Sequence[torch.Tensor],
        motions: tuple[Motion, ...],
        stage: Stage,
        note: Callable[[str], OnStep],
        *,
        same: bool,
    ) -> tuple[tuple[Motion, ...], tuple[Status, str] | None]:
        """Return the motion of every moving visit, and how the registration ended, if it diverged.

        With `same`, the motion is already of the stage's model.
        """
        assert stage.model is not None
        found: list[Motion] = []
        ended = None
        reference, *moving = self._levels
        for index, (level, start) in enumerate(zip(moving, motions, strict=True)):
            one = register_once(
                volumes[0],
                volumes[index + 1],
                grid=reference.grid,
                moving_grid=level.grid,
                transform=start.transform if same else stage.model(self._alone[index + 1].grid),
                settings=self.settings,
                start=start,
                stiffness=stage.stiffness,
                n_steps=self.motion_steps,
                misfit=self.misfit,
                on_step=note(
                    f"{model_name(stage.model)} of visit {index + 2} at {_finest_mm(reference):g} mm"
                ),
            )
            found.append(one.motion)
            if one.solution.status is Status.DIVERGED and ended is None:
                ended = Status.DIVERGED, f"Registration of visit {index + 2}: {one.solution.reason}"
        return tuple(found), ended

    def _at(self, coarsen: tuple[int, int, int]) -> list[Level]:
        if not self._levels or self._levels[0].coarsen != coarsen:
            self._levels = [
                level_of(
                    alone,
                    coarsen,
                    basis=self.settings.basis,
                    priors=self.settings.priors,
                    scales=self._scales_of(index),
                )
                for index, alone in enumerate(self._alone)
            ]
        return self._levels

    def _scales_of(self, index: int) -> Scales:
        if index == len(self._scales):
            self._scales.append(scales_of(self._alone[index], self.settings.priors))
        return self._scales[index]


def _finest_mm(level: Level) -> float:
    return min(level.grid.spacing_mm)
