"""Line searches: how far to go along a direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from duotomo.errors import DuotomoError
from duotomo.objectives.norms import Scalar, floats, scalar
from duotomo.solvers._checks import check_counts, rounding

if TYPE_CHECKING:
    from duotomo.objectives import Objective


@dataclass(frozen=True, kw_only=True)
class Found:
    """A point along the direction: `x = start + step * direction`, with what the objective is there."""

    step: float
    x: torch.Tensor
    value: float
    gradient: torch.Tensor
    n_evaluations: int


@dataclass(frozen=True, kw_only=True)
class NotFound:
    """No lower point was met. finite: whether the last trial was finite."""

    n_evaluations: int
    finite: bool


@dataclass(frozen=True, kw_only=True)
class StrongWolfe:
    """Find a step a that meets the strong Wolfe conditions, `phi(a) = F(x + a d)`.

        phi(a) <= phi(0) + decrease a phi'(0)    and    |phi'(a)| <= curvature |phi'(0)|

    Trials grow until they enclose such a step, then close in on it by cubic interpolation (Nocedal and
    Wright, Numerical Optimization, 3.5). A value or gradient that is not finite counts as too far. Values
    are compared up to rounding, so that near a minimum the slopes decide. If the evaluations run out, the
    lowest trial serves, provided it lies below the start.

    Parameters
    ----------
    decrease, curvature : float
        Of the conditions, `0 < decrease < curvature < 1`.
    n_evaluations : int
        Of value and gradient, at most.

    Raises
    ------
    DuotomoError
        If the settings are none of these.

    Examples
    --------
    >>> StrongWolfe(curvature=0.1)
    StrongWolfe(decrease=0.0001, curvature=0.1, n_evaluations=20)
    """

    decrease: float = 1e-4
    curvature: float = 0.9
    n_evaluations: int = 20

    def __post_init__(self) -> None:
        check_counts("StrongWolfe", n_evaluations=self.n_evaluations)
        if not 0 < self.decrease < self.curvature < 1:
            raise DuotomoError(
                f"StrongWolfe: expected 0 < decrease < curvature < 1; got {self.decrease} and "
                f"{self.curvature}. Use 1e-4 and 0.9, or 0.1 for conjugate gradients."
            )

    def search(
        self,
        objective: Objective,
        x: torch.Tensor,
        direction: torch.Tensor,
        *,
        value: float,
        gradient: torch.Tensor,
        first: float,
    ) -> Found | NotFound:
        """Search for a step size along a direction.

        Parameters
        ----------
        objective : Objective
            What is minimised.
        x, direction : torch.Tensor
            Where to start and where to go, of the objective's shape.
        value, gradient : float, torch.Tensor
            Those of the objective at x.
        first : float
            Step size to try first.

        Returns
        -------
        Found or NotFound
            The point found with its value and gradient, or that no lower point was met.
        """
        pending = scalar(torch.dot(gradient.reshape(-1), direction.reshape(-1)))
        if not 0 < first < math.inf or (isinstance(pending, float) and not pending < 0):
            finite = math.isfinite(first) and math.isfinite(pending)
            return NotFound(n_evaluations=0, finite=finite)
        # On a GPU the slope arrives with the first trial.
        trial, slope = _evaluate(objective, x, direction, first, pending)
        if not slope < 0:
            return NotFound(n_evaluations=1, finite=math.isfinite(slope))
        slack = rounding(x) * abs(value)
        low = _Point(step=0.0, value=value, slope=slope, gradient=gradient)
        high: _Point | None = None
        step, n_evaluations, done = first, 0, False
        while n_evaluations < self.n_evaluations and not done:
            if n_evaluations:
                trial, _ = _evaluate(objective, x, direction, step)
            n_evaluations += 1
            enough = value + self.decrease * step * slope + slack
            # Far below the start, values have the rounding of their own size.
            near = max(slack, rounding(x) * abs(low.value))
            if not trial.finite or trial.value > enough or trial.value > low.value + near:
                high = trial
            else:
                done = abs(trial.slope) <= -self.curvature * slope
                # Slope away from the other end: the minimum lies between the trial and the point before it.
                if trial.slope * ((math.inf if high is None else high.step) - low.step) >= 0:
                    high = low
                low = trial
            step = 4 * trial.step if high is None else _between(low, high, near)
        if not done and not (low.step > 0 and low.value < value):
            return NotFound(n_evaluations=n_evaluations, finite=trial.finite)
        return Found(
            step=low.step,
            x=torch.add(x, direction, alpha=low.step),
            value=low.value,
            gradient=low.gradient,
            n_evaluations=n_evaluations,
        )


@dataclass(frozen=True, kw_only=True)
class _Point:
    step: float
    value: float
    slope: float
    gradient: torch.Tensor

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and math.isfinite(self.slope)


def _evaluate(
    objective: Objective, x: torch.Tensor, direction: torch.Tensor, step: float, other: Scalar = 0.0
) -> tuple[_Point, float]:
    """Return the point at a step, and another number as a float: all that is waited for at once."""
    pending, gradient = objective.evaluate(torch.add(x, direction, alpha=step))
    along = scalar(torch.dot(gradient.reshape(-1), direction.reshape(-1)))
    value, slope, known = floats(pending, along, other)
    return _Point(step=step, value=value, slope=slope, gradient=gradient), known


def _between(low: _Point, high: _Point, slack: float) -> float:
    """Return the minimiser of the cubic through both ends, kept away from them."""
    width = high.step - low.step
    middle = low.step + width / 2
    if not high.finite:
        return low.step + width / 10
    if abs(high.value - low.value) <= slack:
        # The values differ by rounding only: the root of the line through the slopes.
        bend = high.slope - low.slope
        guess = low.step - low.slope * width / bend if bend != 0 else middle
    else:
        first = low.slope + high.slope - 3 * (high.value - low.value) / width
        second_sq = first * first - low.slope * high.slope
        second = math.copysign(math.sqrt(second_sq), width) if 0 <= second_sq < math.inf else math.nan
        bend = high.slope - low.slope + 2 * second
        guess = high.step - width * (high.slope + second - first) / bend if bend != 0 else middle
    nearest, farthest = sorted((low.step + width / 10, high.step - width / 10))
    return min(max(guess, nearest), farthest) if math.isfinite(guess) else middle
