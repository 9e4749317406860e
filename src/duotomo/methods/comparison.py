"""Reconstructions of each visit alone, resampled to the reference frame, to compare with the joint one."""

from __future__ import annotations

from dataclasses import replace

import torch

from duotomo.methods.result import Result
from duotomo.methods.schedule import Stage
from duotomo.methods.sequential import in_both_frames, one_visit
from duotomo.methods.settings import Settings
from duotomo.methods.simultaneous import with_known_motion
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.solvers.history import OnStep

COARSE_STEPS = 60
"""Steps of the volume on each level but the finest."""

REFERENCE, SEQUENTIAL = "visit_1", "sequential"


def visit_alone(
    study: Study, settings: Settings, index: int, *, on_step: OnStep | None = None
) -> torch.Tensor:
    """Return the reconstruction of one visit alone, (z, y, x) in 1/mm; all as for `with_visits_alone`."""
    short = replace(settings, stages=volume_stages(settings), stiffer=())
    return with_known_motion(one_visit(study, index), short, (), on_step=on_step).volume


def with_visits_alone(
    study: Study, settings: Settings, result: Result, *, on_step: OnStep | None = None
) -> Result:
    """Return a result with the reconstruction of each visit alone among its `others`.

    These are "visit_1" of the reference visit, and of every moving visit "visit_2" in its own frame and
    "visit_2_registered", resampled to the reference frame by the motion found. All have the priors and the
    finest level of the settings. Volumes that the method has made already are kept, and a result that
    diverged is returned unchanged.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    settings : Settings
        Those of the method; their models of motion are not used.
    result : Result
        What the method returned.
    on_step : callable, optional
        Called with every `Step` of the reconstructions.

    Returns
    -------
    Result
        The same, with more volumes in `others`, (z, y, x) in 1/mm, and their grids in `grids`.
    """
    wanted = visits_wanted(study, result)
    if not wanted:
        if result.method != SEQUENTIAL or result.status is Status.DIVERGED:
            return result
        # Its volume is made from the reference alone.
        return replace(result, others={REFERENCE: result.volume, **result.others})
    volumes: dict[int, torch.Tensor] = {}
    for place, index in enumerate(wanted):
        first = place * len(volume_stages(settings))
        watch = None if on_step is None else _named(on_step, f"visit {index + 1} alone, ", first)
        volumes[index] = visit_alone(study, settings, index, on_step=watch)
    others, grids = dict(result.others), dict(result.grids)
    others[REFERENCE] = volumes[0]
    if len(wanted) > 1:
        coarsen = settings.stages[-1].coarsen
        ordered = [volumes[index] for index in range(len(study.visits))]
        more, more_grids = in_both_frames(study, ordered, result.motions, coarsen=coarsen)
        others, grids = {**others, **more}, {**grids, **more_grids}
    return replace(result, others=others, grids=grids)


def visits_wanted(study: Study, result: Result) -> list[int]:
    """Return the indices, from 0, of the visits that are not yet reconstructed alone."""
    if result.status is Status.DIVERGED or not study.moving or result.method == SEQUENTIAL:
        return []
    made = all(f"visit_{n}_registered" in result.others for n in range(2, len(study.visits) + 1))
    return [0] if made else list(range(len(study.visits)))


def volume_stages(settings: Settings) -> tuple[Stage, ...]:
    """Return the stages of one visit: each level of the settings once, the coarsest first.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.transforms import Affine
    >>> grid = VolumeGrid.on_detector((40, 40, 40), (1.0, 1.0, 1.0))
    >>> [stage.coarsen for stage in volume_stages(Settings.staged(grid, Affine))]
    [(2, 2, 2), (1, 1, 1)]
    """
    last = settings.stages[-1]
    levels = dict.fromkeys(stage.coarsen for stage in settings.stages if stage.coarsen != last.coarsen)
    stages = [Stage(coarsen=level, model=None, n_steps=COARSE_STEPS) for level in levels]
    return (*stages, Stage(coarsen=last.coarsen, model=None, n_steps=last.n_steps))


def _named(on_step: OnStep, prefix: str, first: int) -> OnStep:
    return lambda step: on_step(replace(step, stage=first + step.stage, what=prefix + step.what))
