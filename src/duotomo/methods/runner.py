"""Runs the stages of a schedule, block by block, from wherever a checkpoint left off."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.blocks import Block, alternating_block, coupled_block, volume_block
from duotomo.methods.level import Level, resampled
from duotomo.methods.models import Model, carried_over
from duotomo.methods.problem import Problem, Scales
from duotomo.methods.scales import scales_of
from duotomo.methods.settings import Coupled, Settings, Stage
from duotomo.methods.start import first_translations_mm
from duotomo.methods.state import Checkpoint, OnRecord, Record, State
from duotomo.methods.study import Study
from duotomo.solvers import Status, Step
from duotomo.transforms import Transform

VOLUME = "volume"


class Runner:
    """The schedule of one volume and the motion of all moving visits.

    known: transforms and parameters of the moving visits, for stages that keep the motion.
    """

    def __init__(
        self,
        study: Study,
        settings: Settings,
        *,
        known: Sequence[tuple[Transform, torch.Tensor]] | None = None,
        on_step: OnRecord | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.study, self.settings, self.known = study, settings, known
        self._on_step, self._checkpoint = on_step, checkpoint
        self._level: Level | None = None
        self._scales: Scales | None = None

    def run(self) -> State:
        """Return the last state: that of the last stage, or of a block that diverged."""
        state = (self._checkpoint.load() if self._checkpoint else None) or self._first_state()
        while state.stage < len(self.settings.stages) and state.status is not Status.DIVERGED:
            state = self._advance(state)
            if self._checkpoint is not None:
                self._checkpoint.save(state)
        return state

    def transforms(self, model: str) -> tuple[Transform, ...]:
        """Return the transform of each moving visit, for a model by its name."""
        if self.known is not None:
            return tuple(transform for transform, _ in self.known)
        return tuple(Model.parse(model).build(self.study.grid_of(visit)) for visit in self.study.moving)

    def _first_state(self) -> State:
        stage = self.settings.stages[0]
        grid, like = self.study.grid.coarsen(stage.coarsen), self.study.reference.projections
        model = "translation"
        if self.known is not None:
            params = tuple(row for _, row in self.known)
        elif stage.model is None:
            raise DuotomoError(
                "Settings: expected a model in the first stage, or a known motion; got neither. Give one."
            )
        elif self.settings.first_guess:
            shifts = first_translations_mm(self.study)
            pairs = zip(self.transforms(model), shifts, strict=True)
            params = tuple(
                carried_over(shift, shift.params(translation_mm=shift_mm), shift)  # type: ignore[attr-defined]
                for shift, shift_mm in pairs
            )
        else:
            params = tuple(transform.identity() for transform in self.transforms(model))
        return State(
            stage=0,
            block=0,
            volumes={VOLUME: torch.zeros(grid.shape, dtype=like.dtype, device=like.device)},
            coarsen=stage.coarsen,
            model=model,
            params=params,
            status=Status.STEP_LIMIT,
            reason="Nothing has been computed yet.",
            applications=0,
            seconds=0.0,
            history=(),
        )

    def _advance(self, state: State) -> State:
        """Return the state after one more block."""
        began = time.perf_counter()
        stage = self.settings.stages[state.stage]
        level = self._at(stage.coarsen)
        before = level.applications
        volume = state.volumes[VOLUME]
        if stage.fresh and state.block == 0:
            volume = volume.new_zeros(level.grid.shape)
        else:
            volume = resampled(volume, self.study.grid.coarsen(state.coarsen), level.grid)
        model = state.model if stage.model is None else str(stage.model)
        transforms, params = self._carried(state, model)
        if self._scales is None:
            self._scales = scales_of(self.study, self.settings)
        problem = Problem(
            level, transforms, self.settings.priors, self._scales, self.settings.central_step
        )
        history = list(state.history)

        def note(step: Step) -> None:
            record = Record(
                stage=state.stage,
                what=_what(stage, level, model),
                step=len(history) + 1,
                objective=step.objective,
                gradient_norm=step.gradient_norm,
                step_length=step.step_length,
                applications=state.applications + level.applications - before,
                seconds=state.seconds + time.perf_counter() - began,
            )
            history.append(record)
            if self._on_step is not None:
                self._on_step(record)

        block, done = self._block(problem, stage, state, volume, params, note)
        return State(
            stage=state.stage + 1 if done else state.stage,
            block=0 if done else state.block + 1,
            volumes={VOLUME: block.volume},
            coarsen=stage.coarsen,
            model=model,
            params=block.params,
            status=block.status,
            reason=block.reason,
            applications=state.applications + level.applications - before,
            seconds=state.seconds + time.perf_counter() - began,
            history=tuple(history),
        )

    def _block(self, problem, stage, state, volume, params, note):  # type: ignore[no-untyped-def]
        solver = self.settings.solver
        length = solver.block
        n_steps = min(length, stage.n_steps - state.block * length)
        moves = stage.model is not None and bool(params)
        if not moves or not bool(volume.any()):
            # From nothing, a motion has nothing to hold on to: the volume goes first.
            n_volume = n_steps if not moves else min(10, n_steps)
            memory = solver.memory
            block = volume_block(problem, volume, params, memory=memory, n_steps=n_volume, on_step=note)
            if moves and block.status is not Status.DIVERGED:
                volume = block.volume
        if moves and bool(volume.any()):
            if isinstance(solver, Coupled):
                block = coupled_block(problem, volume, params, solver=solver, n_steps=n_steps, on_step=note)
            else:
                block = alternating_block(
                    problem, volume, params, solver=solver, n_turns=n_steps, on_step=note
                )
        last = state.stage == len(self.settings.stages) - 1
        still = self._still(block, volume, params, problem, judge_volume=last or not moves)
        done = still or (state.block + 1) * length >= stage.n_steps
        if still and block.status is not Status.DIVERGED:
            block = replace(block, status=Status.CONVERGED, reason="A block of steps moved neither volume nor motion.")
        return block, done

    def _still(self, block: Block, volume, params, problem: Problem, *, judge_volume: bool) -> bool:  # type: ignore[no-untyped-def]
        voxel = max(problem.level.coarsen)
        pairs = list(zip(block.params, params, strict=True))
        moved = max((float((new - old).abs().max()) / voxel for new, old in pairs), default=0.0)
        if moved > self.settings.motion_tolerance:
            return False
        if not judge_volume:
            return True
        change = float(torch.linalg.vector_norm(block.volume - volume) / torch.linalg.vector_norm(block.volume))
        return change <= self.settings.volume_tolerance

    def _carried(self, state: State, model: str) -> tuple[tuple[Transform, ...], tuple[torch.Tensor, ...]]:
        targets = self.transforms(model)
        if model == state.model or self.known is not None:
            return targets, state.params
        sources = self.transforms(state.model)
        rows = zip(sources, state.params, targets, strict=True)
        return targets, tuple(carried_over(source, row, target) for source, row, target in rows)

    def _at(self, coarsen: tuple[int, int, int]) -> Level:
        if self._level is None or self._level.coarsen != coarsen:
            self._level = Level(self.study, coarsen)
        return self._level


def _what(stage: Stage, level: Level, model: str) -> str:
    motion = "volume" if stage.model is None else model
    return f"{motion} at {min(level.grid.spacing_mm):g} mm"
