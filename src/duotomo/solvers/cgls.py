"""Conjugate gradients for least squares (Hestenes and Stiefel, 1952)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from duotomo.errors import DuotomoError, check_same, check_tensor
from duotomo.operators import LinearOperator
from duotomo.solvers.solution import Solution, Status, Step


@dataclass(frozen=True, kw_only=True)
class Cgls:
    """Minimise `|A x - b|` by conjugate gradients on the normal equations, without forming `A^T A`.

    Step k minimises `|A x - b|` over `x_0 + span{s, (A^T A) s, ..., (A^T A)^(k-1) s}`, `s = A^T (b - A x_0)`.
    From zero it tends to the minimiser of least norm; stopped early, it regularises.

    n_steps: at most so many. tolerance: converged once `|A^T (b - A x)| <= tolerance * |A^T b|`.

    >>> Cgls(n_steps=20)
    Cgls(n_steps=20, tolerance=0.0)
    """

    n_steps: int
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise DuotomoError(f"Cgls: expected n_steps >= 1; got {self.n_steps}. Allow at least one step.")
        if not 0 <= self.tolerance < math.inf:
            raise DuotomoError(
                f"Cgls: expected tolerance >= 0 and finite; got {self.tolerance}. "
                f"Zero runs to the step limit."
            )

    @torch.no_grad()
    def solve(
        self,
        operator: LinearOperator,
        data: torch.Tensor,
        *,
        start: torch.Tensor | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> Solution:
        """Return the `Solution` for `operator` A and `data` b, from `start` (zero when not given).

        data: of shape `operator.range`. start: of shape `operator.domain`; left as it is. on_step is called
        after each step. The norms are those of the recurrence, which in float32 drift from a residual
        computed afresh.
        """
        where = "Cgls.solve"
        check_tensor(where, "data", data, shape=operator.range, axes=operator.range_axes, batch_ok=False)
        if start is None:
            x = torch.zeros(operator.domain, dtype=data.dtype, device=data.device)
            residual, applications = data.clone(), 0
        else:
            check_tensor(
                where, "start", start, shape=operator.domain, axes=operator.domain_axes, batch_ok=False
            )
            check_same(where, "start", start, device=data.device, dtype=data.dtype)
            x = start.clone()
            residual, applications = data - operator(x), 1
        gradient = operator.adjoint(residual)
        gamma, goal = _norm_sq(gradient), 0.0
        applications += 1
        if self.tolerance > 0:
            # Measured against |A^T b|, not against the start, so that a good start has less to do.
            scale_sq = gamma
            if start is not None:
                scale_sq = _norm_sq(operator.adjoint(data))
                applications += 1
            goal = self.tolerance * math.sqrt(scale_sq)
        history = [_step(residual, gamma, applications)]
        direction = gradient.clone()
        status = Status.CONVERGED if math.sqrt(gamma) <= goal else Status.STEP_LIMIT
        while status is Status.STEP_LIMIT and len(history) <= self.n_steps:
            image = operator(direction)
            curvature = _norm_sq(image)
            # A zero curvature, or numbers that overflowed: the recurrence cannot go on, the last x stands.
            if not 0 < curvature < math.inf:
                status = Status.BREAKDOWN
                break
            alpha = gamma / curvature
            x.add_(direction, alpha=alpha)
            residual.sub_(image, alpha=alpha)
            gradient = operator.adjoint(residual)
            applications += 2
            gamma, gamma_before = _norm_sq(gradient), gamma
            history.append(_step(residual, gamma, applications))
            if on_step is not None:
                on_step(history[-1])
            if math.sqrt(gamma) <= goal:
                status = Status.CONVERGED
            direction.mul_(gamma / gamma_before).add_(gradient)
        return Solution(value=x, status=status, n_steps=len(history) - 1, history=tuple(history))


def _step(residual: torch.Tensor, gamma: float, applications: int) -> Step:
    return Step(
        residual_norm=math.sqrt(_norm_sq(residual)),
        normal_residual_norm=math.sqrt(gamma),
        operator_applications=applications,
    )


def _norm_sq(tensor: torch.Tensor) -> float:
    # Accumulated in double: alpha and beta are ratios of these, and a volume has many millions of voxels.
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2
