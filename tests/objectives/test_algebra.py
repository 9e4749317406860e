"""Sums, multiples and stretches of objectives, the cost they count, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import Objective, ProjectionMisfit, Smoothness, Tikhonov
from duotomo.objectives.embedded import Embedded
from duotomo.objectives.objective import Sum, Weighted
from duotomo.operators import Weighting
from duotomo.operators.counted import Counted
from tests.cases.transforms import REFERENCE, normal


class Fixed(Objective):
    """The same value everywhere, and no curvature."""

    shape = (3,)

    def __init__(self, value: float) -> None:
        self.fixed = value

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        return self.fixed, torch.zeros_like(x)


ZERO, ONE = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)


def misfit(operator: Counted) -> ProjectionMisfit:
    return ProjectionMisfit(operator, normal(operator.range, seed=2))


def counted() -> Counted:
    return Counted(Weighting(normal((3,), seed=1)))


def test_a_shared_operator_counts_once() -> None:
    shared, other = counted(), counted()
    total = misfit(shared) + 2.0 * misfit(shared) + misfit(other)
    assert total.applications == 0
    total.value(ZERO)
    # Two terms apply the shared operator once each, the third its own.
    assert (shared.applications, other.applications, total.applications) == (2, 1, 3)
    total.value_and_gradient(ZERO)
    assert total.applications == 3 + 6
    total.curvature(ZERO)(ONE)
    assert total.applications == 3 + 6 + 6


def test_operators_of_equal_cost_are_not_taken_for_one() -> None:
    total = misfit(counted()) + misfit(counted())
    total.value(ZERO)
    assert total.applications == 2


def test_counting_twice_is_avoided() -> None:
    operator = counted()
    assert misfit(operator).operator is operator
    assert Counted.of(operator) is operator


def test_sums_are_taken_apart() -> None:
    a, b, c = Fixed(1.0), Fixed(2.0), Fixed(4.0)
    assert ((a + b) + c).terms == (a, b, c)
    assert (a + (b + c)).value(torch.zeros(3)) == 7.0


@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_what_is_undefined_stays_undefined(factor: float) -> None:
    # Zero times infinity is NaN, which a solver would take for a failure.
    nowhere = factor * Fixed(math.inf)
    assert nowhere.value(torch.zeros(3)) == math.inf
    assert (nowhere + Fixed(1.0)).value_and_gradient(torch.zeros(3))[0] == math.inf


def test_whole_numbers_are_factors_too() -> None:
    assert (3 * Fixed(2.0)).value(torch.zeros(3)) == 6.0


def test_other_things_are_neither_added_nor_multiplied() -> None:
    with pytest.raises(TypeError):
        _ = Fixed(1.0) + 1.0  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = "2" * Fixed(1.0)  # type: ignore[operator]


def test_an_objective_without_curvature_says_so() -> None:
    with pytest.raises(DuotomoError, match="Fixed: expected an objective with a curvature; got one that has"):
        Fixed(1.0).curvature(torch.zeros(3))


@pytest.mark.parametrize("factor", [-1.0, math.inf, math.nan])
def test_factors_are_finite_and_not_negative(factor: float) -> None:
    with pytest.raises(DuotomoError, match="Weighted: expected a finite factor >= 0; got"):
        Weighted(factor, Fixed(1.0))


def test_an_empty_sum() -> None:
    with pytest.raises(ShapeError, match="Sum: expected at least one objective; got none"):
        Sum()


def test_a_sum_of_different_shapes() -> None:
    with pytest.raises(
        ShapeError, match=r"Sum: expected objectives of one shape; got \[\(3,\), \(6, 7, 9\)\]"
    ):
        _ = Fixed(1.0) + Tikhonov(REFERENCE)


def test_a_stretch_sees_its_elements_only() -> None:
    prior, x = Smoothness(REFERENCE), normal((REFERENCE.n_voxels + 5,), seed=4)
    part = Embedded(prior, length=len(x), start=2)
    f = x[2:-3].reshape(REFERENCE.shape)
    value, gradient = part.value_and_gradient(x)
    assert value == prior.value(f) == part.value(x)
    assert torch.equal(gradient[2:-3].reshape(REFERENCE.shape), prior.value_and_gradient(f)[1])
    assert torch.count_nonzero(gradient[:2]) == torch.count_nonzero(gradient[-3:]) == 0
    curved = part.curvature(x)(x)
    assert torch.equal(curved[2:-3].reshape(REFERENCE.shape), prior.curvature(f)(f))
    assert torch.count_nonzero(curved[:2]) == torch.count_nonzero(curved[-3:]) == 0


@pytest.mark.parametrize("start", [-1, 3])
def test_a_stretch_beyond_the_row(start: int) -> None:
    prior = Tikhonov(VolumeGrid.on_detector((1, 1, 2), (1.0, 1.0, 1.0)))
    with pytest.raises(
        ShapeError, match=rf"Embedded: expected .* within a row of 4; got elements {start} to"
    ):
        Embedded(prior, length=4, start=start)
