"""What the cases of a cohort would compute: asked of the commands themselves before anything starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duotomo.cohort.case import MANAGED, Case, Value
from duotomo.cohort.folder import OPTIONS, case_folder
from duotomo.cohort.manifest import refusal
from duotomo.cohort.words import as_words
from duotomo.errors import DuotomoError
from duotomo.io.durable import durable
from duotomo.io.free_memory import PROGRAM_BYTES
from duotomo.io.settings_text import settings_text

PLANNER = "duotomo.cli._planning"
"""The module that answers; it imports what commands import, in a process of its own."""

START_S, SECONDS_PER_WORK = 10.0, 4e-9
"""For the program to start and to end, on one core; and for one step at one voxel and view. Rough: a cohort
that has finished cases goes by them."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a case would compute.

    Parameters
    ----------
    case : Case
        The case.
    options : mapping
        Of the command: those of the whole cohort, and the case's own.
    memory_bytes : int
        What it needs, the program included.
    work : float
        Steps times voxels times views, at most.
    problem : str
        Why it cannot run, with row and column; "" if it can.
    """

    case: Case
    options: Mapping[str, Value] = field(default_factory=dict)
    memory_bytes: int = 0
    work: float = 0.0
    problem: str = ""

    @property
    def seconds(self) -> float:
        """About how long it takes on one core, before any case has shown it."""
        return START_S + SECONDS_PER_WORK * self.work


def words_of(planned: Planned, out: Path) -> tuple[str, ...]:
    """Return the words of a case's command line, without where its result goes."""
    paths = [str(path.resolve()) for path in planned.case.visits]
    settings = as_words({"settings": str(options_file(out, planned.case.name))})
    return (planned.case.command.value, *paths, *settings)


def options_file(out: Path, name: str) -> Path:
    """Return where the options of a case are kept."""
    return (out / OPTIONS / f"{name}.toml").resolve()


def write_options(out: Path, planned: Planned) -> None:
    """Write the options of a case, as its command reads them."""
    with durable("cohort", options_file(out, planned.case.name)) as fresh:
        fresh.write_text(settings_text(planned.case.command.value, planned.options), encoding="utf-8")


class Planner:
    """A process that says what cases would compute; it ends with its context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.options: dict[str, list[str]] = {}

    def __enter__(self) -> Planner:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", PLANNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C is for whoever waits for it.
            start_new_session=True,
        )
        said = self._read()
        if said is None:
            raise DuotomoError(
                "cohort: expected duotomo's commands to say their options; got no answer. Run python "
                "-m duotomo to see why."
            )
        self.options = said["options"]

    def _read(self) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def ask(self, words: Sequence[str]) -> dict[str, Any]:
        """Return what a command would compute, or its `error`."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"words": list(words)}) + "\n")
            self._process.stdin.flush()
            said = self._read()
        except BrokenPipeError:
            said = None
        if said is None:
            self._process.kill()
            self._process.communicate()
            self._start()
            return {"error": "expected scans that fit into memory; got a process that was killed over them."}
        return said


def plan_cases(
    cases: Iterable[Case], out: Path, *, options: Mapping[str, Value] | None = None
) -> Iterator[Planned]:
    """Give what each case would compute; their options are written to the cohort's folder.

    Every scan is read, compared with the others of its case, and let go of: one at a time.

    Parameters
    ----------
    cases : iterable of Case
        Which may be hundreds.
    out : Path
        The folder of the cohort, which is there.
    options : mapping, optional
        Of all cases; a case's own come first.

    Yields
    ------
    Planned
        In the same order; with a `problem` where a case cannot run.

    Raises
    ------
    FileError
        If an option is none of its command: named by row and column, before any scan is read.
    """
    listed, shared = tuple(cases), dict(options or {})
    if not listed:
        return
    with Planner() as planner:
        planned = [Planned(case=one, options={**shared, **one.options}) for one in listed]
        _check_options(planned, planner.options)
        for one in planned:
            yield _plan(one, out, planner)


def _check_options(planned: Sequence[Planned], known: Mapping[str, Sequence[str]]) -> None:
    first: dict[tuple[str, str], str] = {}
    count: Counter[tuple[str, str]] = Counter()
    for one in planned:
        command = one.case.command.value
        for name in sorted({*one.options} - ({*known[command]} - {*MANAGED})):
            first.setdefault((command, name), one.case.place)
            count[command, name] += 1
    problems = [
        f"{place}{f' and {count[key] - 1} more' if count[key] > 1 else ''}, column {key[1]}: expected case, "
        f"current, prior, visit_3, ..., command, or an option of duotomo {key[0]}; got none of them"
        for key, place in first.items()
    ]
    if problems:
        raise refusal("cohort", "the cohort", problems)


def _plan(planned: Planned, out: Path, planner: Planner) -> Planned:
    case = planned.case
    for path, column in zip(case.visits, case.columns, strict=True):
        if not path.exists():
            missing = "expected a scan there; got nothing. Check the path."
            return _failed(planned, f"{case.place}, column {column}: {missing}")
    try:
        write_options(out, planned)
    except DuotomoError as error:
        return _failed(planned, f"{case.place}: {error}")
    folder = as_words({"out": str(case_folder(out, case.name).resolve())})
    said = planner.ask([*words_of(planned, out), *folder])
    if "error" in said:
        option = said.get("option")
        # A value that is wrong on the shell is wrong in the file of options, too.
        column = next((name for name in planned.options if name == option or _names(said["error"], name)), "")
        where = f"{case.place}, column {column}" if column else case.place
        return _failed(planned, f"{where}: {without_paths(str(said['error']), case)}")
    return Planned(
        case=case,
        options=planned.options,
        memory_bytes=int(said["memory_bytes"]) + PROGRAM_BYTES,
        work=float(said["work"]),
    )


def _names(error: str, option: str) -> bool:
    return re.search(rf"--{re.escape(option.replace('_', '-'))}(?![\w-])", error) is not None


def _failed(planned: Planned, problem: str) -> Planned:
    return Planned(case=planned.case, options=planned.options, problem=problem)


def without_paths(text: str, case: Case) -> str:
    """Return a text in which the scans of a case are called what their columns are: names may be patients'.

    >>> case = Case(name="a", visits=(Path("/scans/Doe_Jane.dcm"),))
    >>> without_paths("read_scan: /scans/Doe_Jane.dcm: expected views", case)
    'read_scan: (current): expected views'
    """
    text = text.removeprefix(f"duotomo {case.command.value}: ")
    for path, column in zip(case.visits, case.columns, strict=True):
        for said in (str(path.resolve()), str(path), path.name):
            text = text.replace(said, f"({column})")
    return text
