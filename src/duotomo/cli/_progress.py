"""What a person sees while a method or an experiment runs: where it stands, and the time left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.progress import Progress

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


class StageProgress(_Bar):
    """A bar for all stages, and a line for each that has ended.

    Stages may end early: the time left is the most it can take.
    """

    def __init__(self, console: Console, work: Sequence[tuple[int, float]]) -> None:
        """work: of each stage, the steps it may take and what one of them costs, in any unit."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console, self._work = console, tuple(work)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TextColumn("objective {task.fields[objective]}"),
            TextColumn("at most"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
        )
        total = sum(steps * cost for steps, cost in self._work)
        self._task = self._bar.add_task("starting", total=total, objective="-")
        self._stage, self._step, self._done = -1, 0, 0.0
        self._last: Step | None = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._say_ended()
        if error is None:
            self._bar.update(self._task, completed=self._done, total=self._done)
        super().__exit__(kind, error, trace)

    def show(self, step: Step) -> None:
        """Show where the method stands."""
        if step.stage != self._stage:
            self._say_ended()
            self._stage, self._step = step.stage, 0
        self._last = step
        self._step += 1
        stage = min(step.stage, len(self._work) - 1)
        n_steps, cost = self._work[stage]
        self._done += cost
        # Steps that an earlier stage did not need are not left to do.
        left = (n_steps - self._step) * cost + sum(n * c for n, c in self._work[stage + 1 :])
        self._bar.update(
            self._task,
            completed=self._done,
            total=self._done + max(left, 0.0),
            description=f"{step.stage + 1}/{len(self._work)} {step.what}, step {self._step}",
            objective=f"{step.objective:.4g}",
        )

    def _say_ended(self) -> None:
        if self._last is not None:
            last = self._last
            cost = f"{last.applications} projector applications, " if last.applications else ""
            self._console.print(
                f"  {last.what}: {self._step} step{'s' * (self._step != 1)}, objective {last.objective:.6g}, "
                f"{cost}{last.seconds:.1f} s"
            )


class PartProgress(_Bar):
    """A bar for work of equal parts, with the time left."""

    def __init__(self, console: Console, what: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            TextColumn("about"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            TextColumn("left"),
            console=console,
        )
        self._task = self._bar.add_task(what, total=None)

    def show(self, done: int, total: int) -> None:
        """Show how much is done, and of how much."""
        self._bar.update(self._task, completed=done, total=total)


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
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("about"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("left"),
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
