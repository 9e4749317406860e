"""Runs an experiment case by case, keeps what is finished, and gathers the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from duotomo.errors import DuotomoError
from duotomo.io import CheckpointFile, fingerprint, write_result, write_study, write_transform, write_volume
from duotomo.io.durable import held
from duotomo.io.paths import make_folder
from duotomo.io.run_fingerprint import settings_key, version_1_repr
from duotomo.io.versions import library_versions
from duotomo.methods import Result, settings_to_dict
from duotomo.reproduction.case import Case
from duotomo.reproduction.compared_method import ComparedMethod
from duotomo.reproduction.experiment import Experiment, SetUp
from duotomo.reproduction.measures import errors_of
from duotomo.reproduction.plan import Plan
from duotomo.reproduction.table import TABLE, WHERE, Row, read_row, write_json, write_row
from duotomo.solvers import Step
from duotomo.solvers.history import OnStep


class Progress(Protocol):
    """Called as an experiment goes on, to show how far it is."""

    def begin(self, set_up: SetUp, cases: tuple[int, ...]) -> None:
        """Hear all that is to be done.

        Parameters
        ----------
        set_up : SetUp
            The experiment.
        cases : tuple of int
            That will run.
        """

    def making(self, number: int) -> None:
        """Hear that a case is being made.

        Parameters
        ----------
        number : int
            Of the case, from 1 on.
        """

    def start(self, number: int, method: ComparedMethod, case: Case | None) -> None:
        """Hear that a method begins on a case.

        Parameters
        ----------
        number : int
            Of the case, from 1 on.
        method : ComparedMethod
            Which.
        case : Case or None
            None if it had ended in an earlier run.
        """

    def step(self, step: Step) -> None:
        """Hear that it has made a step.

        Parameters
        ----------
        step : Step
            The step.
        """

    def end(self, row: Row) -> None:
        """Hear that it has ended.

        Parameters
        ----------
        row : dict
            Its row of the table.
        """


def folder_of(out: Path, experiment: Experiment, plan: Plan) -> Path:
    """Return the folder of an experiment at a level.

    Parameters
    ----------
    out : Path
        Folder of all experiments.
    experiment : Experiment
        One of them.
    plan : Plan
        Its level and size.

    Returns
    -------
    Path
        `out/NAME/LEVEL`.
    """
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
    methods: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Run what is not finished yet of an experiment, and write its table.

    Every method on every case leaves its row in a file of its own when it ends, and a checkpoint while it
    runs: a run that was killed goes on from there.

    Parameters
    ----------
    experiment : Experiment
        One of `EXPERIMENTS`.
    plan : Plan
        Level, size, device and data.
    folder : Path
        To write to, such as `folder_of` returns.
    progress : Progress
        Called as the work goes on.
    cases : iterable of int, optional
        Only these, from 1 on, for several processes that share the work.
    methods : iterable of str, optional
        Only those of these names, likewise; `table.json` is written by a run without `cases` and `methods`.

    Returns
    -------
    dict
        The table of all rows that are finished, as `table.json` has it.

    Raises
    ------
    DuotomoError
        If the experiment has no such level, case or method, if data are missing, or if the folder holds rows
        of other settings.
    """
    set_up = experiment.set_up(plan)
    chosen = tuple(cases) if cases is not None else tuple(range(1, set_up.n_cases + 1))
    for number in chosen:
        if not 1 <= number <= set_up.n_cases:
            raise DuotomoError(
                f"{experiment.name}: expected `cases` from 1 to {set_up.n_cases}; got {number}. Choose "
                f"others."
            )
    run_methods = _chosen_methods(experiment, set_up, methods)
    progress.begin(set_up, chosen)
    for number in chosen:
        home = case_folder(folder, number)
        with held(WHERE, home):
            _run_case(plan, set_up, number, home, run_methods, progress)
    table = gather(experiment, plan, set_up, folder)
    if cases is None and methods is None:
        write_json(folder / TABLE, table)
    return table


def gather(experiment: Experiment, plan: Plan, set_up: SetUp, folder: Path) -> dict[str, Any]:
    """Return the table of all rows that are finished."""
    rows = (
        read_row(case_folder(folder, number) / f"{method.name}.json", _keys(plan, method))
        for number in range(1, set_up.n_cases + 1)
        for method in set_up.methods
    )
    return {
        "version": 2,
        "experiment": experiment.name,
        "title": experiment.title,
        "level": plan.level.value,
        "quick": plan.quick,
        "device": plan.device,
        "about": set_up.about,
        "paper": None if experiment.paper is None else asdict(experiment.paper),
        "versions": library_versions(),
        "methods": [
            {
                "name": method.name,
                "label": method.label,
                "family": method.family,
                "origin": method.origin,
                "settings": settings_to_dict(method.settings),
            }
            for method in set_up.methods
        ],
        "shown": set_up.shown,
        "n_cases": set_up.n_cases,
        "rows": [row for row in rows if row is not None],
    }


def _run_case(
    plan: Plan,
    set_up: SetUp,
    number: int,
    home: Path,
    methods: tuple[ComparedMethod, ...],
    progress: Progress,
) -> None:
    case: Case | None = None
    for method in methods:
        row = read_row(home / f"{method.name}.json", _keys(plan, method))
        if row is None:
            if case is None:
                progress.making(number)
                case = set_up.make(number)
                if number == set_up.shown:
                    _keep_case(home, case)
            progress.start(number, method, case)
            row = _run_method(plan, number, method, case, home, progress.step, keep=number == set_up.shown)
        else:
            progress.start(number, method, None)
        progress.end(row)


def _run_method(
    plan: Plan, number: int, method: ComparedMethod, case: Case, home: Path, on_step: OnStep, *, keep: bool
) -> Row:
    checkpoint = CheckpointFile(
        home / f"{method.name}.checkpoint.h5",
        fingerprint(case.study, method=method.name, settings=method.settings),
        device=plan.device,
    )
    result = method.run(case, method.settings, on_step, checkpoint)
    if keep:
        make_folder(WHERE, home / method.name)
        write_result(home / method.name, result, study=case.study, settings=method.settings)
    row = _row(number, method, case, result)
    write_row(home / f"{method.name}.json", _keys(plan, method)[0], row)
    checkpoint.remove()
    return row


def _row(number: int, method: ComparedMethod, case: Case, result: Result) -> Row:
    still = (case.points_mm - case.motion.points(case.points_mm)).norm(dim=1)
    return {
        "case": number,
        "method": method.name,
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
    write_transform(home / "truth.tfm", case.motion, grid=case.moving_grid)
    write_study(home / "study.h5", case.study)


def _keys(plan: Plan, method: ComparedMethod) -> tuple[str, ...]:
    """Return what a finished row must have been made with to be taken as it is: of this version, and of 1."""
    older = version_1_repr(method.settings)
    keys = settings_key(method.settings), older
    return tuple(f"{plan.device} {key}" for key in keys if key is not None)


def _chosen_methods(
    experiment: Experiment, set_up: SetUp, names: Iterable[str] | None
) -> tuple[ComparedMethod, ...]:
    if names is None:
        return set_up.methods
    known = {method.name: method for method in set_up.methods}
    chosen = []
    for name in names:
        if name not in known:
            raise DuotomoError(
                f"{experiment.name}: expected `methods` among {', '.join(known)}; got {name!r}. Choose one "
                f"of them."
            )
        chosen.append(known[name])
    return tuple(chosen)
