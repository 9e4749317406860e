"""Laws of the primal-dual solver: closed forms, optimality, scaling, and its statuses."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import Nonnegativity, ProjectionMisfit, TotalVariation
from duotomo.operators import Weighting
from duotomo.solvers import Cgls, Lbfgs, PrimalDual, Status, Step
from tests.solvers.dense import Dense

GRID = VolumeGrid.on_detector((3, 4, 5), (1.5, 1.0, 0.8))


def identity(shape: tuple[int, ...]) -> Weighting:
    return Weighting(torch.ones(shape, dtype=torch.float64))


def blurred(m: int = 70, seed: int = 2) -> tuple[Dense, torch.Tensor]:
    """Return a matrix without negative entries on GRID, and noisy data of a box."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.rand(m, GRID.n_voxels, generator=generator, dtype=torch.float64) ** 4
    truth = torch.zeros(GRID.shape, dtype=torch.float64)
    truth[1:, 1:3, 1:4] = 1.0
    noise = 0.1 * torch.randn(m, generator=generator, dtype=torch.float64)
    return Dense(matrix, GRID.shape), matrix @ truth.reshape(-1) + noise


def exact(operator: Dense, data: torch.Tensor, x: torch.Tensor, tv_weight: float) -> float:
    prior = TotalVariation(GRID, smoothing=1e-12)
    return ProjectionMisfit(operator, data).value(x) + tv_weight * prior.value(x)


# Few examples: each is some hundred steps.
@settings(max_examples=15)
@given(
    axis=st.integers(0, 2),
    n_low=st.integers(1, 5),
    n_high=st.integers(1, 5),
    tv_weight=st.floats(0.01, 0.4),
    depth_weight=st.sampled_from([1.0, 0.7]),
)
def test_a_step_shrinks_by_the_weight_over_the_length(
    axis: int, n_low: int, n_high: int, tv_weight: float, depth_weight: float
) -> None:
    # On a row, each level of |x - b|^2 / 2 + w |x_high - x_low| moves by w / (its number of voxels).
    n, spacing_mm = n_low + n_high, (1.5, 1.0, 0.8)
    shape = tuple(n if i == axis else 1 for i in range(3))
    grid = VolumeGrid.on_detector(shape, spacing_mm)
    data = torch.tensor([1.0] * n_low + [3.0] * n_high, dtype=torch.float64).reshape(shape)
    solution = PrimalDual(n_steps=3000, tolerance=1e-6).solve(
        identity(shape), data, tv_weight=tv_weight, grid=grid, depth_weight=depth_weight
    )
    slope = tv_weight * 0.8 / spacing_mm[axis] * (depth_weight if axis == 0 else 1.0)
    levels = [1.0 + slope / n_low] * n_low + [3.0 - slope / n_high] * n_high
    assert solution.status is Status.CONVERGED
    torch.testing.assert_close(solution.value.reshape(-1), data.new_tensor(levels), rtol=1e-4, atol=1e-4)


def test_a_large_weight_leaves_the_mean() -> None:
    data = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = PrimalDual(n_steps=5000, tolerance=1e-7).solve(
        identity(GRID.shape), data, tv_weight=100.0, grid=GRID
    )
    torch.testing.assert_close(solution.value, data.mean().expand(GRID.shape), rtol=1e-4, atol=1e-4)


def test_negative_data_give_zero() -> None:
    data = -torch.ones(GRID.shape, dtype=torch.float64)
    solution = PrimalDual(n_steps=500).solve(identity(GRID.shape), data, tv_weight=0.1, grid=GRID)
    assert solution.status is Status.CONVERGED
    assert torch.count_nonzero(solution.value) == 0


def test_without_a_weight_it_is_least_squares() -> None:
    # The least-squares solution is positive here, so that the bound is not active.
    operator, _ = blurred(m=90)
    data = (
        operator.matrix.sum(1) + 0.02 * torch.randn(90, generator=torch.Generator().manual_seed(1)).double()
    )
    expected = Cgls(n_steps=200, tolerance=1e-12).solve(operator, data).value
    assert float(expected.min()) > 0
    solution = PrimalDual(n_steps=20000, tolerance=1e-7).solve(operator, data, tv_weight=0.0, grid=GRID)
    torch.testing.assert_close(solution.value, expected, rtol=1e-3, atol=1e-3)


