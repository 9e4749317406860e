"""What a method notes while it computes one block: its steps, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable

from duotomo.methods.blocks import OnStep
from duotomo.methods.state import OnRecord, Record, State
from duotomo.solvers import Step


class Course:
    """Continues the history and the cost of a state.

    count: returns the projector applications so far, of which only what is added from now on counts here.
    began: when the block did, of `time.perf_counter`.
    """

    def __init__(
        self, state: State, count: Callable[[], int], on_step: OnRecord | None, *, began: float
    ) -> None:
        self._state, self._count, self._on_step = state, count, on_step
        self._began, self._before = began, count()
        self._history = list(state.history)

    @property
    def applications(self) -> int:
        """Since the start of the method."""
        return self._state.applications + self._count() - self._before

    @property
    def seconds(self) -> float:
        """Of computing, since the start of the method."""
        return self._state.seconds + time.perf_counter() - self._began

    @property
    def history(self) -> tuple[Record, ...]:
        """The records of the state, and those that came since."""
        return tuple(self._history)

    def of(self, what: str) -> OnStep:
        """Return what notes a solver's step as one of this part of the method."""

        def note(step: Step) -> None:
            record = Record(
                stage=self._state.stage,
                what=what,
                step=len(self._history) + 1,
                objective=step.objective,
                gradient_norm=step.gradient_norm,
                step_size=step.step_size,
                applications=self.applications,
                seconds=self.seconds,
            )
            self._history.append(record)
            if self._on_step is not None:
                self._on_step(record)

        return note
