"""The laws of a solver, for every solver of objectives and every known minimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import torch

from duotomo.errors import DtypeError, DuotomoError, NonFiniteError, ShapeError
from duotomo.solvers import LevenbergMarquardt, Status, Step
from tests.cases.solvers import Problem, Solver, problems, rosenbrock, solvers

Build = Callable[[torch.dtype], Problem]
Make = Callable[..., Solver]

each_problem = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in problems()])
each_solver = pytest.mark.parametrize("make", [pytest.param(m, id=name) for name, m in solvers()])
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])

TIGHT = {"tolerance": 0.0, "gradient_tolerance": 1e-12}


def skip_if_not_for(make: Make, dtype: torch.dtype) -> None:
    if make is LevenbergMarquardt and dtype is not torch.float64:
        pytest.skip("Levenberg-Marquardt works in float64 only")


@each_dtype
@each_solver
@each_problem
def test_it_finds_the_minimum(build: Build, make: Make, dtype: torch.dtype) -> None:
    skip_if_not_for(make, dtype)
    problem = build(dtype)
    before = problem.start.clone()
    solution = make(n_steps=2000, **TIGHT).minimise(problem.objective, problem.start)
    assert solution.value.dtype == dtype
    assert torch.equal(problem.start, before)
    objective, epsilon = problem.objective, torch.finfo(dtype).eps
    least = objective.value(problem.minimiser)
    excess = objective.value(solution.value) - least
    assert excess <= 20 * epsilon * (objective.value(problem.start) - least)
    # In single precision a badly conditioned minimum is flat far around.
    if dtype is torch.float64:
        torch.testing.assert_close(solution.value, problem.minimiser, rtol=1e-5, atol=1e-5)


@each_solver
@each_problem
def test_easy_problems_converge_with_the_usual_settings(build: Build, make: Make) -> None:
    problem = build(torch.float64)
    solution = make(n_steps=2000).minimise(problem.objective, problem.start)
    assert solution.status is Status.CONVERGED
    assert solution.reason.endswith(".")
    least = problem.objective.value(problem.minimiser)
    assert solution.history[-1].objective - least < 1e-3 * (solution.history[0].objective - least)


@each_dtype
@each_solver
@each_problem
def test_the_objective_never_grows_and_the_history_tells_the_truth(
    build: Build, make: Make, dtype: torch.dtype
) -> None:
    skip_if_not_for(make, dtype)
    problem, seen = build(dtype), list[Step]()
    solution = make(n_steps=40).minimise(problem.objective, problem.start, on_step=seen.append)
    history = solution.history
    assert len(history) == solution.n_steps + 1 > 1
    assert tuple(seen) == history[1:]
    for earlier, later in pairwise(history):
        assert later.objective <= earlier.objective * (1 + 20 * torch.finfo(dtype).eps)
        assert later.applications > earlier.applications
        assert later.seconds > earlier.seconds
        assert (later.step_size > 0) or later.objective == earlier.objective
    assert 0 < history[0].applications <= history[-1].applications <= problem.objective.applications
    value, gradient = problem.objective.value_and_gradient(solution.value)
    assert history[-1].objective == value
    assert history[-1].gradient_norm == float(torch.linalg.vector_norm(gradient, dtype=torch.float64))


@each_solver
def test_steps_that_run_out_are_a_status(make: Make) -> None:
    problem = rosenbrock(torch.float64)
    solution = make(n_steps=2, **TIGHT).minimise(problem.objective, problem.start)
    assert (solution.status, solution.n_steps) == (Status.STEP_LIMIT, 2)
    assert solution.reason == "The limit of 2 steps was reached."


@each_solver
def test_a_run_goes_on_from_where_another_stopped(make: Make) -> None:
    problem = rosenbrock(torch.float64)
    half = make(n_steps=5, **TIGHT).minimise(problem.objective, problem.start)
    rest = make(n_steps=500, **TIGHT).minimise(problem.objective, half.value)
    assert rest.history[0].objective == half.history[-1].objective
    # The second run counts its own applications only.
    assert rest.history[0].applications == 2
    torch.testing.assert_close(rest.value, problem.minimiser, rtol=1e-6, atol=1e-6)


@each_solver
def test_the_minimum_is_a_start_with_nothing_to_do(make: Make) -> None:
    problem = rosenbrock(torch.float64)
    solution = make(n_steps=5).minimise(problem.objective, problem.minimiser)
    assert (solution.status, solution.n_steps) == (Status.CONVERGED, 0)
    assert torch.equal(solution.value, problem.minimiser)


@pytest.mark.parametrize("n_good", [1, 2, 5, 9])
@each_solver
def test_nan_ends_the_run_at_the_last_good_value(make: Make, n_good: int) -> None:
    problem = rosenbrock(torch.float64)
    problem.objective.spoiled = n_good
    solution = make(n_steps=200, **TIGHT).minimise(problem.objective, problem.start)
    assert solution.status is Status.DIVERGED
    assert solution.reason.endswith("did not reach a finite objective.")
    assert all(math.isfinite(step.objective) for step in solution.history)
    problem.objective.spoiled = math.inf
    assert problem.objective.value(solution.value) == solution.history[-1].objective


@each_solver
def test_nan_at_the_start_is_a_status(make: Make) -> None:
    problem = rosenbrock(torch.float64)
    problem.objective.spoiled = 0
    solution = make(n_steps=5).minimise(problem.objective, problem.start)
    assert (solution.status, solution.n_steps) == (Status.DIVERGED, 0)
    assert "at the start" in solution.reason
    assert torch.equal(solution.value, problem.start)


@each_solver
def test_a_region_without_values_is_left_alone(make: Make) -> None:
    # As where a transform leaves the grid: shorter steps are tried.
    problem = rosenbrock(torch.float64)
    plain = problem.objective.residual
    problem.objective.residual = lambda x: plain(x) if x[1] < 1.2 else x.new_full((2,), math.inf)
    solution = make(n_steps=1000, **TIGHT).minimise(problem.objective, problem.start)
    torch.testing.assert_close(solution.value, problem.minimiser, rtol=1e-6, atol=1e-6)


@each_solver
@each_problem
def test_scipy_finds_the_same_minimum(build: Build, make: Make) -> None:
    problem = build(torch.float64)

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = problem.objective.value_and_gradient(torch.from_numpy(x))
        return value, gradient.numpy()

    peer = scipy.optimize.minimize(
        value_and_gradient, problem.start.numpy(), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    solution = make(n_steps=2000, **TIGHT).minimise(problem.objective, problem.start)
    np.testing.assert_allclose(solution.value.numpy(), peer.x, rtol=1e-5, atol=1e-5)


@each_solver
def test_bad_settings_are_refused(make: Make) -> None:
    with pytest.raises(DuotomoError, match="expected n_steps >= 1; got 0"):
        make(n_steps=0)
    for name in ("tolerance", "gradient_tolerance"):
        for bad in (-1e-3, math.nan, math.inf):
            with pytest.raises(DuotomoError, match=f"expected {name} >= 0 and finite"):
                make(n_steps=1, **{name: bad})


@each_solver
def test_a_start_that_does_not_fit_is_refused(make: Make) -> None:
    problem, solver = rosenbrock(torch.float64), make(n_steps=1)
    with pytest.raises(ShapeError, match=r"minimise: expected start \(axis 0\) = \(2,\); got \(3,\)"):
        solver.minimise(problem.objective, torch.zeros(3, dtype=torch.float64))
    with pytest.raises(NonFiniteError, match="minimise: expected start to be finite"):
        solver.minimise(problem.objective, problem.start * math.nan)
    with pytest.raises(DtypeError, match=r"minimise: expected start of torch.float32 or torch.float64"):
        solver.minimise(problem.objective, torch.zeros(2, dtype=torch.int64))