def test_it_is_what_smoothed_variation_tends_to() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=5000, tolerance=1e-6).solve(operator, data, tv_weight=0.3, grid=GRID)
    objective = (
        ProjectionMisfit(operator, data)
        + 0.3 * TotalVariation(GRID, smoothing=1e-4)
        + 1e4 * Nonnegativity(GRID)
    )
    peer = Lbfgs(n_steps=4000, memory=20, tolerance=1e-14).minimise(
        objective, torch.full_like(solution.value, 0.3)
    )
    assert solution.status is Status.CONVERGED
    assert float(solution.value.min()) >= 0
    torch.testing.assert_close(solution.value, peer.value, rtol=5e-3, atol=5e-3)
    found = exact(operator, data, solution.value, 0.3)
    assert solution.history[-1].objective == pytest.approx(found, rel=1e-9)
    assert found <= exact(operator, data, peer.value.clamp_min(0), 0.3) * (1 + 1e-4)


def test_no_neighbour_is_better() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=3000, tolerance=1e-6).solve(operator, data, tv_weight=0.3, grid=GRID)
    least = exact(operator, data, solution.value, 0.3)
    for seed in range(100):
        draw = torch.randn(GRID.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for size in (1e-3, 1e-1):
            other = (solution.value + size * draw).clamp_min(0)
            assert exact(operator, data, other, 0.3) >= least


@pytest.mark.parametrize(("data_scale", "weights_scale"), [(1e3, 1.0), (1.0, 1e4), (1e-2, 1e-3)])
def test_units_do_not_matter(data_scale: float, weights_scale: float) -> None:
    operator, data = blurred()
    solver, ones = PrimalDual(n_steps=100, tolerance=0.0), torch.ones_like(data)
    one = solver.solve(operator, data, tv_weight=0.3, grid=GRID, weights=ones)
    other = solver.solve(
        operator,
        data_scale * data,
        tv_weight=0.3 * data_scale * weights_scale,
        grid=GRID,
        weights=weights_scale * ones,
    )
    torch.testing.assert_close(other.value, data_scale * one.value, rtol=1e-6, atol=1e-9 * data_scale)
    plain = solver.solve(operator, data, tv_weight=0.3, grid=GRID)
    assert torch.equal(plain.value, one.value)


def test_a_weight_of_zero_leaves_a_ray_out() -> None:
    operator, data = blurred()
    weights = torch.ones_like(data)
    weights[::7] = 0.0
    kept = weights > 0
    solver = PrimalDual(n_steps=4000, tolerance=1e-7)
    spoiled = torch.where(kept, data, data.new_tensor(1e3))
    one = solver.solve(operator, spoiled, tv_weight=0.3, grid=GRID, weights=weights)
    other = solver.solve(Dense(operator.matrix[kept], GRID.shape), data[kept], tv_weight=0.3, grid=GRID)
    torch.testing.assert_close(one.value, other.value, rtol=1e-3, atol=1e-3)


def test_a_solution_is_a_good_start() -> None:
    operator, data = blurred()
    solver = PrimalDual(n_steps=3000, tolerance=1e-5)
    cold = solver.solve(operator, data, tv_weight=0.3, grid=GRID)
    before = cold.value.clone()
    warm = solver.solve(operator, data, tv_weight=0.3, grid=GRID, start=cold.value)
    assert warm.history[0].objective == pytest.approx(cold.history[-1].objective, rel=1e-12)
    torch.testing.assert_close(warm.value, cold.value, rtol=1e-2, atol=1e-2)
    assert torch.equal(cold.value, before)
    short = PrimalDual(n_steps=10, tolerance=0.0)
    ends = [
        short.solve(operator, data, tv_weight=0.3, grid=GRID, start=start).history[-1].objective
        for start in (None, cold.value)
    ]
    assert ends[1] < ends[0]


def test_the_history_tells_the_truth() -> None:
    operator, data = blurred()
    seen: list[Step] = []
    solution = PrimalDual(n_steps=7, tolerance=0.0).solve(
        operator, data, tv_weight=0.3, grid=GRID, on_step=seen.append
    )
    assert (solution.status, solution.n_steps) == (Status.STEP_LIMIT, 7)
    assert tuple(seen) == solution.history[1:]
    # Row sums, column sums and the gradient at zero; then two in each step.
    assert [step.applications for step in solution.history] == [3 + 2 * k for k in range(8)]
    assert solution.history[-1].applications == operator.applications
    assert solution.history[0].objective == pytest.approx(float(data @ data) / 2)
    assert solution.history[-1].objective == pytest.approx(exact(operator, data, solution.value, 0.3))


def test_float32_stays_float32() -> None:
    operator, data = blurred()
    single = Dense(operator.matrix.float(), GRID.shape)
    solver = PrimalDual(n_steps=2000, tolerance=1e-4)
    solution = solver.solve(single, data.float(), tv_weight=0.3, grid=GRID)
    assert (solution.status, solution.value.dtype) == (Status.CONVERGED, torch.float32)
    expected = solver.solve(operator, data, tv_weight=0.3, grid=GRID).value
    torch.testing.assert_close(solution.value.double(), expected, rtol=1e-2, atol=1e-2)


def test_zero_data_give_zero() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=5).solve(operator, torch.zeros_like(data), tv_weight=0.3, grid=GRID)
    assert solution.status is Status.CONVERGED
    assert torch.count_nonzero(solution.value) == 0


