"""What a person sees while a cohort runs: how many cases have ended, and the time left over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo.cli._progress import _Bar
from duotomo.errors import shown

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.cohort import Standing


class CohortProgress(_Bar):
    """A bar of all cases, and a line for each that has ended."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._task = self._bar.add_task("looking at the scans", total=None, left="")

    def show(self, standing: Standing) -> None:
        """Show where the cohort stands."""
        if standing.last:
            how = f"failed: {standing.error}" if standing.error else "ended"
            self._console.print(shown(f"  {standing.last} {how}"))
        self._bar.update(
            self._task,
            description="cases" if standing.phase == "running" else "looking at the scans",
            completed=standing.n_ended,
            total=standing.n_cases,
            left=_left(standing),
        )


def _left(standing: Standing) -> str:
    failed = f"{standing.n_failed} failed" if standing.n_failed else ""
    if standing.seconds_left is None:
        return failed
    minutes, seconds = divmod(round(standing.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    time = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return ", ".join(part for part in (failed, f"about {time} left") if part)
