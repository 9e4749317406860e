"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch


class Status(Enum):
    """Why a solver stopped. Whichever it is, the value returned is the last good one.

    Attributes
    ----------
    CONVERGED
        A tolerance was met.
    STEP_LIMIT
        The steps allowed ran out.
    BREAKDOWN
        No further step could be found.
    DIVERGED
        NaN or infinity came up.

    Examples
    --------
    >>> Status.STEP_LIMIT.value
    'step limit'
    """

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    BREAKDOWN = "breakdown"
    DIVERGED = "diverged"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where a solver, or a method made of several, stood after a step.

    Parameters
    ----------
    objective : float
        Its value there.
    gradient_norm : float
        Euclidean norm of its gradient there; NaN where not known.
    step_size : float
        Multiple of the search direction that was taken; 0 at the start, and where a trial was rejected.
    applications : int
        Of a projector or its adjoint, one visit each, since the start.
    seconds : float
        Of computing, since the start.
    stage : int
        Place in the multi-resolution schedule of a method, from 0.
    what : str
        Part of the method that made the step, such as "rigid at 4 mm".
    number : int
        Of the step since the start of the method or solver; the start itself is 0.

    Examples
    --------
    >>> Step(objective=2.0, gradient_norm=0.5, step_size=1.0, applications=4, seconds=0.1).number
    0
    """

    objective: float
    gradient_norm: float
    step_size: float
    applications: int
    seconds: float
    stage: int = 0
    what: str = ""
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The value found, why the solver stopped there, and how it came there.

    Parameters
    ----------
    value : torch.Tensor
        The last good x.
    status : Status
        Why the solver stopped.
    reason : str
        The same in one sentence.
    n_steps : int
        Steps made.
    history : tuple of Step
        The start, then one entry for each step.

    Examples
    --------
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
