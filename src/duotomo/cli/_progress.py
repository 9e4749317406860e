"""What a person sees while a method or an experiment runs: where it stands, and the time left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from duotomo.methods import Settings, Study
    from duotomo.reproduction import ComparedMethod
    from duotomo.reproduction.case import Case
    from duotomo.reproduction.experiment import SetUp
    from duotomo.solvers import Step


class _Bar:
    """A bar that is shown while its context lasts."""

    _bar: Progress

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class _TimeLeft(ProgressColumn):
    """The time left, which comes first and is never cut off: "at most 1:02:03 left"."""

    def __init__(self, words: str) -> None:
        super().__init__(table_column=Column(no_wrap=True, min_width=len(f"{words} 00:00:00 left")))
        self._words = words

    def render(self, task: Task) -> Text:
        left = 0.0 if task.finished else task.time_remaining
        return Text(f"{self._words} {_duration(left)} left", no_wrap=True)


class _OneLine(ProgressColumn):
    """What is being done: on a narrow terminal its end is left out."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(overflow="ellipsis"))

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


def _duration(seconds: float | None) -> str:
    """Return a time as minutes and seconds, with hours where there are any.

    >>> _duration(None), _duration(75.2), _duration(3723.0)
    ('--:--', '01:16', '1:02:03')
    """
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


@dataclass(frozen=True)
class Phase:
    """A part of a run. work: of each stage, the steps it may take and what one costs, in a unit of all."""

    name: str
    work: tuple[tuple[int, float], ...]

    @property
    def cost(self) -> float:
        """Of all its steps."""
        return sum(n_steps * cost for n_steps, cost in self.work)


class RunProgress(_Bar):
    """A bar for all phases of a run, and a line for each stage that has ended.

    Stages may end early, and phases be left out: the time left is the most it can take.
    """

    def __init__(self, console: Console, phases: Sequence[Phase]) -> None:
        self._console, self._left = console, list(phases)
        self._bar = Progress(_TimeLeft("at most"), BarColumn(bar_width=10), _OneLine(), console=console)
        self._task = self._bar.add_task("starting", total=sum(phase.cost for phase in phases))
        self._phase = Phase("", ())
        self._stage, self._step, self._done = -1, 0, 0.0
        self._before = 0.0
        self._last: Step | None = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._say_ended()
        if error is None:
            self._bar.update(self._task, completed=self._done, total=self._done or 1.0, description="done")
        super().__exit__(kind, error, trace)

    @property
    def done(self) -> float:
        """The cost of what has been done, in the unit of all phases."""
        return self._done

    def begin(self, name: str, *, work: Sequence[tuple[int, float]] | None = None) -> None:
        """Begin a phase; those before it are over. work: its stages, where they are known better by now."""
        self._say_ended()
        while self._left and self._left[0].name != name:
            del self._left[0]
        self._phase = self._left.pop(0) if self._left else Phase(name, ())
        if work is not None:
            self._phase = Phase(name, tuple(work))
        self._stage, self._step, self._last, self._before = -1, 0, None, self._done
        self._update(name, self._phase.cost)

    def show(self, step: Step) -> None:
        """Show where the stages of a phase stand."""
        if step.stage != self._stage:
            self._say_ended()
            self._stage, self._step = step.stage, 0
        self._last = step
        self._step += 1
        work = self._phase.work
        stage = min(step.stage, len(work) - 1)
        n_steps, cost = work[stage]
        self._done += cost
        # Steps that an earlier stage did not need are not left to do.
        left = (n_steps - self._step) * cost + sum(n * c for n, c in work[stage + 1 :])
        words = f"{step.stage + 1}/{len(work)} {step.what}, step {self._step}"
        self._update(f"{words}, objective {step.objective:.4g}", left)

    def part(self, done: int, total: int) -> None:
        """Show how many of a phase's equal parts are done."""
        self._done = self._before + self._phase.cost * done / max(total, 1)
        self._update(f"{self._phase.name} {done}/{total}", self._phase.cost * (total - done) / max(total, 1))

    def _update(self, words: str, left: float) -> None:
        later = sum(phase.cost for phase in self._left)
        total = self._done + max(left, 0.0) + later
        self._bar.update(self._task, completed=self._done, total=total, description=words)

    def _say_ended(self) -> None:
        if self._last is not None:
            last = self._last
            cost = f"{last.applications} projector applications, " if last.applications else ""
            words = (
                f"  {last.what}: {self._step} step{'s' * (self._step != 1)}, objective {last.objective:.6g}, "
                f"{cost}{last.seconds:.1f} s"
            )
            self._console.print(words)


ALONE, CHECKS, SURE, CHANGE = "visits alone", "checks", "how sure the motion is", "what changed"
"""Phases of a run of several visits, after its stages."""

APPLICATIONS, CHECKED = 4, 270
"""Projector applications of a step, about; and of the checks, on voxels of 4 mm."""

