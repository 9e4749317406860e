"""The history of a run: its steps, and what they cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch

from duotomo.solvers.solution import Solution, Status, Step

OnStep = Callable[[Step], None]
"""Called with each step as soon as it is made."""


class History:
    """Collects the steps of a run, passes each on, and counts their cost from the start of the run.

    Parameters
    ----------
    count : callable
        Returns the projector applications so far; only those added after construction count here.
    on_step : callable, optional
        Called with each `Step`, but not with the start.
    earlier : sequence of Step, optional
        History of the run that this one continues: the numbers of the steps go on from its last.
    applications, seconds : int, float
        Cost of the run that this one continues.
    began : float, optional
        When this run did, of `time.perf_counter`; now, unless given.

    Examples
    --------
    >>> seen = []
    >>> history = History(lambda: 0, seen.append)
    >>> history.start(objective=2.0)
    >>> history.add(objective=1.0, step_size=1.0)
    >>> [step.number for step in history.steps], len(seen)
    ([0, 1], 1)
    """

    def __init__(
        self,
        count: Callable[[], int],
        on_step: OnStep | None = None,
        *,
        earlier: Sequence[Step] = (),
        applications: int = 0,
        seconds: float = 0.0,
        began: float | None = None,
    ) -> None:
        self._count, self._on_step = count, on_step
        self._applications = applications - count()
        self._began = (time.perf_counter() if began is None else began) - seconds
        self._steps = list(earlier)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The earlier steps, and those that came since."""
        return tuple(self._steps)

    @property
    def n_steps(self) -> int:
        """Number of the last step."""
        return self._steps[-1].number if self._steps else 0

    @property
    def applications(self) -> int:
        """Projector applications since the start of the run."""
        return self._applications + self._count()

    @property
    def seconds(self) -> float:
        """Seconds of computing since the start of the run."""
        return time.perf_counter() - self._began

    def start(self, *, objective: float, gradient_norm: float = math.nan) -> None:
        """Note where the run starts, as step 0.

        Parameters
        ----------
        objective, gradient_norm : float
            At the start; NaN where not known without more work.
        """
        self._append(0, objective=objective, gradient_norm=gradient_norm, step_size=0.0)

    def add(
        self,
        *,
        objective: float,
        step_size: float,
        gradient_norm: float = math.nan,
        what: str = "",
        stage: int = 0,
    ) -> None:
        """Note a step, and pass it on.

        Parameters
        ----------
        objective, step_size, gradient_norm, what, stage
            Those of `Step`; a gradient norm of NaN is not known without more work.
        """
        step = self._append(
            self.n_steps + 1,
            objective=objective,
            gradient_norm=gradient_norm,
            step_size=step_size,
            what=what,
            stage=stage,
        )
        if self._on_step is not None:
            self._on_step(step)

    def part(self, what: str, *, stage: int = 0) -> OnStep:
        """Return what notes the steps of a solver as those of one part of this run.

        Parameters
        ----------
        what : str
            The part, such as "rigid at 4 mm".
        stage : int
            Its place in the multi-resolution schedule, from 0.

        Returns
        -------
        callable
            To be the `on_step` of the solver. Numbers and cost are those of this run.
        """

        def note(step: Step) -> None:
            self.add(
                objective=step.objective,
                gradient_norm=step.gradient_norm,
                step_size=step.step_size,
                what=what,
                stage=stage,
            )

        return note

    def solution(self, value: torch.Tensor, status: Status, reason: str) -> Solution:
        """Return the solution of a run that ends at `value`.

        Parameters
        ----------
        value : torch.Tensor
            What was found.
        status : Status
            Why the run stopped.
        reason : str
            The same in one sentence.

        Returns
        -------
        Solution
            With this history.
        """
        return Solution(value=value, status=status, reason=reason, n_steps=self.n_steps, history=self.steps)

    def _append(
        self,
        number: int,
        *,
        objective: float,
        gradient_norm: float,
        step_size: float,
        what: str = "",
        stage: int = 0,
    ) -> Step:
        step = Step(
            objective=objective,
            gradient_norm=gradient_norm,
            step_size=step_size,
            applications=self.applications,
            seconds=self.seconds,
            stage=stage,
            what=what,
            number=number,
        )
        self._steps.append(step)
        return step
