"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch


class Status(Enum):
    """Why a solver stopped.

    >>> Status.STEP_LIMIT.value
    'step limit'
    """

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    BREAKDOWN = "breakdown"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where a least-squares solver stood after a step, for the problem `min |A x - b|`.

    residual_norm: `|b - A x|`. normal_residual_norm: `|A^T (b - A x)|`. operator_applications: of A or its
    adjoint, since the start.
    """

    residual_norm: float
    normal_residual_norm: float
    operator_applications: int


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The value found, why the solver stopped there, and how it came there.

    history: the start, then one entry for each of the `n_steps` steps.
    """

    value: torch.Tensor = field(repr=False)
    status: Status
    n_steps: int
    history: tuple[Step, ...] = field(repr=False)
