"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch


class Status(Enum):
    """Why a solver stopped.

    Converged: a tolerance was met. Step limit: the steps allowed ran out. Breakdown: no further step could
    be found. Diverged: NaN or infinity came up. Whichever it is, the value returned is the last good one.

    >>> Status.STEP_LIMIT.value
    'step limit'
    """

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    BREAKDOWN = "breakdown"
    DIVERGED = "diverged"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where a solver stood after a step.

    objective: its value there. gradient_norm: the Euclidean norm of its gradient there. step_size: the
    multiple of the search direction that was taken; 0 at the start, and where a trial was rejected.
    applications: of a projector or its adjoint, since the start. seconds: since the start.

    >>> Step(objective=2.0, gradient_norm=0.5, step_size=1.0, applications=4, seconds=0.1).objective
    2.0
    """

    objective: float
    gradient_norm: float
    step_size: float
    applications: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The value found, why the solver stopped there, and how it came there.

    reason: the status in one sentence. history: the start, then one entry for each of the `n_steps` steps.

    >>> start = Step(objective=0.0, gradient_norm=0.0, step_size=0.0, applications=2, seconds=0.0)
    >>> reason = "The gradient is zero at the start."
    >>> Solution(
    ...     value=torch.zeros(3), status=Status.CONVERGED, reason=reason, n_steps=0, history=(start,)
    ... )
    Solution(status=<Status.CONVERGED: 'converged'>, reason='The gradient is zero at the start.', n_steps=0)
    """

    value: torch.Tensor = field(repr=False)
    status: Status
    reason: str
    n_steps: int
    history: tuple[Step, ...] = field(repr=False)
