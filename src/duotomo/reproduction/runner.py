"""Runs an experiment case by case, keeps what is finished, and gathers the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from duotomo.errors import DuotomoError
from duotomo.experiments.case import Case
from duotomo.experiments.experiment import Experiment, SetUp
from duotomo.experiments.measures import errors_of
from duotomo.experiments.plan import Plan
from duotomo.experiments.way import Way
from duotomo.io import (
    CheckpointFile,
    fingerprint,
    write_result,
    write_study,
    write_transform,
    write_volume,
)
from duotomo.io.durable import durable
from duotomo.io.folder_lock import locked
from duotomo.io.paths import make_folder
from duotomo.io.result_folder import library_versions
from duotomo.methods import Record, Result

TABLE = "table.json"


class Progress(Protocol):
    """Where a person sees how an experiment goes on."""

    def begin(self, set_up: SetUp, cases: tuple[int, ...]) -> None:
        """All that is to be done."""

    def making(self, number: int) -> None:
        """A case is being made."""

    def start(self, number: int, way: Way, case: Case | None) -> None:
        """A way begins on a case; without a case, it had ended in an earlier run."""

    def step(self, record: Record) -> None:
        """It has made a step."""

    def end(self, row: dict[str, Any]) -> None:
        """It has ended, with this row of the table."""


def folder_of(out: Path, experiment: Experiment, plan: Plan) -> Path:
    """Return the folder of an experiment at a level."""
    return out / experiment.name / plan.folder_name


def case_folder(folder: Path, number: int) -> Path:
    """Return where a case keeps what it has."""
    return folder / f"case_{number:02d}"


def reproduce(
    experiment: Experiment,
    plan: Plan,
    folder: Path,
    *,
    progress: Progress,
    cases: Iterable[int] | None = None,
    ways: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Run what is not finished yet, write `table.json`, and return it.

    Every way on every case leaves its row in a file of its own when it ends, and a checkpoint while it runs:
    a run that was killed goes on from there. cases, ways: only these, for several processes that share the
    work; the table is written by a run without them.
    """
    set_up = experiment.set_up(plan)
    chosen = tuple(cases) if cases is not None else tuple(range(1, set_up.n_cases + 1))
    for number in chosen:
        if not 1 <= number <= set_up.n_cases:
            raise DuotomoError(
                f"{experiment.name}: expected cases from 1 to {set_up.n_cases}; got {number}. Choose others."
            )
    run_ways = _chosen_ways(experiment, set_up, ways)
    progress.begin(set_up, chosen)
    for number in chosen:
        home = case_folder(folder, number)
        make_folder("duotomo reproduce", home, choice="--out")
        with locked("duotomo reproduce", home):
            _run_case(experiment, plan, set_up, number, home, run_ways, progress)
    table = gather(experiment, plan, set_up, folder)
    if cases is not None or ways is not None:
        return table
    with durable("duotomo reproduce", folder / TABLE) as fresh:
        fresh.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return table


def gather(experiment: Experiment, plan: Plan, set_up: SetUp, folder: Path) -> dict[str, Any]:
    """Return the table of all rows that are finished."""
    rows = []
    for number in range(1, set_up.n_cases + 1):
        for way in set_up.ways:
            row = finished(case_folder(folder, number) / f"{way.name}.json", _key(plan, way))
            if row is not None:
                rows.append({name: value for name, value in row.items() if name != "key"})
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "level": plan.level.value,
        "quick": plan.quick,
        "device": plan.device,
        "about": set_up.about,
        "paper": None if experiment.paper is None else asdict(experiment.paper),
        "versions": library_versions(),
        "ways": [
            {
                "name": way.name,
                "label": way.label,
                "family": way.family,
                "whose": way.whose,
                "settings": repr(way.settings),
            }
            for way in set_up.ways
        ],
        "shown": set_up.shown,
        "n_cases": set_up.n_cases,
        "rows": rows,
    }


def _run_case(
    experiment: Experiment,
    plan: Plan,
    set_up: SetUp,
    number: int,
    home: Path,
    ways: tuple[Way, ...],
    progress: Progress,
) -> None:
    case: Case | None = None
    for way in ways:
        row = finished(home / f"{way.name}.json", _key(plan, way))
        if row is None:
            if case is None:
                progress.making(number)
                case = set_up.make(number)
                if number == set_up.shown:
                    _keep_case(home, case)
            progress.start(number, way, case)
            row = _run_way(plan, number, way, case, home, progress.step, keep=number == set_up.shown)
        else:
            progress.start(number, way, None)
        progress.end(row)


def _run_way(
    plan: Plan,
    number: int,
    way: Way,
    case: Case,
    home: Path,
    on_step: Callable[[Record], None],
    *,
    keep: bool,
) -> dict[str, Any]:
    checkpoint = CheckpointFile(
        home / f"{way.name}.checkpoint.h5",
        fingerprint(case.study, method=way.name, settings=way.settings),
        device=plan.device,
    )
    result = way.run(case, way.settings, on_step, checkpoint)
    if keep:
        make_folder("duotomo reproduce", home / way.name, choice="--out")
        write_result(home / way.name, result, study=case.study, settings={"python": repr(way.settings)})
    row = _row(number, way, case, result)
    with durable("duotomo reproduce", home / f"{way.name}.json") as fresh:
        fresh.write_text(json.dumps({"key": _key(plan, way), **row}, indent=1) + "\n", encoding="utf-8")
    checkpoint.remove()
    return row


def _row(number: int, way: Way, case: Case, result: Result) -> dict[str, Any]:
    reference_mm = case.transform.points(case.params, case.points_mm)
    still = (case.points_mm - reference_mm).norm(dim=1)
    return {
        "case": number,
        "way": way.name,
        "about": case.about,
        "start_tre_mm": float(still.mean()),
        **errors_of(case, result).plain(),
        "status": result.status.value,
        "reason": result.reason,
        "applications": result.applications,
        "seconds": result.seconds,
    }


def _keep_case(home: Path, case: Case) -> None:
    """Write what pictures of the case need."""
    write_volume(home / "truth.nii.gz", case.truth, case.study.grid)
    write_volume(home / "moved.nii.gz", case.moved, case.moving_grid)
    write_transform(home / "truth.tfm", case.transform, case.params, grid=case.moving_grid)
    write_study(home / "study.h5", case.study)


def _key(plan: Plan, way: Way) -> str:
    """Return what a finished row must have been made with to be taken as it is."""
    return f"{plan.device} {way.settings!r}"


def finished(path: Path, key: str) -> dict[str, Any] | None:
    """Return the row that an earlier run left, or None; raise if it was made with another key."""
    if not path.exists():
        return None
    try:
        row: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DuotomoError(
            f"duotomo reproduce: expected a finished row in {path}; got {error}. Remove it to compute it "
            f"again."
        ) from error
    if row.get("key") != key:
        raise DuotomoError(
            f"duotomo reproduce: expected {path} to come from the same settings and device; got another "
            f"run's. Choose another folder, or remove it to compute it again."
        )
    return row


def _chosen_ways(experiment: Experiment, set_up: SetUp, names: Iterable[str] | None) -> tuple[Way, ...]:
    if names is None:
        return set_up.ways
    known = {way.name: way for way in set_up.ways}
    chosen = []
    for name in names:
        if name not in known:
            raise DuotomoError(
                f"{experiment.name}: expected one of the methods {', '.join(known)}; got {name!r}. Choose "
                f"one of them."
            )
        chosen.append(known[name])
    return tuple(chosen)
