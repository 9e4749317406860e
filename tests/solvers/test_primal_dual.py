"""Laws of the primal-dual solver: closed forms, optimality, scaling, and its statuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import Nonnegativity, Objective, ProjectionMisfit, TotalVariation
from duotomo.operators import LinearOperator, Weighting
from duotomo.solvers import Cgls, Lbfgs, PrimalDual, Status, Step
from duotomo.solvers.iterate import Iterate
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


def objective(
    operator: LinearOperator,
    data: torch.Tensor,
    tv_weight: float,
    *,
    grid: VolumeGrid = GRID,
    weights: torch.Tensor | None = None,
    depth_weight: float = 1.0,
) -> Objective:
    """Return what the solver minimises."""
    variation = TotalVariation(grid, depth_weight=depth_weight)
    return ProjectionMisfit(operator, data, weights) + tv_weight * variation


def exact(operator: Dense, data: torch.Tensor, x: torch.Tensor, tv_weight: float) -> float:
    return objective(operator, data, tv_weight).value(x)


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
    solution = PrimalDual(n_steps=3000, tolerance=1e-6).minimise(
        objective(identity(shape), data, tv_weight, grid=grid, depth_weight=depth_weight)
    )
    slope = tv_weight * 0.8 / spacing_mm[axis] * (depth_weight if axis == 0 else 1.0)
    levels = [1.0 + slope / n_low] * n_low + [3.0 - slope / n_high] * n_high
    assert solution.status is Status.CONVERGED
    torch.testing.assert_close(solution.value.reshape(-1), data.new_tensor(levels), rtol=1e-4, atol=1e-4)


def test_a_large_weight_leaves_the_mean() -> None:
    data = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solution = PrimalDual(n_steps=5000, tolerance=1e-7).minimise(objective(identity(GRID.shape), data, 100.0))
    torch.testing.assert_close(solution.value, data.mean().expand(GRID.shape), rtol=1e-4, atol=1e-4)


def test_negative_data_give_zero() -> None:
    data = -torch.ones(GRID.shape, dtype=torch.float64)
    solution = PrimalDual(n_steps=500).minimise(objective(identity(GRID.shape), data, 0.1))
    assert solution.status is Status.CONVERGED
    assert torch.count_nonzero(solution.value) == 0


def test_without_a_weight_it_is_least_squares() -> None:
    # The least-squares solution is positive here, so that the bound is not active.
    operator, _ = blurred(m=90)
    data = (
        operator.matrix.sum(1) + 0.02 * torch.randn(90, generator=torch.Generator().manual_seed(1)).double()
    )
    expected = Cgls(n_steps=200, tolerance=1e-12).minimise(ProjectionMisfit(operator, data)).value
    assert float(expected.min()) > 0
    solution = PrimalDual(n_steps=20000, tolerance=1e-7).minimise(objective(operator, data, 0.0))
    torch.testing.assert_close(solution.value, expected, rtol=1e-3, atol=1e-3)


def test_it_is_what_smoothed_variation_tends_to() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=5000, tolerance=1e-6).minimise(objective(operator, data, 0.3))
    smoothed = (
        ProjectionMisfit(operator, data)
        + 0.3 * TotalVariation(GRID, smoothing=1e-4)
        + 1e4 * Nonnegativity(GRID)
    )
    peer = Lbfgs(n_steps=4000, memory=20, tolerance=1e-14).minimise(
        smoothed, torch.full_like(solution.value, 0.3)
    )
    assert solution.status is Status.CONVERGED
    assert float(solution.value.min()) >= 0
    torch.testing.assert_close(solution.value, peer.value, rtol=5e-3, atol=5e-3)
    found = exact(operator, data, solution.value, 0.3)
    assert solution.history[-1].objective == pytest.approx(found, rel=1e-9)
    assert found <= exact(operator, data, peer.value.clamp_min(0), 0.3) * (1 + 1e-4)


def test_no_neighbour_is_better() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=3000, tolerance=1e-6).minimise(objective(operator, data, 0.3))
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
    one = solver.minimise(objective(operator, data, 0.3, weights=ones))
    other = solver.minimise(
        objective(
            operator,
            data_scale * data,
            0.3 * data_scale * weights_scale,
            weights=weights_scale * ones,
        )
    )
    torch.testing.assert_close(other.value, data_scale * one.value, rtol=1e-6, atol=1e-9 * data_scale)
    plain = solver.minimise(objective(operator, data, 0.3))
    assert torch.equal(plain.value, one.value)


def test_a_weight_of_zero_leaves_a_ray_out() -> None:
    operator, data = blurred()
    weights = torch.ones_like(data)
    weights[::7] = 0.0
    kept = weights > 0
    solver = PrimalDual(n_steps=4000, tolerance=1e-7)
    spoiled = torch.where(kept, data, data.new_tensor(1e3))
    one = solver.minimise(objective(operator, spoiled, 0.3, weights=weights))
    other = solver.minimise(objective(Dense(operator.matrix[kept], GRID.shape), data[kept], 0.3))
    torch.testing.assert_close(one.value, other.value, rtol=1e-3, atol=1e-3)


def test_a_solution_is_a_good_start() -> None:
    operator, data = blurred()
    solver = PrimalDual(n_steps=3000, tolerance=1e-5)
    cold = solver.minimise(objective(operator, data, 0.3))
    before = cold.value.clone()
    warm = solver.minimise(objective(operator, data, 0.3), cold.value)
    assert warm.history[0].objective == pytest.approx(cold.history[-1].objective, rel=1e-12)
    torch.testing.assert_close(warm.value, cold.value, rtol=1e-2, atol=1e-2)
    assert torch.equal(cold.value, before)
    short = PrimalDual(n_steps=10, tolerance=0.0)
    ends = [
        short.minimise(objective(operator, data, 0.3), start).history[-1].objective
        for start in (None, cold.value)
    ]
    assert ends[1] < ends[0]


def test_the_history_tells_the_truth() -> None:
    operator, data = blurred()
    seen: list[Step] = []
    solution = PrimalDual(n_steps=7, tolerance=0.0).minimise(
        objective(operator, data, 0.3), on_step=seen.append
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
    solution = solver.minimise(objective(single, data.float(), 0.3))
    assert (solution.status, solution.value.dtype) == (Status.CONVERGED, torch.float32)
    expected = solver.minimise(objective(operator, data, 0.3)).value
    torch.testing.assert_close(solution.value.double(), expected, rtol=1e-2, atol=1e-2)


def test_zero_data_give_zero() -> None:
    operator, data = blurred()
    solution = PrimalDual(n_steps=5).minimise(objective(operator, torch.zeros_like(data), 0.3))
    assert solution.status is Status.CONVERGED
    assert torch.count_nonzero(solution.value) == 0


@pytest.mark.parametrize("n_good", [3, 4, 5, 6])
def test_an_operator_that_gives_nan_ends_the_run_at_the_last_good_value(n_good: int) -> None:
    operator, data = blurred()
    spoiled = Dense(operator.matrix, GRID.shape, spoiled=n_good)
    solution = PrimalDual(n_steps=9).minimise(objective(spoiled, data, 0.3))
    assert (solution.status, solution.n_steps) == (Status.DIVERGED, (n_good - 3) // 2)
    assert "not finite any more" in solution.reason
    assert bool(torch.isfinite(solution.value).all())


def test_bad_settings_are_refused() -> None:
    with pytest.raises(DuotomoError, match="PrimalDual: expected n_steps >= 1"):
        PrimalDual(n_steps=0)
    with pytest.raises(DuotomoError, match="PrimalDual: expected tolerance >= 0 and finite"):
        PrimalDual(n_steps=1, tolerance=-1.0)


def test_the_order_and_the_factors_of_the_terms_do_not_matter() -> None:
    operator, data = blurred()
    misfit, variation = ProjectionMisfit(operator, data), TotalVariation(GRID)
    solver = PrimalDual(n_steps=5)
    one = solver.minimise(misfit + 0.5 * variation).value
    assert torch.equal(solver.minimise(0.25 * (2.0 * variation) + misfit).value, one)


def test_another_objective_is_refused() -> None:
    operator, data = blurred()
    misfit, variation = ProjectionMisfit(operator, data), TotalVariation(GRID)
    solver = PrimalDual(n_steps=1)
    expected = r"PrimalDual\.minimise: expected the sum of a misfit and a total variation; got .* of {} terms"
    with pytest.raises(DuotomoError, match=expected.format(1)):
        solver.minimise(misfit)
    with pytest.raises(DuotomoError, match=expected.format(3)):
        solver.minimise(misfit + variation + Nonnegativity(GRID))
    with pytest.raises(
        DuotomoError, match=r"PrimalDual\.minimise: expected a ProjectionMisfit; got Weighted"
    ):
        solver.minimise(2.0 * misfit + variation)
    expected = r"expected a TotalVariation without smoothing, .*; got Nonnegativity\(shape="
    with pytest.raises(DuotomoError, match=expected):
        solver.minimise(misfit + Nonnegativity(GRID))
    expected = r"expected a TotalVariation without smoothing, .*; got TotalVariation\(.*, smoothing=0\.1"
    with pytest.raises(DuotomoError, match=expected):
        solver.minimise(misfit + TotalVariation(GRID, 0.1))


def test_a_start_that_does_not_fit_is_refused() -> None:
    operator, data = blurred()
    solver, goal = PrimalDual(n_steps=1), objective(operator, data, 1.0)
    with pytest.raises(DtypeError, match=r"PrimalDual\.minimise: expected start of torch.float64"):
        solver.minimise(goal, torch.zeros(GRID.shape))
    with pytest.raises(
        ShapeError, match=r"PrimalDual\.minimise: expected start \(.*\) = \(3, 4, 5\); got \(5, 4"
    ):
        solver.minimise(goal, torch.zeros(5, 4, 3, dtype=torch.float64))


class _Kept:
    """Holds one iterate."""

    every = 1

    def __init__(self) -> None:
        self.iterate: Iterate | None = None

    def load(self) -> Iterate | None:
        return self.iterate

    def save(self, iterate: Iterate) -> None:
        self.iterate = iterate


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda one: {"tensors": {}}, r"expected tensors of the shapes .* in the checkpoint; got \{\}"),
        (
            lambda one: {"tensors": {**one.tensors, "p": torch.zeros(2)}},
            "expected tensors of the shapes .* in the checkpoint",
        ),
        (lambda one: {"numbers": ()}, "expected two numbers, and the steps so far .* got 0 numbers"),
        (
            lambda one: {"history": ()},
            "expected two numbers, and the steps so far .* got 2 numbers and 0 steps",
        ),
        (lambda one: {"numbers": (1.0, -1.0)}, "expected step sizes above 0, and finite tensors"),
        (lambda one: {"numbers": (float("nan"), 1.0)}, "expected step sizes above 0, and finite tensors"),
        (
            lambda one: {"tensors": {**one.tensors, "x": one.tensors["x"] * float("nan")}},
            "expected step sizes above 0, and finite tensors",
        ),
    ],
)
def test_iterates_of_another_run_are_refused(change: Callable[[Iterate], Any], match: str) -> None:
    kept, misfit = _Kept(), objective(*blurred(), 0.3)
    PrimalDual(n_steps=3).minimise(misfit, store=kept)
    assert kept.iterate is not None
    kept.iterate = replace(kept.iterate, **change(kept.iterate))
    with pytest.raises(DuotomoError, match=match):
        PrimalDual(n_steps=5).minimise(misfit, store=kept)
