"""Multi-start: the stages on the coarsest grid are run from several starts, and the best is continued."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from duotomo.errors import GeometryError
from duotomo.methods.initial_guess import initial_translations_mm
from duotomo.methods.runner import Runner
from duotomo.methods.schedule import LEVEL_STEPS, SOFTENING, Stage
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, State
from duotomo.methods.state_check import unfit
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep
from duotomo.transforms import model_name


def multi_start(
    study: Study,
    settings: Settings,
    on_step: OnStep | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    ended: Sequence[State] = (),
) -> State:
    """Return the state after the stages on the coarsest grid, from the start with the lowest objective.

    Few views determine the depth of a centre of attenuation badly, so an initial guess that is wrong by some
    voxels can end in a local minimum; so can the identity, after a large motion, and a stiff model that turns
    the wrong way first. The starts are the initial guess with all models, and the initial guess and the
    identity without those between the first and the last. All run through the stages on the coarsest grid
    but the last of these, where a step costs little. Without such stages only one start is used. The cost of
    all starts counts, the history is that of the best one.

    A body that is nearly round can be turned far by a rigid or an affine model, to explain a little of what
    only control points explain. Where control points follow, a stage with them is tried after the best start
    and after the first model alone, and what leads to the lower objective goes on; `as_begun` are its stages.

    checkpoint: keeps the starts that have ended. ended: those that a run which was killed had kept.
    """
    coarse = _first_stages(settings)
    if not (coarse and settings.initial_guess and study.moving):
        return Runner(study, settings).first_state()
    runs = _Runs(study, settings, on_step, checkpoint, ended)
    tried = runs.of_starts(_starts(study, coarse))
    best = replace(_best(tried), stage=len(coarse))
    lattice = _lattice_after(study, settings, coarse)
    if lattice is not None:
        first = runs.of_starts(_of_first_model(study, coarse))
        # What led to them is counted already.
        begun = [
            replace(state, stage=len(coarse), applications=0, seconds=0.0) for state in (best, _best(first))
        ]
        trial = replace(settings, stages=(*coarse, lattice))
        after = [runs.of(trial, state) for state in begun]
        best = begun[after.index(_best(after))]
        tried = [*tried, *first, *after]
    return replace(
        best,
        applications=sum(state.applications for state in tried),
        seconds=sum(state.seconds for state in tried),
    )


def as_begun(settings: Settings, state: State) -> Settings:
    """Return the settings whose stages a state goes on with: where only the first model began, that one."""
    first, number = settings.stages[0].model, state.stage
    if first is None or number == 0 or number >= len(settings.stages) or state.model != model_name(first):
        return settings
    stiffer = settings.stages[number - 1].model
    stages = (replace(one, model=first) if one.model == stiffer else one for one in settings.stages)
    return replace(settings, stages=tuple(stages))


class _Runs:
    """Runs one start after the other, always in the same order, and keeps those that have ended.

    ended: the first ones, of an earlier run; they are not computed again.
    """

    def __init__(
        self,
        study: Study,
        settings: Settings,
        on_step: OnStep | None,
        checkpoint: Checkpoint | None,
        ended: Sequence[State],
    ) -> None:
        self._study, self._settings, self._on_step = study, settings, on_step
        self._checkpoint, self._before, self._ended = checkpoint, iter(ended), list[State]()

    def of(self, settings: Settings, state: State | None = None) -> State:
        """Return the state that the stages of these settings end in. state: to begin with."""
        known = next(self._before, None)
        if known is None:
            runner = Runner(self._study, settings, on_step=self._on_step)
            known = runner.run(runner.first_state() if state is None else state)
            self._keep(known)
        else:
            self._ended.append(known)
        return known

    def of_starts(self, starts: Iterable[tuple[tuple[Stage, ...], bool]]) -> list[State]:
        """Return the state that each start ends in; raise if the visits share no volume after the first."""
        tried: list[State] = []
        for number, (stages, guess) in enumerate(starts):
            try:
                tried.append(self.of(replace(self._settings, stages=stages, initial_guess=guess)))
                if not tried[0].volumes:
                    raise unfit("simultaneous", "a first start that was run", "one without a volume")
            except GeometryError as error:
                # The visits share no volume unless they are moved.
                if number == 0:
                    raise
                nowhere = State.initial({}, coarsen=stages[0].coarsen, params=())
                tried.append(replace(nowhere, status=Status.DIVERGED, reason=str(error)))
                self._keep(tried[-1])
        return tried

    def _keep(self, state: State) -> None:
        self._ended.append(state)
        if self._checkpoint is not None:
            begun = State.initial({}, coarsen=self._settings.stages[0].coarsen, params=())
            seconds = sum(one.seconds for one in self._ended)
            self._checkpoint.save(replace(begun, seconds=seconds, starts=tuple(self._ended)))


def _best(tried: Sequence[State]) -> State:
    finished = [state for state in tried if state.status is not Status.DIVERGED]
    return min(finished, key=lambda state: state.history[-1].objective, default=tried[0])


def _lattice_after(study: Study, settings: Settings, coarse: tuple[Stage, ...]) -> Stage | None:
    """Return a stage of the control points that follow several models without, on the coarsest grid."""
    if settings.stiffer or coarse[-1].model == coarse[0].model:
        return None
    later = (one.model for one in settings.stages[len(coarse) :] if one.model is not None)
    model = next((one for one in later if one(study.grid).control_spacing_mm is not None), None)
    if model is None or model == coarse[-1].model:
        return None
    return Stage(
        coarsen=coarse[0].coarsen, model=model, n_steps=LEVEL_STEPS, fresh=True, stiffness=SOFTENING[0]
    )


def _first_stages(settings: Settings) -> tuple[Stage, ...]:
    """Return the stages that are run from several starts: all on the coarsest grid but the last."""
    first, last = settings.stages[0], settings.stages[-1]
    if first.coarsen == last.coarsen:
        return ()
    same = tuple(takewhile(lambda one: one.coarsen == first.coarsen and one.model, settings.stages))
    return same[:-1]


def _starts(study: Study, coarse: tuple[Stage, ...]) -> Iterator[tuple[tuple[Stage, ...], bool]]:
    """Yield stages and whether to begin with the initial guess: those of each start."""
    yield coarse, True
    direct = (coarse[0], *coarse[-1:]) if len(coarse) > 2 else coarse
    for guess in _guesses(study, coarse[0]):
        if direct != coarse or not guess:
            yield direct, guess


def _of_first_model(study: Study, coarse: tuple[Stage, ...]) -> Iterator[tuple[tuple[Stage, ...], bool]]:
    """Yield the same for starts with the first model only."""
    for guess in _guesses(study, coarse[0]):
        yield coarse[:1], guess


def _guesses(study: Study, stage: Stage) -> tuple[bool, ...]:
    return (True, False) if _differ(study, stage) else (True,)


def _differ(study: Study, stage: Stage) -> bool:
    """Whether the initial guess moves a visit by more than half a voxel."""
    edge_mm = min(study.grid.coarsen(stage.coarsen).spacing_mm)
    return any(math.hypot(*shift) > edge_mm / 2 for shift in initial_translations_mm(study))
