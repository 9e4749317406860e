"""When a run of a solver stops, and what it returns then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from duotomo.solvers._checks import check_tolerances
from duotomo.solvers.history import History, OnStep
from duotomo.solvers.solution import Solution, Status, Step
from duotomo.solvers.solver import Goal, Solver


class _CountsApplications(Protocol):
    @property
    def applications(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Descent(Solver[Goal]):
    """What the solvers that go down an objective have in common: when they stop."""

    tolerance: float = 1e-6
    gradient_tolerance: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tolerances(type(self).__name__, gradient_tolerance=self.gradient_tolerance)

    def _progress(
        self, objective: _CountsApplications, on_step: OnStep | None, *, window: int = 1, warm_up: int = 0
    ) -> Progress:
        return Progress(
            n_steps=self.n_steps,
            applications=lambda: objective.applications,
            on_step=on_step,
            tolerance=self.tolerance,
            gradient_tolerance=self.gradient_tolerance,
            window=window,
            warm_up=warm_up,
        )


class Progress:
    """Adds to the history of one run and says when to stop.

    applications: as `count` of `History`. tolerance: of the objective's relative decrease in a step.
    gradient_tolerance: of the gradient's norm, relative to the start. window: steps that the decrease is a
    mean over. warm_up: steps before these, of which a small decrease says nothing. earlier: steps of a run
    that goes on.
    """

    def __init__(
        self,
        *,
        n_steps: int,
        applications: Callable[[], int],
        on_step: OnStep | None,
        tolerance: float = 0.0,
        gradient_tolerance: float = 0.0,
        window: int = 1,
        warm_up: int = 0,
        earlier: Sequence[Step] = (),
    ) -> None:
        self._window, self._warm_up = window, warm_up
        self._limit = n_steps
        self._history = History(
            applications,
            on_step,
            earlier=earlier,
            applications=earlier[-1].applications if earlier else 0,
            seconds=earlier[-1].seconds if earlier else 0.0,
        )
        self._tolerance, self._gradient_tolerance = tolerance, gradient_tolerance

    @property
    def goes_on(self) -> bool:
        """Whether another step is allowed."""
        return self._history.n_steps < self._limit

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step so far."""
        return self._history.steps

    def begin(self, x: torch.Tensor, objective: float, gradient_norm: float) -> Solution | None:
        """Note the start; return the solution if there is nothing to do from it."""
        self._history.start(objective=objective, gradient_norm=gradient_norm)
        if not (math.isfinite(objective) and math.isfinite(gradient_norm)):
            return self.stop(x, Status.DIVERGED, "The objective or its gradient is not finite at the start.")
        if gradient_norm == 0:
            return self.stop(x, Status.CONVERGED, "The gradient is zero at the start.")
        return None

    def advance(
        self,
        x: torch.Tensor,
        objective: float,
        gradient_norm: float,
        step_size: float,
        *,
        held_back: bool = False,
    ) -> Solution | None:
        """Note a step; return the solution if it converged.

        held_back: the step was made short on purpose, so that a small decrease says nothing.
        """
        self.record(objective, gradient_norm, step_size)
        steps = self._history.steps
        if gradient_norm <= self._gradient_tolerance * self._history.steps[0].gradient_norm:
            reason = f"The gradient fell to {self._gradient_tolerance:g} of its norm at the start."
            return self.stop(x, Status.CONVERGED, reason)
        if held_back or len(steps) <= self._warm_up + self._window:
            return None
        before = steps[-1 - self._window].objective
        if before - objective <= self._tolerance * self._window * abs(before):
            each = "A step" if self._window == 1 else f"On average each of {self._window} steps"
            reason = f"{each} lowered the objective by no more than {self._tolerance:g} of it."
            return self.stop(x, Status.CONVERGED, reason)
        return None

    def reject(self) -> None:
        """Note a step that stayed where it was."""
        last = self._history.steps[-1]
        self.record(last.objective, last.gradient_norm, 0.0)

    def record(self, objective: float, gradient_norm: float, step_size: float) -> None:
        """Note a step."""
        self._history.add(objective=objective, gradient_norm=gradient_norm, step_size=step_size)

    def stop(self, x: torch.Tensor, status: Status, reason: str) -> Solution:
        """Return the solution at `x`."""
        return self._history.solution(x, status, reason)

    def out_of_steps(self, x: torch.Tensor) -> Solution:
        """Return the solution of a run that used up its steps."""
        return self.stop(x, Status.STEP_LIMIT, f"The limit of {self._limit} steps was reached.")

    def at_rounding(self, x: torch.Tensor) -> Solution:
        """Return the solution where a model promises no more than rounding takes away."""
        reason = "The decrease that the model promises is no larger than rounding."
        return self.stop(x, Status.CONVERGED, reason)

    def stuck(self, x: torch.Tensor, n_trials: int, *, finite: bool) -> Solution:
        """Return the solution where no trial was good; `finite` says whether the last one was."""
        trials = f"{n_trials} trials, ever shorter,"
        if finite:
            return self.stop(x, Status.BREAKDOWN, f"{trials} did not lower the objective.")
        return self.stop(x, Status.DIVERGED, f"{trials} did not reach a finite objective.")
