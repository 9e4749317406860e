"""Laws of the line search: the strong Wolfe conditions, on whatever curve they can be met."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError
from duotomo.objectives import Objective
from duotomo.solvers.line_search import Found, NotFound, StrongWolfe


class Curve(Objective):
    """A function of one number, as an objective."""

    shape = (1,)

    def __init__(self, value: Callable[[float], float], slope: Callable[[float], float]) -> None:
        self.at, self.slope, self.trials = value, slope, list[float]()

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        self.trials.append(float(x))
        return self.at(float(x)), x.new_tensor([self.slope(float(x))])


# Functions with a minimum to the right of zero, where they fall (More and Thuente, 1994, and plainer ones).
CURVES = {
    "parabola": (lambda t: (t - 2) ** 2, lambda t: 2 * (t - 2)),
    "quartic": (lambda t: (t - 1) ** 4, lambda t: 4 * (t - 1) ** 3),
    "More-Thuente 1": (lambda t: -t / (t**2 + 2), lambda t: (t**2 - 2) / (t**2 + 2) ** 2),
    "More-Thuente 2": (
        lambda t: (t + 0.004) ** 5 - 2 * (t + 0.004) ** 4,
        lambda t: 5 * (t + 0.004) ** 4 - 8 * (t + 0.004) ** 3,
    ),
    "wavy": (
        lambda t: (t - 3) ** 2 - 0.5 * math.sin(5 * t),
        lambda t: 2 * (t - 3) - 2.5 * math.cos(5 * t),
    ),
}


def search(curve: Curve, rule: StrongWolfe, first: float, scale: float = 1.0) -> Found | NotFound:
    x, direction = torch.zeros(1, dtype=torch.float64), torch.full((1,), scale, dtype=torch.float64)
    value, gradient = curve.value_and_gradient(x)
    curve.trials.clear()
    return rule.search(curve, x, direction, value=value, gradient=gradient, first=first)


@given(
    name=st.sampled_from(sorted(CURVES)),
    first=st.floats(1e-3, 1e3),
    curvature=st.floats(0.05, 0.9),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
)
# The minimum lies ten orders of magnitude below the start, whose rounding is nothing beside its own.
@example(name="More-Thuente 2", first=260.0, curvature=0.0625, scale=0.01)
def test_the_step_meets_the_strong_wolfe_conditions(
    name: str, first: float, curvature: float, scale: float
) -> None:
    curve = Curve(*CURVES[name])
    rule = StrongWolfe(curvature=curvature, decrease=1e-3, n_evaluations=60)
    found = search(curve, rule, first / scale, scale)
    assert isinstance(found, Found)
    start, slope = curve.at(0.0), curve.slope(0.0)
    at = float(found.x)
    assert at == pytest.approx(found.step * scale)
    assert (found.value, float(found.gradient)) == (curve.at(at), curve.slope(at))
    assert found.value <= start + 1e-3 * at * slope + 1e-14 * abs(start)
    assert abs(curve.slope(at)) <= curvature * abs(slope)
    assert found.n_evaluations == len(curve.trials)


def test_a_first_step_that_is_good_is_taken_at_once() -> None:
    found = search(Curve(*CURVES["parabola"]), StrongWolfe(), 1.9)
    assert isinstance(found, Found)
    assert (found.step, found.n_evaluations) == (1.9, 1)


def test_a_parabola_needs_one_interpolation() -> None:
    found = search(Curve(*CURVES["parabola"]), StrongWolfe(curvature=1e-3), 3.7)
    assert isinstance(found, Found)
    assert found.step == pytest.approx(2.0)
    assert found.n_evaluations == 2


@given(bad=st.sampled_from([math.nan, math.inf]), edge=st.floats(2.01, 3.0), first=st.floats(3.01, 1e3))
def test_what_is_not_finite_is_too_far(bad: float, edge: float, first: float) -> None:
    value, slope = CURVES["parabola"]
    curve = Curve(lambda t: value(t) if t < edge else bad, slope)
    found = search(curve, StrongWolfe(), first)
    assert isinstance(found, Found)
    assert 0 < found.step < edge


def test_evaluations_that_run_out_leave_the_lowest_trial() -> None:
    curve = Curve(lambda t: -t, lambda t: -1.0)
    found = search(curve, StrongWolfe(n_evaluations=5), 1.0)
    assert isinstance(found, Found)
    assert found.step == max(curve.trials)
    assert found.n_evaluations == 5


def test_no_lower_point_is_a_failure() -> None:
    lying = Curve(lambda t: t, lambda t: -1.0)
    assert search(lying, StrongWolfe(), 1.0) == NotFound(n_evaluations=20, finite=True)
    nowhere = Curve(lambda t: 0.0 if t == 0 else math.nan, lambda t: -1.0)
    assert search(nowhere, StrongWolfe(), 1.0) == NotFound(n_evaluations=20, finite=False)


def test_a_direction_that_does_not_lead_down_is_a_failure_at_once() -> None:
    curve = Curve(*CURVES["parabola"])
    assert search(curve, StrongWolfe(), 1.0, scale=-1.0) == NotFound(n_evaluations=0, finite=True)
    assert curve.trials == []


@pytest.mark.parametrize(("decrease", "curvature"), [(0.0, 0.9), (0.5, 0.4), (1e-4, 1.0), (math.nan, 0.9)])
def test_impossible_conditions_are_refused(decrease: float, curvature: float) -> None:
    with pytest.raises(DuotomoError, match="StrongWolfe: expected 0 < decrease < curvature < 1"):
        StrongWolfe(decrease=decrease, curvature=curvature)


def test_no_evaluations_are_refused() -> None:
    with pytest.raises(DuotomoError, match="StrongWolfe: expected n_evaluations >= 1"):
        StrongWolfe(n_evaluations=0)
