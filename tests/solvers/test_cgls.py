"""Laws of CGLS: the least-squares solution, optimality of each step, warm starts, and its statuses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, NonFiniteError, ShapeError
from duotomo.objectives import ProjectionMisfit
from duotomo.solvers import Cgls, Status, Step
from tests.solvers.dense import Dense


def problem(seed: int, m: int = 12, n: int = 7, rank: int | None = None) -> tuple[Dense, torch.Tensor]:
    """Return a random matrix with singular values from 1 to 3 (zero beyond `rank`) and random data."""
    generator = torch.Generator().manual_seed(seed)
    u, _, vt = torch.linalg.svd(
        torch.randn(m, n, generator=generator, dtype=torch.float64), full_matrices=False
    )
    values = torch.linspace(1, 3, min(m, n), dtype=torch.float64)
    if rank is not None:
        values[rank:] = 0
    data = torch.randn(m, generator=generator, dtype=torch.float64)
    return Dense(u @ torch.diag(values) @ vt), data


def residual_norm(operator: Dense, x: torch.Tensor, data: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(data - operator.matrix @ x))


SEEDS = st.integers(0, 2**16)


@given(seed=SEEDS, shape=st.sampled_from([(12, 7), (7, 7), (5, 9)]))
def test_it_reaches_the_least_squares_solution_of_least_norm(seed: int, shape: tuple[int, int]) -> None:
    operator, data = problem(seed, *shape)
    expected = torch.linalg.pinv(operator.matrix) @ data
    solution = Cgls(n_steps=3 * max(shape), tolerance=1e-12).minimise(ProjectionMisfit(operator, data))
    assert solution.status is Status.CONVERGED
    torch.testing.assert_close(solution.value, expected, rtol=1e-9, atol=1e-9)


@given(seed=SEEDS, rank=st.integers(1, 5))
def test_it_reaches_the_solution_of_least_norm_of_a_singular_matrix(seed: int, rank: int) -> None:
    operator, data = problem(seed, rank=rank)
    expected = torch.linalg.pinv(operator.matrix, rtol=1e-8) @ data
    solution = Cgls(n_steps=20, tolerance=1e-12).minimise(ProjectionMisfit(operator, data))
    torch.testing.assert_close(solution.value, expected, rtol=1e-9, atol=1e-9)


@given(seed=SEEDS, n_steps=st.integers(1, 6))
def test_every_step_is_that_of_lsqr(seed: int, n_steps: int) -> None:
    # LSQR and CGLS produce the same iterates in exact arithmetic (Paige and Saunders, 1982).
    operator, data = problem(seed)
    expected = scipy.sparse.linalg.lsqr(
        operator.matrix.numpy(), data.numpy(), atol=0, btol=0, conlim=0, iter_lim=n_steps
    )[0]
    solution = Cgls(n_steps=n_steps).minimise(ProjectionMisfit(operator, data))
    np.testing.assert_allclose(solution.value.numpy(), expected, rtol=1e-8, atol=1e-8)


@given(seed=SEEDS, n_steps=st.integers(1, 5))
def test_each_step_is_the_best_of_its_krylov_space(seed: int, n_steps: int) -> None:
    operator, data = problem(seed)
    column, basis = operator.matrix.T @ data, []
    for _ in range(n_steps):
        basis.append(column / torch.linalg.vector_norm(column))
        column = operator.matrix.T @ (operator.matrix @ basis[-1])
    space, _ = torch.linalg.qr(torch.stack(basis, dim=1))
    best = space @ torch.linalg.lstsq(operator.matrix @ space, data[:, None]).solution[:, 0]
    solution = Cgls(n_steps=n_steps).minimise(ProjectionMisfit(operator, data))
    assert residual_norm(operator, solution.value, data) == pytest.approx(
        residual_norm(operator, best, data), rel=1e-9
    )


@given(seed=SEEDS)
def test_residual_never_grows_and_history_tells_the_truth(seed: int) -> None:
    operator, data = problem(seed)
    seen: list[Step] = []
    solution = Cgls(n_steps=6).minimise(ProjectionMisfit(operator, data), on_step=seen.append)
    norms = [step.objective for step in solution.history]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(norms))
    assert len(solution.history) == solution.n_steps + 1
    assert tuple(seen) == solution.history[1:]
    last, residual = solution.history[-1], data - operator.matrix @ solution.value
    assert last.objective == pytest.approx(float(residual @ residual) / 2, rel=1e-9)
    normal = float(torch.linalg.vector_norm(operator.matrix.T @ residual))
    assert last.gradient_norm == pytest.approx(normal, rel=1e-6, abs=1e-9)
    assert last.applications == operator.applications


@given(seed=SEEDS, n_steps=st.integers(1, 6))
def test_warm_start_solves_for_what_is_left(seed: int, n_steps: int) -> None:
    operator, data = problem(seed)
    start = torch.randn(7, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    before = start.clone()
    warm = Cgls(n_steps=n_steps).minimise(ProjectionMisfit(operator, data), start)
    cold = Cgls(n_steps=n_steps).minimise(ProjectionMisfit(operator, data - operator.matrix @ start))
    torch.testing.assert_close(warm.value, start + cold.value, rtol=1e-9, atol=1e-9)
    assert torch.equal(start, before)


def test_the_solution_is_a_start_with_nothing_to_do() -> None:
    operator, data = problem(0)
    solver = Cgls(n_steps=20, tolerance=1e-10)
    found = solver.minimise(ProjectionMisfit(operator, data))
    again = solver.minimise(ProjectionMisfit(operator, data), found.value)
    assert (again.status, again.n_steps) == (Status.CONVERGED, 0)
    assert again.history[0].applications == 3
    assert torch.equal(again.value, found.value)


def test_zero_data_give_zero_at_once() -> None:
    operator, data = problem(0)
    solution = Cgls(n_steps=5).minimise(ProjectionMisfit(operator, torch.zeros_like(data)))
    assert (solution.status, solution.n_steps) == (Status.CONVERGED, 0)
    assert torch.count_nonzero(solution.value) == 0


def test_scaled_data_scale_the_solution() -> None:
    operator, data = problem(0)
    one, three = (
        Cgls(n_steps=4).minimise(ProjectionMisfit(operator, scale * data)).value for scale in (1.0, 3.0)
    )
    torch.testing.assert_close(three, 3 * one, rtol=1e-12, atol=1e-12)


def test_steps_that_run_out_are_a_status() -> None:
    operator, data = problem(0)
    solution = Cgls(n_steps=2).minimise(ProjectionMisfit(operator, data))
    assert (solution.status, solution.n_steps) == (Status.STEP_LIMIT, 2)


def test_an_adjoint_that_is_none_is_a_breakdown_with_the_last_value() -> None:
    class NotAdjoint(Dense):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * super().forward(x)

    operator, data = problem(0)
    solution = Cgls(n_steps=5).minimise(ProjectionMisfit(NotAdjoint(operator.matrix), data))
    assert (solution.status, solution.n_steps) == (Status.BREAKDOWN, 0)
    assert torch.count_nonzero(solution.value) == 0


@pytest.mark.parametrize("n_good", [1, 2, 3, 4, 5])
def test_an_operator_that_gives_nan_ends_the_run_at_the_last_good_value(n_good: int) -> None:
    operator, data = problem(0)
    solution = Cgls(n_steps=5).minimise(ProjectionMisfit(Dense(operator.matrix, spoiled=n_good), data))
    assert (solution.status, solution.n_steps) == (Status.DIVERGED, (n_good - 1) // 2)
    assert "not finite any more" in solution.reason
    expected = torch.zeros(7, dtype=torch.float64)
    if solution.n_steps > 0:
        expected = Cgls(n_steps=solution.n_steps).minimise(ProjectionMisfit(operator, data)).value
    assert torch.equal(solution.value, expected)


def test_seconds_and_step_lengths_are_told() -> None:
    operator, data = problem(0)
    history = Cgls(n_steps=4).minimise(ProjectionMisfit(operator, data)).history
    assert all(later.seconds > earlier.seconds for earlier, later in pairwise(history))
    assert history[0].step_size == 0 < min(step.step_size for step in history[1:])


def test_float32_stays_float32_and_data_are_left_alone() -> None:
    operator, data = problem(0)
    single, before = data.float(), data.float()
    solution = Cgls(n_steps=5).minimise(ProjectionMisfit(Dense(operator.matrix.float()), single))
    assert solution.value.dtype == torch.float32
    assert torch.equal(single, before)


@pytest.mark.parametrize("n_steps", [0, -1])
def test_no_steps_are_refused(n_steps: int) -> None:
    with pytest.raises(DuotomoError, match="Cgls: expected n_steps >= 1"):
        Cgls(n_steps=n_steps)


@pytest.mark.parametrize("tolerance", [-1e-3, float("nan"), float("inf")])
def test_impossible_tolerance_is_refused(tolerance: float) -> None:
    with pytest.raises(DuotomoError, match="Cgls: expected tolerance >= 0 and finite"):
        Cgls(n_steps=1, tolerance=tolerance)


def test_data_and_start_that_do_not_fit_are_refused() -> None:
    operator, data = problem(0)
    solver = Cgls(n_steps=1)
    with pytest.raises(ShapeError, match=r"ProjectionMisfit: expected data \(row\) = \(12,\); got \(7,\)"):
        solver.minimise(ProjectionMisfit(operator, data[:7]))
    with pytest.raises(NonFiniteError, match=r"ProjectionMisfit: expected data to be finite"):
        solver.minimise(ProjectionMisfit(operator, data * float("nan")))
    with pytest.raises(ShapeError, match=r"Cgls\.minimise: expected start \(column\) = \(7,\); got \(12,\)"):
        solver.minimise(ProjectionMisfit(operator, data), data)
    with pytest.raises(DtypeError, match=r"Cgls\.minimise: expected start of torch.float64"):
        solver.minimise(ProjectionMisfit(operator, data), torch.zeros(7))


@given(seed=SEEDS)
def test_weights_are_those_of_a_scaled_problem(seed: int) -> None:
    operator, data = problem(seed)
    weights = torch.rand(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = torch.linalg.pinv(weights.sqrt()[:, None] * operator.matrix) @ (weights.sqrt() * data)
    misfit = ProjectionMisfit(operator, data, weights)
    solution = Cgls(n_steps=40, tolerance=1e-13).minimise(misfit)
    torch.testing.assert_close(solution.value, expected, rtol=1e-6, atol=1e-6)
    assert solution.history[-1].objective == pytest.approx(misfit.value(solution.value), rel=1e-6)


def test_another_objective_is_refused() -> None:
    operator, data = problem(0)
    misfit = ProjectionMisfit(operator, data)
    with pytest.raises(DuotomoError, match=r"Cgls\.minimise: expected a ProjectionMisfit; got Sum\(shape="):
        Cgls(n_steps=1).minimise(misfit + misfit)  # type: ignore[arg-type]
