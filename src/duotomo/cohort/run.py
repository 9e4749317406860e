"""Runs the cases of a cohort on Dask, each as the command that it is; what has ended is not run again."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from duotomo.cohort.begun import begun_file, begun_with
from duotomo.cohort.case import Case, Value
from duotomo.cohort.dask_client import (
    SchedulerLostError,
    check_installed,
    check_versions,
    connected,
    run_tasks,
)
from duotomo.cohort.dry_run import is_finished, seen_factor
from duotomo.cohort.folder import (
    FOLDERS,
    LOGS,
    SESSION,
    State,
    case_folder,
    made_of,
    write_index,
    write_state,
)
from duotomo.cohort.plan import Planned, plan_cases, without_paths, words_of
from duotomo.cohort.resources import Allotment, Resources, allot, seconds_left, too_large
from duotomo.cohort.table import Row, read_table
from duotomo.cohort.task import REFUSED, STOPPED, Outcome, Task
from duotomo.cohort.thumbnail import thumbnail_of
from duotomo.cohort.words import as_words
from duotomo.cohort.workers import local_workers
from duotomo.errors import DuotomoError
from duotomo.io.durable import durable, held
from duotomo.io.paths import AnyPath, FileError, make_folder

MOST_RESTARTS = 10
"""Of a scheduler on this machine that is lost again and again, without one case that ends between."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a cohort stands.

    Parameters
    ----------
    n_cases, n_ended, n_failed : int
        All; those that have ended, of which some failed.
    phase : str
        "planning" or "running".
    seconds_left : float, optional
        About how long it takes.
    last : str
        The case that has just ended, "" where none has.
    error : str
        Why it failed, "" if it did not.
    """

    n_cases: int
    n_ended: int
    n_failed: int
    phase: str
    seconds_left: float | None = None
    last: str = ""
    error: str = ""


OnStanding = Callable[[Standing], None]
OnNote = Callable[[str], None]


def cohort(
    cases: Sequence[Case],
    out: AnyPath,
    *,
    options: Mapping[str, Value] | None = None,
    resources: Resources | None = None,
    on_standing: OnStanding | None = None,
    on_note: OnNote | None = None,
) -> tuple[Row, ...]:
    """Run all cases that have no result yet, and return what came out of all.

    Every case is `duotomo joint` or `duotomo change` in a process of its own, with a folder of its own in
    `out/cases`. One that was killed goes on from its checkpoint, one that fails leaves the others alone, and
    one that has a result of the same scans and options is not run again.

    Parameters
    ----------
    cases : sequence of Case
        Such as `read_manifest` returns.
    out : str or path
        A folder for this cohort, made if it is not there.
    options : mapping, optional
        Options of all cases, by name; a case's own come first.
    resources : Resources, optional
        Where they run: on this machine's cores, unless given.
    on_standing : callable, optional
        Called as cases end, and about twice a second between.
    on_note : callable, optional
        Called with a sentence on what is being done.

    Returns
    -------
    tuple of Row
        One for each case, in their order.

    Raises
    ------
    FileError
        If another cohort runs in the folder, it cannot be written to, or an option is none.
    SchedulerLostError
        If a scheduler that was named is gone before all cases have ended.
    DuotomoError
        If two cases have one name, or Dask is not there, or another version of it.
    """
    out, resources = Path(out), resources or Resources()
    _check_names(cases)
    check_installed()
    with held("cohort", out, choice="`out`"), ExitStack() as stack:
        for name in FOLDERS:
            make_folder("cohort", out / name)
        write_index(out, cases)
        run = _Run(out, cases, resources, on_standing or _silent, on_note or _silent)
        todo = run.plan(dict(options or {}))
        if todo:
            key = stack.enter_context(_session(out))
            run.execute(todo, key)
        run.check_kept()
    return read_table(out)


def _silent(_: object) -> None:
    pass


def _check_names(cases: Sequence[Case]) -> None:
    names = [case.name.lower() for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1}) if len({*names}) < len(names) else []
    if twice:
        raise DuotomoError(
            f"cohort: expected a name of its own for each case; got {', '.join(twice)[:200]} twice. Rename "
            f"one of them."
        )


@contextmanager
def _session(out: Path) -> Iterator[str]:
    """Give a key that workers find in the folder while somebody waits for them."""
    key, path = secrets.token_hex(8), out / SESSION
    with durable("cohort", path) as fresh:
        fresh.write_text(key, encoding="ascii")
    try:
        yield key
    finally:
        path.unlink(missing_ok=True)


class _Run:
    """One call of `cohort`, in a folder that is held for it."""

    def __init__(
        self,
        out: Path,
        cases: Sequence[Case],
        resources: Resources,
        on_standing: OnStanding,
        on_note: OnNote,
    ) -> None:
        self._out, self._cases, self._resources = out, cases, resources
        self._show, self._note = on_standing, on_note
        self._ended = self._failed = 0
        self._unkept = ""
        self._made_of: dict[str, str] = {}
        self._left: dict[str, Planned] = {}
        self._seen: list[float] = []
        self._allotment: Allotment | None = None
        self._n_workers, self._changed_s = 1, time.monotonic()

    def plan(self, options: Mapping[str, Value]) -> list[Planned]:
        """Return the cases that are to run; those that cannot are kept as failures."""
        self._made_of = {one.name: made_of(one, {**options, **one.options}) for one in self._cases}
        left = [one for one in self._cases if not is_finished(self._out, one, self._made_of[one.name])]
        self._ended = len(self._cases) - len(left)
        self._stand("planning")
        planned = []
        for one in plan_cases(left, self._out, options=options):
            self._stand("planning")
            if one.problem:
                self._keep(one, _refused(one.case.name, one.problem))
            else:
                planned.append(one)
        if planned and self._resources.scheduler is None:
            self._allotment = allot([one.memory_bytes for one in planned], self._resources)
            for one in planned:
                if problem := too_large(one, self._allotment):
                    self._keep(one, _refused(one.case.name, problem))
            planned = [one for one in planned if not too_large(one, self._allotment)]
        # The longest first: nobody waits for one that began last.
        return sorted(planned, key=lambda one: -one.work)

    def execute(self, todo: Sequence[Planned], key: str) -> None:
        """Run cases until all have ended."""
        self._left = {one.case.name: one for one in todo}
        if self._resources.scheduler is None:
            self._on_this_machine(key)
        else:
            with connected(self._resources.scheduler) as client:
                check_versions(client)
                self._n_workers = sum(client.nthreads().values())
                self._say_dashboard(client.dashboard_link)
                run_tasks(client, self._tasks(key), self._hear, is_alive=lambda: True, on_tick=self._tick)

    def _on_this_machine(self, key: str) -> None:
        assert self._allotment is not None
        self._n_workers, restarts = self._allotment.n_workers, 0
        self._note(self._allotment.words)
        while self._left:
            before = len(self._left)
            try:
                with (
                    local_workers(self._allotment, self._out / LOGS) as workers,
                    connected(workers.address) as client,
                ):
                    self._say_dashboard(client.dashboard_link)
                    run_tasks(client, self._tasks(key), self._hear, is_alive=workers.tend, on_tick=self._tick)
            except SchedulerLostError:
                restarts = restarts + 1 if len(self._left) == before else 0
                if restarts > MOST_RESTARTS:
                    raise
                self._note("Dask's scheduler was lost: starting another one")

    def _tasks(self, key: str) -> list[Task]:
        resources, given = self._resources, self._allotment
        return [
            Task(
                name=name,
                words=(*words_of(one, self._out), *as_words({"device": resources.device})),
                out=str(case_folder(self._out, name).resolve()),
                log=str((self._out / LOGS / f"{name}.txt").resolve()),
                thumbnail=str(thumbnail_of(self._out, name).resolve()),
                session=str((self._out / SESSION).resolve()),
                key=key,
                begun=str(begun_file(self._out, name).resolve()),
                digest=begun_with(self._made_of[name]),
                n_threads=(resources.n_threads or 1) if given is None else given.n_threads,
                device_bytes=None if given is None else given.device_bytes,
                n_retries=resources.n_retries,
            )
            for name, one in self._left.items()
        ]

    def _hear(self, outcome: Outcome) -> None:
        """Keep how a case ended."""
        one = self._left.pop(outcome.name)
        error = without_paths(outcome.error, one.case)
        if outcome.code == STOPPED:
            error = (
                f"expected a worker that sees {self._out.resolve()}; got one that does not find this run "
                f"there. The folder has to be shared between the machines."
            )
        elif not error:
            self._seen.append(outcome.wall_s / one.seconds)
        self._keep(
            one,
            State(
                case=outcome.name,
                made_of=self._made_of[outcome.name],
                code=outcome.code,
                error=error and f"{one.case.place}: {error}",
                attempts=outcome.attempts,
                wall_s=outcome.wall_s,
                work=one.work,
                memory_bytes=one.memory_bytes,
            ),
        )

    def _keep(self, planned: Planned, state: State | Outcome) -> None:
        name = planned.case.name
        if isinstance(state, Outcome):
            state = State(
                case=name,
                made_of=self._made_of[name],
                code=state.code,
                error=state.error,
                attempts=0,
                wall_s=0.0,
                work=planned.work,
                memory_bytes=planned.memory_bytes,
            )
        try:
            write_state(self._out, state)
        except FileError as error:
            # A disk that is full takes no result along: the others go on, and it is said at the end.
            self._unkept = self._unkept or str(error)
        self._ended += 1
        self._failed += bool(state.error)
        self._changed_s = time.monotonic()
        self._stand("running", last=name, error=state.error)

    def check_kept(self) -> None:
        """Raise if it could not be kept how some case ended."""
        if self._unkept:
            raise FileError(f"{self._unkept} Results are in their folders; run the same command again.")

    def _tick(self) -> None:
        self._stand("running")

    def _stand(self, phase: str, *, last: str = "", error: str = "") -> None:
        left = None
        if self._left:
            factor = statistics.median(self._seen) if self._seen else seen_factor(self._out, self._cases)
            most = seconds_left([one.seconds for one in self._left.values()], self._n_workers, factor=factor)
            left = max(0.0, most - (time.monotonic() - self._changed_s))
        self._show(
            Standing(
                n_cases=len(self._cases),
                n_ended=self._ended,
                n_failed=self._failed,
                phase=phase,
                seconds_left=left,
                last=last,
                error=error,
            )
        )

    def _say_dashboard(self, link: str | None) -> None:
        from importlib.util import find_spec

        if link and find_spec("bokeh"):
            self._note(f"Dask's dashboard: {link}")
        else:
            self._note("Dask's dashboard needs bokeh, which is not installed: pip install bokeh")


def _refused(name: str, problem: str) -> Outcome:
    return Outcome(name=name, code=REFUSED, error=problem, attempts=0, wall_s=0.0)