SHARES = {SURE: {True: 0.1, False: 0.6}, CHANGE: {True: 0.3, False: 0.3}}
"""What these phases take of the run before them, about: with few parameters, and with many."""


def joint_phases(study: Study, settings: Settings, name: str, *, sure: bool, change: bool) -> list[Phase]:
    """Return the phases of a run of several visits. sure, change: which of them are wanted."""
    from duotomo.methods.held_back import VOXEL_MM
    from duotomo.transforms.transform import FEW_PARAMS

    run = Phase(name, tuple(stage_work(study, settings)))
    volume_mm3 = math.prod(study.grid.size_mm)
    n_views = sum(visit.acquisition.n_views for visit in study.visits)
    checks = CHECKED / APPLICATIONS * n_views * volume_mm3 / VOXEL_MM**3
    phases = [
        run,
        Phase(ALONE, tuple(alone_work(study, settings, range(len(study.visits))))),
        Phase(CHECKS, ((1, checks),)),
    ]
    models = [stage.model for stage in settings.stages if stage.model is not None]
    few = all(model(study.grid).n_params <= FEW_PARAMS for model in models)
    wanted = {SURE: sure, CHANGE: change}
    return phases + [Phase(one, ((1, SHARES[one][few] * run.cost),)) for one in wanted if wanted[one]]


def alone_work(study: Study, settings: Settings, visits: Sequence[int]) -> list[tuple[int, float]]:
    """Return the same as `stage_work` for reconstructions of single visits; visits: their numbers, from 0."""
    from duotomo.methods.comparison import volume_stages

    return [
        (stage.n_steps, float(math.prod(grid.coarsen(stage.coarsen).shape) * visit.acquisition.n_views))
        for visit, grid in ((study.visits[n], study.grid_of(study.visits[n])) for n in visits)
        for stage in volume_stages(settings)
    ]


def stage_work(study: Study, settings: Settings) -> list[tuple[int, float]]:
    """Return, for each stage, how many steps it may take, and what one costs: voxels times views."""
    from duotomo.methods import Alternating

    solver = settings.solver
    per_step = solver.volume_steps + solver.motion_steps if isinstance(solver, Alternating) else 1
    n_views = sum(visit.acquisition.n_views for visit in study.visits)
    return [
        (stage.n_steps * per_step, float(math.prod(study.grid.coarsen(stage.coarsen).shape) * n_views))
        for stage in settings.stages
    ]


class ExperimentProgress(_Bar):
    """One bar for all cases and methods, and a line for each that has ended.

    Its unit is a step of a method at full resolution; the time left comes from the steps of this run, and is
    the more certain the more of the methods have been seen at work.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            _TimeLeft("about"),
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:>3.0f} %", table_column=Column(no_wrap=True)),
            _OneLine(),
            console=console,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._total = self._done = self._of_method = self._whole = 0.0
        self._costs: list[float] = []
        self._what = ""

    def begin(self, set_up: SetUp, cases: tuple[int, ...]) -> None:
        """Show how much there is to do."""
        self._total = len(cases) * sum(_work(method) for method in set_up.methods)
        self._bar.update(self._task, total=self._total)

    def making(self, number: int) -> None:
        """Show that a case is being made."""
        self._bar.update(self._task, description=f"making case {number}")

    def start(self, number: int, method: ComparedMethod, case: Case | None) -> None:
        """Show which method begins on which case; without a case, it had ended in an earlier run."""
        self._what, self._of_method = f"case {number}, {method.label}", 0.0
        self._costs, self._whole = [_cost(stage.coarsen) for stage in method.settings.stages], _work(method)
        self._bar.update(self._task, description=self._what)
        if case is None:
            self._total -= self._whole
            self._whole = 0.0
            self._what += ", finished before"

    def step(self, step: Step) -> None:
        """Show that a step was made."""
        # Never beyond what the method was thought to need: some make steps of two kinds.
        cost = self._costs[min(step.stage, len(self._costs) - 1)]
        self._of_method = min(self._whole, self._of_method + cost)
        self._bar.update(
            self._task,
            completed=self._done + self._of_method,
            total=self._total,
            description=f"{self._what}, {step.what}",
        )

    def end(self, row: dict[str, Any]) -> None:
        """Show what came out."""
        self._done += self._whole
        self._bar.update(self._task, completed=self._done, total=self._total)
        self._console.print(
            f"  {self._what}: relative error {row['relative_error']:.4g}, TRE {row['tre_mm']:.3g} mm, "
            f"{row['applications']} projector applications, {row['seconds']:.1f} s, {row['status']}"
        )


def _cost(coarsen: tuple[int, int, int]) -> float:
    return 1.0 / math.prod(coarsen)


def _work(method: ComparedMethod) -> float:
    return method.passes * sum(stage.n_steps * _cost(stage.coarsen) for stage in method.settings.stages)
