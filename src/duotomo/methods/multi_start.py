"""Multi-start: the stages on the coarsest grid are run from several starts, and the best is continued."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from duotomo.errors import GeometryError
from duotomo.methods.initial_guess import initial_translations_mm
from duotomo.methods.runner import Runner
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.methods.state import State
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep


def multi_start(study: Study, settings: Settings, on_step: OnStep | None = None) -> State:
    """Return the state after the stages on the coarsest grid, from the start with the lowest objective.

    Few views determine the depth of a centre of attenuation badly, so an initial guess that is wrong by some
    voxels can end in a local minimum; so can the identity, after a large motion, and a stiff model that turns
    the wrong way first. The starts are the initial guess with all models, and the initial guess and the
    identity without those between the first and the last. All run through the stages on the coarsest grid
    but the last of these, where a step costs little. Without such stages only one start is used. The cost of
    all starts counts, the history is that of the best one.
    """
    coarse = _first_stages(settings)
    if not (coarse and settings.initial_guess and study.moving):
        return Runner(study, settings).first_state()
    tried: list[State] = []
    for number, (stages, guess) in enumerate(_starts(study, coarse)):
        try:
            runner = Runner(study, replace(settings, stages=stages, initial_guess=guess), on_step=on_step)
            tried.append(runner.run(runner.first_state()))
        except GeometryError:
            # The visits share no volume unless they are moved.
            if number == 0:
                raise
    finished = [state for state in tried if state.status is not Status.DIVERGED]
    best = min(finished, key=lambda state: state.history[-1].objective, default=tried[0])
    return replace(
        best,
        stage=len(coarse),
        applications=sum(state.applications for state in tried),
        seconds=sum(state.seconds for state in tried),
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
    guesses = (True, False) if _differ(study, coarse[0]) else (True,)
    yield coarse, True
    direct = (coarse[0], *coarse[-1:]) if len(coarse) > 2 else coarse
    for guess in guesses:
        if direct != coarse or not guess:
            yield direct, guess


def _differ(study: Study, stage: Stage) -> bool:
    """Whether the initial guess moves a visit by more than half a voxel."""
    edge_mm = min(study.grid.coarsen(stage.coarsen).spacing_mm)
    return any(math.hypot(*shift) > edge_mm / 2 for shift in initial_translations_mm(study))
