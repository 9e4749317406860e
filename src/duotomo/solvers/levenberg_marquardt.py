"""Levenberg and Marquardt's method with a dense matrix, for few parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from duotomo.errors import DtypeError, ShapeError
from duotomo.solvers._checks import check_start, check_tolerances, norm, rounding
from duotomo.solvers._progress import Descent
from duotomo.solvers.history import OnStep
from duotomo.solvers.solution import Solution, Status
from duotomo.transforms.transform import FEW_PARAMS

_MOST_REJECTIONS = 12
_FIRST_DAMPING = 1e-3


class FewParameters(Protocol):
    """A least-squares objective of few parameters, which can afford its Gauss-Newton matrix."""

    shape: tuple[int, ...]

    @property
    def applications(self) -> int:
        """Projector applications so far."""

    def value(self, x: torch.Tensor) -> float:
        """Return `F(x)`."""

    def normal_equations(self, x: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Return `F(x)`, its gradient `J^T r`, (n,), and the matrix `J^T J`, (n, n)."""


@dataclass(frozen=True, kw_only=True)
class LevenbergMarquardt(Descent[FewParameters]):
    """Minimise an objective of few parameters by steps d with `(H + mu diag(H)) d = -g`, `H = J^T J`.

    Damping by the diagonal makes the steps independent of the parameters' units. A trial is accepted if the
    objective falls; mu then falls too, the more the better the model was, and otherwise grows (Nielsen,
    1999). A rejected trial counts as a step.

    Parameters
    ----------
    n_steps, tolerance, gradient_tolerance
        As for `GaussNewton`.
    step_tolerance : float
        Converged once no parameter of a step changes by more than this.
    damping : float
        mu at the start.

    Examples
    --------
    >>> from duotomo.solvers import LevenbergMarquardt
    >>> LevenbergMarquardt(n_steps=5).damping
    0.001
    """

    step_tolerance: float = 0.0
    damping: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tolerances("LevenbergMarquardt", step_tolerance=self.step_tolerance, damping=self.damping)

    @torch.no_grad()
    def minimise(
        self,
        objective: FewParameters,
        start: torch.Tensor,
        *,
        on_step: OnStep | None = None,
    ) -> Solution:
        """Minimise an objective of few parameters from an initial guess.

        A trial costs a value, an accepted one the normal equations as well.

        Parameters
        ----------
        objective : FewParameters
            What is minimised.
        start : torch.Tensor
            Initial guess, (n,), float64 on the CPU, n at most `FEW_PARAMS`; left as it is.
        on_step : callable, optional
            Called with each `Step`.
        """
        progress = self._progress(objective, on_step)
        x = _check(start, objective)
        value, gradient, matrix = objective.normal_equations(x)
        if solution := progress.begin(x, value, norm(gradient)):
            return solution
        damping, growth, n_rejected = self.damping, 2.0, 0
        while progress.goes_on:
            step = _step(gradient, matrix, damping)
            decrease = -float(gradient @ step + step @ matrix @ step / 2)
            if n_rejected == 0 and decrease <= rounding(x) * abs(value):
                return progress.at_rounding(x)
            trial = x + step
            trial_value = objective.value(trial)
            ratio = (value - trial_value) / decrease
            if ratio > 0:
                trial_value, trial_gradient, trial_matrix = objective.normal_equations(trial)
                known = torch.cat([trial_gradient, trial_matrix.flatten()])
                finite = math.isfinite(trial_value) and bool(torch.isfinite(known).all())
            else:
                finite = math.isfinite(trial_value)
            if not (finite and ratio > 0):
                n_rejected += 1
                damping, growth = max(damping, _FIRST_DAMPING) * growth, 2 * growth
                progress.reject()
                if n_rejected == _MOST_REJECTIONS:
                    return progress.stuck(x, n_rejected, finite=finite)
                continue
            damping, growth = damping * max(1 / 3, 1 - (2 * ratio - 1) ** 3), 2.0
            x, value, gradient, matrix = trial, trial_value, trial_gradient, trial_matrix
            if solution := progress.advance(x, value, norm(gradient), 1.0, held_back=n_rejected > 0):
                return solution
            if n_rejected == 0 and float(step.abs().max()) <= self.step_tolerance:
                reason = f"A step changed no parameter by more than {self.step_tolerance:g}."
                return progress.stop(x, Status.CONVERGED, reason)
            n_rejected = 0
        return progress.out_of_steps(x)


def _check(start: torch.Tensor, objective: FewParameters) -> torch.Tensor:
    where = "LevenbergMarquardt.minimise"
    x = check_start(where, start, objective.shape)
    if x.ndim != 1 or not 0 < len(x) <= FEW_PARAMS:
        raise ShapeError(
            f"{where}: expected start (parameter,) with 1 to {FEW_PARAMS} parameters; got shape "
            f"{tuple(x.shape)}. Use GaussNewton, which needs no matrix."
        )
    if x.dtype != torch.float64 or x.device.type != "cpu":
        raise DtypeError(
            f"{where}: expected start of torch.float64 on the CPU; got {x.dtype} on {x.device}. "
            f"Use start.double().cpu()."
        )
    return x


def _step(gradient: torch.Tensor, matrix: torch.Tensor, damping: float) -> torch.Tensor:
    diagonal = matrix.diagonal()
    # In units in which the diagonal is one, mu diag(H) is mu times the identity; no influence, any unit.
    unit = torch.where(diagonal > 0, diagonal, 1.0).rsqrt()
    values, vectors = torch.linalg.eigh(unit[:, None] * matrix * unit)
    # What no combination of parameters determines is left where it is.
    known = values > len(values) * torch.finfo(torch.float64).eps * values.max()
    inverse = torch.where(known, 1 / torch.where(known, values + damping, 1.0), 0.0)
    step: torch.Tensor = -unit * (vectors @ (inverse * (vectors.T @ (unit * gradient))))
    return step
