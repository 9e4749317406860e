"""What a person sees while an experiment runs: the case, the method, and the time left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from duotomo.reproduction import Case, ComparedMethod, SetUp
    from duotomo.solvers import Step


class ExperimentProgress:
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

    def __enter__(self) -> ExperimentProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

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