@pytest.mark.parametrize("n_good", [3, 4, 5, 6])
def test_an_operator_that_gives_nan_ends_the_run_at_the_last_good_value(n_good: int) -> None:
    operator, data = blurred()
    spoiled = Dense(operator.matrix, GRID.shape, spoiled=n_good)
    solution = PrimalDual(n_steps=9).solve(spoiled, data, tv_weight=0.3, grid=GRID)
    assert (solution.status, solution.n_steps) == (Status.DIVERGED, (n_good - 3) // 2)
    assert "not finite any more" in solution.reason
    assert bool(torch.isfinite(solution.value).all())


def test_bad_settings_are_refused() -> None:
    with pytest.raises(DuotomoError, match="PrimalDual: expected n_steps >= 1"):
        PrimalDual(n_steps=0)
    with pytest.raises(DuotomoError, match="PrimalDual: expected tolerance >= 0 and finite"):
        PrimalDual(n_steps=1, tolerance=-1.0)


def test_bad_input_is_refused() -> None:
    operator, data = blurred()
    solver = PrimalDual(n_steps=1)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(DuotomoError, match=r"PrimalDual\.solve: expected tv_weight >= 0 and finite"):
            solver.solve(operator, data, tv_weight=bad, grid=GRID)
    with pytest.raises(DuotomoError, match=r"PrimalDual\.solve: expected a finite depth_weight >= 0"):
        solver.solve(operator, data, tv_weight=1.0, grid=GRID, depth_weight=-1.0)
    other = VolumeGrid.on_detector((5, 4, 3), (1.0, 1.0, 1.0))
    with pytest.raises(ShapeError, match=r"expected an operator on volumes \(z, y, x\) = \(5, 4, 3\)"):
        solver.solve(operator, data, tv_weight=1.0, grid=other)
    with pytest.raises(ShapeError, match=r"PrimalDual\.solve: expected data \(row\) = \(70,\); got \(7,\)"):
        solver.solve(operator, data[:7], tv_weight=1.0, grid=GRID)
    with pytest.raises(NonFiniteError, match=r"PrimalDual\.solve: expected data to be finite"):
        solver.solve(operator, data * math.nan, tv_weight=1.0, grid=GRID)
    with pytest.raises(ShapeError, match=r"PrimalDual\.solve: expected weights \(row\) = \(70,\)"):
        solver.solve(operator, data, tv_weight=1.0, grid=GRID, weights=data[:7])
    with pytest.raises(DuotomoError, match=r"PrimalDual\.solve: expected weights >= 0; got -1"):
        solver.solve(operator, data, tv_weight=1.0, grid=GRID, weights=-torch.ones_like(data))
    with pytest.raises(DtypeError, match=r"PrimalDual\.solve: expected start of torch.float64"):
        solver.solve(operator, data, tv_weight=1.0, grid=GRID, start=torch.zeros(GRID.shape))
