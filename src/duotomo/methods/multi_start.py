"""Multi-start: the coarse stages are run from the initial guess of the motion and from the identity."""

from __future__ import annotations

import math
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
    """Return the state after the coarse stages, from the start with the lower objective.

    Few views determine the depth of a centre of attenuation badly, and an initial guess that is wrong by some
    voxels can end in a local minimum; so can the identity, after a large motion. Both run through the stages
    that are coarser than the last one, and the lower objective is continued. Without such stages, or where
    the initial guess is within a voxel of the identity, only one start is used. The cost of both starts
    counts, the history is that of the better one.
    """
    # The first stages that estimate a motion on a grid coarser than that of the last stage.
    finest = settings.stages[-1].coarsen
    coarse = tuple(
        takewhile(lambda one: one.coarsen != finest and one.model and not one.fresh, settings.stages)
    )
    if not (coarse and settings.initial_guess and _differ(study, coarse[-1])):
        return Runner(study, settings).first_state()
    guessed = _through(study, replace(settings, stages=coarse), on_step)
    try:
        rested = _through(study, replace(settings, stages=coarse, initial_guess=False), on_step)
    except GeometryError:
        # The visits share no volume unless they are moved.
        return guessed
    finished = [state for state in (guessed, rested) if state.status is not Status.DIVERGED]
    better = min(finished, key=lambda state: state.history[-1].objective, default=guessed)
    return replace(
        better,
        applications=guessed.applications + rested.applications,
        seconds=guessed.seconds + rested.seconds,
    )


def _differ(study: Study, stage: Stage) -> bool:
    edge_mm = min(study.grid.coarsen(stage.coarsen).spacing_mm)
    return any(math.hypot(*shift) > edge_mm for shift in initial_translations_mm(study))


def _through(study: Study, settings: Settings, on_step: OnStep | None) -> State:
    runner = Runner(study, settings, on_step=on_step)
    return runner.run(runner.first_state())
