"""What a reconstruction algorithm is, and how one keeps its history."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch

from duotomo.operators import Projector
from duotomo.solvers import Solution, Status, Step

OnStep = Callable[[Step], None]


class Algorithm(Protocol):
    """Frozen settings that turn the projections of one visit into a volume.

    A new algorithm is one file with such a class; `reconstruct` checks the input before it calls `run`.
    """

    def run(
        self,
        projector: Projector,
        projections: torch.Tensor,
        *,
        weights: torch.Tensor | None,
        start: torch.Tensor | None,
        on_step: OnStep | None,
    ) -> Solution:
        """Return the volume (z, y, x) found from `projections` (view, v, u), as the value of a `Solution`.

        weights: inverse variances, (view, v, u), or None. start: (z, y, x), left as it is, or None.
        """
        ...


class Record:
    """Collects the steps of one run and makes the `Solution`.

    >>> seen = []
    >>> record = Record(seen.append)
    >>> record.add(objective=2.0, applications=1)
    >>> record.add(objective=1.0, step_size=1.0, applications=3)
    >>> record.solution(torch.zeros(2), Status.STEP_LIMIT, "One step was asked for.").n_steps, len(seen)
    (1, 1)
    """

    def __init__(self, on_step: OnStep | None) -> None:
        self._on_step, self._began = on_step, time.perf_counter()
        self._history: list[Step] = []

    def add(
        self,
        *,
        objective: float,
        applications: int,
        step_size: float = 0.0,
        gradient_norm: float = float("nan"),
    ) -> None:
        """Note the start, or a step; of a step, tell whoever watches. NaN: not known without more work."""
        step = Step(
            objective=objective,
            gradient_norm=gradient_norm,
            step_size=step_size,
            applications=applications,
            seconds=time.perf_counter() - self._began,
        )
        self._history.append(step)
        if self._on_step is not None and len(self._history) > 1:
            self._on_step(step)

    def solution(self, value: torch.Tensor, status: Status, reason: str) -> Solution:
        """Return the solution at `value`."""
        n_steps = len(self._history) - 1
        return Solution(
            value=value, status=status, reason=reason, n_steps=n_steps, history=tuple(self._history)
        )
