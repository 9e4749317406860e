"""What is particular to Gauss-Newton, to Levenberg-Marquardt, and to the conjugate directions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, ShapeError
from duotomo.solvers import (
    GaussNewton,
    Lbfgs,
    LevenbergMarquardt,
    NonlinearCg,
    Status,
    hager_zhang,
    polak_ribiere,
)
from duotomo.solvers._damped_cg import newton_step
from tests.cases.solvers import LeastSquares, linear, rosenbrock


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(n: int, seed: int) -> torch.Tensor:
    matrix = draw(n, n, seed=seed)
    return matrix @ matrix.T + 0.1 * torch.eye(n, dtype=torch.float64)


SEEDS = st.integers(0, 2**16)


@given(seed=SEEDS, damping=st.sampled_from([0.0, 0.3, 10.0]), preconditioned=st.booleans())
def test_the_newton_step_solves_the_damped_system(seed: int, damping: float, preconditioned: bool) -> None:
    hessian, gradient = positive(6, seed), draw(6, seed=seed + 1)
    m = positive(6, seed + 2) if preconditioned else torch.eye(6, dtype=torch.float64)
    inverse = torch.linalg.inv(m)
    step = newton_step(
        gradient,
        lambda d: hessian @ d,
        precondition=(lambda r: inverse @ r) if preconditioned else None,
        damping=damping,
        n_steps=60,
        tolerance=1e-13,
    )
    assert step is not None
    search = inverse @ gradient
    mu = damping * (search @ hessian @ search) / (search @ m @ search)
    expected = -torch.linalg.solve(hessian + mu * m, gradient)
    torch.testing.assert_close(step.direction, expected, rtol=1e-6, atol=1e-8)
    model = gradient @ expected + expected @ hessian @ expected / 2
    assert step.decrease == pytest.approx(-float(model), rel=1e-6)


@given(seed=SEEDS, n_steps=st.integers(1, 4), damping=st.sampled_from([0.0, 0.5]))
def test_a_truncated_newton_step_knows_its_decrease(seed: int, n_steps: int, damping: float) -> None:
    hessian, gradient = positive(6, seed), draw(6, seed=seed + 1)
    weights = draw(6, seed=seed + 2).abs() + 0.5
    step = newton_step(
        gradient,
        lambda d: hessian @ d,
        precondition=lambda r: weights * r,
        damping=damping,
        n_steps=n_steps,
        tolerance=0.0,
    )
    assert step is not None
    d = step.direction
    assert step.decrease == pytest.approx(-float(gradient @ d + d @ hessian @ d / 2), rel=1e-8)


def test_a_perfect_preconditioner_needs_one_product() -> None:
    problem = linear(12, 9, spread=300.0, noise=0.1)(torch.float64)
    matrix = problem.objective.jacobian(problem.start)
    inverse = torch.linalg.inv(matrix.T @ matrix)
    asked: list[torch.Tensor] = []

    def precondition(x: torch.Tensor):  # type: ignore[no-untyped-def]
        asked.append(x)
        return lambda r: inverse @ r

    solution = GaussNewton(n_steps=1, inner_steps=1).minimise(
        problem.objective, problem.start, precondition=precondition
    )
    torch.testing.assert_close(solution.value, problem.minimiser, rtol=1e-6, atol=1e-6)
    assert problem.objective.n_products == 1
    assert len(asked) == 1


def test_gauss_newton_evaluates_once_per_step() -> None:
    problem = rosenbrock(torch.float64)
    solution = GaussNewton(n_steps=30, inner_steps=5).minimise(problem.objective, problem.start)
    assert problem.objective.n_evaluations == solution.n_steps + 1
    assert any(step.step_size == 0 for step in solution.history[1:])


def test_damping_shortens_the_first_step() -> None:
    lengths = []
    for damping in (0.0, 1.0, 100.0):
        problem = linear(12, 9, spread=3.0, noise=0.1)(torch.float64)
        solver = GaussNewton(n_steps=1, inner_steps=20, damping=damping)
        lengths.append(float(solver.minimise(problem.objective, problem.start).value.norm()))
    assert lengths[0] > 1.5 * lengths[1] > 15 * lengths[2] > 0


def test_gauss_newton_without_curvature_breaks_down() -> None:
    flat = LeastSquares(2, lambda x: x + 1, lambda x: torch.eye(2, dtype=torch.float64))
    flat.curvature = lambda x: torch.zeros_like  # type: ignore[method-assign]
    solution = GaussNewton(n_steps=3, inner_steps=3).minimise(flat, torch.zeros(2, dtype=torch.float64))
    assert (solution.status, solution.n_steps) == (Status.BREAKDOWN, 0)
    assert "curvature is not positive" in solution.reason


@pytest.mark.parametrize(
    "solver",
    [
        GaussNewton(n_steps=50, inner_steps=3),
        Lbfgs(n_steps=50),
        NonlinearCg(n_steps=50),
        LevenbergMarquardt(n_steps=50),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_a_gradient_of_the_wrong_sign_breaks_down(
    solver: GaussNewton | Lbfgs | NonlinearCg | LevenbergMarquardt,
) -> None:
    lying = LeastSquares(2, lambda x: x + 1, lambda x: -torch.eye(2, dtype=torch.float64))
    solution = solver.minimise(lying, torch.zeros(2, dtype=torch.float64))
    assert solution.status is Status.BREAKDOWN
    assert solution.reason.endswith("did not lower the objective.")
    assert torch.count_nonzero(solution.value) == 0


@given(seed=SEEDS, units=st.lists(st.sampled_from([1e-3, 1.0, 1e3]), min_size=4, max_size=4))
def test_levenberg_marquardt_does_not_depend_on_units(seed: int, units: list[float]) -> None:
    matrix, data, scale = draw(7, 4, seed=seed), draw(7, seed=seed + 1), torch.tensor(units).double()
    solver, start = LevenbergMarquardt(n_steps=1, damping=0.5), torch.zeros(4, dtype=torch.float64)
    one = solver.minimise(LeastSquares(4, lambda x: matrix @ x - data, lambda x: matrix), start)
    scaled = matrix * scale
    other = solver.minimise(LeastSquares(4, lambda x: scaled @ x - data, lambda x: scaled), start)
    torch.testing.assert_close(other.value * scale, one.value, rtol=1e-6, atol=1e-9)


def test_levenberg_marquardt_leaves_a_parameter_without_influence_alone() -> None:
    matrix, data = draw(7, 4, seed=3), draw(7, seed=4)
    matrix[:, 2] = 0.0
    objective = LeastSquares(4, lambda x: matrix @ x - data, lambda x: matrix)
    start = torch.full((4,), 5.0, dtype=torch.float64)
    solution = LevenbergMarquardt(n_steps=50, damping=0.0).minimise(objective, start)
    assert solution.status is Status.CONVERGED
    assert float(solution.value[2]) == 5.0
    expected = torch.linalg.pinv(matrix) @ data
    torch.testing.assert_close(solution.value[[0, 1, 3]], expected[[0, 1, 3]], rtol=1e-6, atol=1e-6)


def test_levenberg_marquardt_stops_at_small_steps() -> None:
    problem = rosenbrock(torch.float64)
    solver = LevenbergMarquardt(n_steps=100, tolerance=0.0, gradient_tolerance=0.0, step_tolerance=1e-3)
    solution = solver.minimise(problem.objective, problem.start)
    assert solution.status is Status.CONVERGED
    assert solution.reason == "A step changed no parameter by more than 0.001."
    torch.testing.assert_close(solution.value, problem.minimiser, rtol=1e-3, atol=1e-3)


def test_levenberg_marquardt_refuses_what_it_is_not_made_for() -> None:
    solver = LevenbergMarquardt(n_steps=1)
    many = LeastSquares(65, lambda x: x, lambda x: torch.eye(65))
    with pytest.raises(ShapeError, match=r"expected start .* with 1 to 64 parameters; got shape \(65,\)"):
        solver.minimise(many, torch.zeros(65, dtype=torch.float64))
    problem = rosenbrock(torch.float64)
    with pytest.raises(DtypeError, match=r"expected start of torch.float64 on the CPU; got torch.float32"):
        solver.minimise(problem.objective, problem.start.float())


@given(seed=SEEDS)
def test_on_a_parabola_both_betas_are_that_of_linear_conjugate_gradients(seed: int) -> None:
    # After an exact step along -g, both give |g_new|^2 / |g|^2 (Fletcher and Reeves).
    hessian, before = positive(5, seed), draw(5, seed=seed + 1)
    step = (before @ before) / (before @ hessian @ before)
    gradient = before - step * hessian @ before
    expected = float((gradient @ gradient) / (before @ before))
    assert polak_ribiere(gradient, before, -before) == pytest.approx(expected, rel=1e-6)
    assert hager_zhang(gradient, before, -before) == pytest.approx(expected, rel=1e-6)


def test_betas_of_a_gradient_that_did_not_change_start_again() -> None:
    gradient = torch.tensor([1.0, 2.0])
    assert polak_ribiere(gradient, gradient, -gradient) == 0
    assert hager_zhang(gradient, gradient, -gradient) == 0


@pytest.mark.parametrize("make", [Lbfgs, NonlinearCg])
@pytest.mark.parametrize("first_step", [0.0, -1.0, math.nan, math.inf])
def test_impossible_first_step_is_refused(make: type[Lbfgs | NonlinearCg], first_step: float) -> None:
    with pytest.raises(DuotomoError, match=f"{make.__name__}: expected first_step > 0 and finite"):
        make(n_steps=1, first_step=first_step)


def test_other_bad_settings_are_refused() -> None:
    with pytest.raises(DuotomoError, match="Lbfgs: expected memory >= 1"):
        Lbfgs(n_steps=1, memory=0)
    with pytest.raises(DuotomoError, match="GaussNewton: expected inner_steps >= 1"):
        GaussNewton(n_steps=1, inner_steps=0)
    with pytest.raises(DuotomoError, match="GaussNewton: expected damping >= 0 and finite"):
        GaussNewton(n_steps=1, inner_steps=1, damping=-1.0)
    with pytest.raises(DuotomoError, match="GaussNewton: expected inner_tolerance >= 0 and finite"):
        GaussNewton(n_steps=1, inner_steps=1, inner_tolerance=math.inf)
    with pytest.raises(DuotomoError, match="LevenbergMarquardt: expected step_tolerance >= 0 and finite"):
        LevenbergMarquardt(n_steps=1, step_tolerance=-1.0)


def test_the_first_step_sets_the_length_of_the_first_trial() -> None:
    for make in (Lbfgs, NonlinearCg):
        objective, seen = linear(6, 6, spread=3.0, noise=0.0)(torch.float64).objective, list[torch.Tensor]()
        residual = objective.residual
        objective.residual = lambda x, seen=seen, residual=residual: seen.append(x) or residual(x)
        make(n_steps=1, first_step=0.25).minimise(objective, torch.zeros(6, dtype=torch.float64))
        assert float(seen[1].norm()) == pytest.approx(0.25)
