"""L-BFGS: over how many steps the tolerance is judged, and who else may end a run."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.solvers import Lbfgs, Status
from tests.cases.solvers import linear, rosenbrock

DOUBLE = torch.float64


def test_one_short_step_does_not_end_a_run_with_a_window() -> None:
    """Rosenbrock's valley is entered in one step; the steps along it are many, and some lower little."""
    tolerance, window = 0.03, 10
    problem = rosenbrock(DOUBLE)
    hasty, patient = (
        Lbfgs(n_steps=300, tolerance=tolerance, window=n).minimise(problem.objective, problem.start)
        for n in (1, window)
    )
    assert hasty.status is Status.CONVERGED
    assert hasty.history[-1].objective > 0.1
    assert patient.history[-1].objective < 1e-3 * hasty.history[-1].objective


@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_it_ends_with_the_first_window_that_lowers_too_little(window: int, tolerance: float) -> None:
    problem = linear(12, 9, spread=300.0, noise=0.1)(DOUBLE)
    solution = Lbfgs(n_steps=300, tolerance=tolerance, window=window, gradient_tolerance=0.0).minimise(
        problem.objective, problem.start
    )
    values = [step.objective for step in solution.history]
    falls = [(before - after) / before for before, after in zip(values, values[window:], strict=False)]
    if window > 1:
        # The first steps know little of the curvature: nothing is judged by them.
        falls = falls[Lbfgs(n_steps=1).memory :]
    assert all(fall > tolerance * window for fall in falls[:-1])
    assert falls[-1] <= tolerance * window
    each = "A step" if window == 1 else f"On average each of {window} steps"
    assert solution.reason == f"{each} lowered the objective by no more than {tolerance:g} of it."
    assert solution.status is Status.CONVERGED


def test_what_has_come_to_rest_ends_the_run() -> None:
    problem = rosenbrock(DOUBLE)
    seen: list[torch.Tensor] = []

    def at_rest(x: torch.Tensor) -> bool:
        seen.append(x.clone())
        return len(seen) == 5

    solution = Lbfgs(n_steps=100).minimise(problem.objective, problem.start, at_rest=at_rest)
    assert (solution.status, solution.n_steps) == (Status.CONVERGED, 5)
    assert solution.reason == "What was to be found has come to rest."
    # It is asked after every step, with where that led.
    assert torch.equal(seen[-1], solution.value)
    assert all(not torch.equal(a, b) for a, b in pairwise(seen))


def test_never_at_rest_changes_nothing() -> None:
    problem = rosenbrock(DOUBLE)
    plain = Lbfgs(n_steps=100).minimise(problem.objective, problem.start)
    asked = Lbfgs(n_steps=100).minimise(problem.objective, problem.start, at_rest=lambda x: False)
    assert torch.equal(plain.value, asked.value)
    assert (plain.status, plain.reason, plain.n_steps) == (asked.status, asked.reason, asked.n_steps)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_has_steps(window: int) -> None:
    with pytest.raises(DuotomoError, match=f"Lbfgs: expected window >= 1; got {window}"):
        Lbfgs(n_steps=1, window=window)
