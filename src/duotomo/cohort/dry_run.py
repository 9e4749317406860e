"""What a cohort would do: which cases would run, which cannot, which have ended, and what it costs."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from duotomo.cohort.case import Case, Value
from duotomo.cohort.folder import CHECKPOINT, FOLDERS, case_folder, has_result, made_of, read_state
from duotomo.cohort.plan import SECONDS_PER_WORK as PER_WORK
from duotomo.cohort.plan import START_S, Planned, plan_cases
from duotomo.cohort.resources import Allotment, Resources, allot, seconds_left, too_large
from duotomo.io.paths import AnyPath

_ENOUGH = 200
"""Cases that have ended, of which the speed is learned."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a cohort would do.

    Parameters
    ----------
    finished : tuple of str
        Names of cases that have a result of the same scans and options.
    resumed : tuple of str
        Names of those among `planned` that go on from a checkpoint.
    planned : tuple of Planned
        All others, those with a `problem` among them.
    allotment : Allotment, optional
        What workers on this machine would get; None with a scheduler.
    seconds : tuple of float
        About how long each of `planned` takes on a worker; 0 for one with a problem.
    wall_s : float
        About how long all take.
    """

    finished: tuple[str, ...]
    resumed: tuple[str, ...]
    planned: tuple[Planned, ...]
    allotment: Allotment | None
    seconds: tuple[float, ...]
    wall_s: float


def survey(
    cases: Sequence[Case],
    out: AnyPath,
    *,
    options: Mapping[str, Value] | None = None,
    resources: Resources | None = None,
    on_case: Callable[[int, int], None] | None = None,
) -> Survey:
    """Return what `cohort` would do with the same arguments; nothing is written.

    Parameters
    ----------
    cases, out, options, resources
        As for `cohort`.
    on_case : callable, optional
        Called with how many cases have been looked at, and of how many.

    Returns
    -------
    Survey
        With rough times: one step is taken to cost the same everywhere, until cases of the folder have shown
        what it does cost.
    """
    out, shared, resources = Path(out), dict(options or {}), resources or Resources()
    left = [one for one in cases if not is_finished(out, one, made_of(one, {**shared, **one.options}))]
    names = {one.name for one in left}
    with tempfile.TemporaryDirectory() as scratch:
        for name in FOLDERS:
            (Path(scratch) / name).mkdir()
        planned = []
        for one in plan_cases(left, Path(scratch), options=shared):
            planned.append(one)
            if on_case:
                on_case(len(planned), len(left))
    allotment, needs = None, [one.memory_bytes for one in planned if not one.problem]
    if resources.scheduler is None and needs:
        allotment = allot(needs, resources)
        planned = [_fitting(one, allotment) for one in planned]
    factor = seen_factor(out, cases)
    seconds = [0.0 if one.problem else factor * one.seconds for one in planned]
    return Survey(
        finished=tuple(one.name for one in cases if one.name not in names),
        resumed=tuple(one.name for one in left if (case_folder(out, one.name) / CHECKPOINT).is_file()),
        planned=tuple(planned),
        allotment=allotment,
        seconds=tuple(seconds),
        wall_s=seconds_left(seconds, allotment.n_workers if allotment else 1),
    )


def _fitting(planned: Planned, allotment: Allotment) -> Planned:
    problem = planned.problem or too_large(planned, allotment)
    return Planned(
        case=planned.case,
        options=planned.options,
        memory_bytes=planned.memory_bytes,
        work=planned.work,
        problem=problem,
    )


def is_finished(out: Path, case: Case, digest: str) -> bool:
    """Return whether a case has a result, and that of the same scans and options."""
    state = read_state(out, case.name)
    return state is not None and not state.error and state.made_of == digest and has_result(out, case.name)


def seen_factor(out: Path, cases: Sequence[Case]) -> float:
    """Return by how much cases that have ended took longer than was thought; 1 where none has."""
    states = [read_state(out, one.name) for one in cases[:_ENOUGH]]
    ratios = [
        one.wall_s / (START_S + PER_WORK * one.work)
        for one in states
        if one is not None and not one.error and one.attempts == 1
    ]
    return statistics.median(ratios) if ratios else 1.0
