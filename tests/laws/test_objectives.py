"""The laws of an objective, for every objective there is."""

from __future__ import annotations

import math
import pickle

import pytest
import torch

from duotomo.errors import DtypeError, ShapeError
from tests.cases.objectives import ObjectiveCase, objectives
from tests.cases.transforms import normal

each_case = pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in objectives()])

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DOUBLE = torch.float64


def along(case: ObjectiveCase, seed: int = 70) -> torch.Tensor:
    """Return a direction, as long as where to look is."""
    d = normal(tuple(case.at.shape), seed=seed)
    return d * (case.at.norm() / d.norm())


def inner(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a.flatten().double() @ b.flatten().double())


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected.double()).norm() / expected.double().norm())


@each_case
def test_what_the_gradient_leaves_is_of_second_order(case: ObjectiveCase) -> None:
    # |F(x + h d) - F(x) - h <g, d>| = O(h^2); a gradient that is a little wrong leaves O(h).
    objective, x, d = case.build(DOUBLE, "cpu"), case.start(), along(case)
    value, gradient = objective.value_and_gradient(x)
    left = [abs(objective.value(x + h * d) - value - h * inner(gradient, d)) for h in (4e-5, 2e-5, 1e-5)]
    slopes = [math.log2(left[i] / left[i + 1]) for i in range(2)]
    assert all(1.8 < slope < 2.2 for slope in slopes), (left, slopes)


@each_case
def test_the_value_is_the_same_with_and_without_the_gradient(case: ObjectiveCase) -> None:
    objective, x = case.build(DOUBLE, "cpu"), case.start()
    value, gradient = objective.value_and_gradient(x)
    assert value == pytest.approx(objective.value(x), rel=1e-13)
    assert isinstance(value, float)
    assert isinstance(objective.value(x), float)
    assert (gradient.shape, gradient.dtype, gradient.device) == (x.shape, x.dtype, x.device)
    assert value > 0
    assert float(gradient.norm()) > 0


@each_case
def test_a_gradient_that_is_added_is_the_gradient(case: ObjectiveCase) -> None:
    objective, x, there = case.build(DOUBLE, "cpu"), case.start(), along(case)
    value, gradient = objective.value_and_gradient(x)
    pending, same = objective.evaluate(x)
    assert float(pending) == value
    assert torch.equal(same, gradient)
    total = there.clone()
    assert float(objective.add_gradient(x, total, 1.5)) == value
    assert relative(total, there + 1.5 * gradient) < 1e-14


@each_case
def test_the_argument_stays_and_results_are_new(case: ObjectiveCase) -> None:
    objective, x, d = case.build(DOUBLE, "cpu"), case.start(), along(case)
    kept, kept_d = x.clone(), d.clone()
    value, gradient = objective.value_and_gradient(x)
    product = objective.curvature(x)
    curved = product(d)
    first, first_curved = gradient.clone(), curved.clone()
    gradient.fill_(torch.nan)
    curved.fill_(torch.nan)
    assert torch.equal(x, kept)
    assert torch.equal(d, kept_d)
    again, gradient_again = objective.value_and_gradient(x)
    assert again == value
    assert torch.equal(gradient_again, first)
    assert torch.equal(product(d), first_curved)


@each_case
def test_the_curvature_is_symmetric_and_positive_semidefinite(case: ObjectiveCase) -> None:
    objective, x = case.build(DOUBLE, "cpu"), case.start()
    product = objective.curvature(x)
    directions = [along(case, seed) for seed in (71, 72, 73)]
    images = [product(d) for d in directions]
    sizes = [float(d.norm() * image.norm()) for d, image in zip(directions, images, strict=True)]
    assert min(sizes) > 0
    for i in range(3):
        assert inner(directions[i], images[i]) > 0
        assert images[i].shape == x.shape
        for j in range(i):
            gap = abs(inner(directions[i], images[j]) - inner(directions[j], images[i]))
            assert gap < 1e-12 * math.sqrt(sizes[i] * sizes[j])
    combined = product(2.0 * directions[0] - 0.3 * directions[1])
    assert relative(combined, 2.0 * images[0] - 0.3 * images[1]) < 1e-12


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in objectives() if c.quadratic])
def test_the_curvature_of_a_quadratic_is_its_hessian(case: ObjectiveCase) -> None:
    objective, x, d = case.build(DOUBLE, "cpu"), case.start(), along(case)
    value, gradient = objective.value_and_gradient(x)
    curved = objective.curvature(x)(d)
    ahead, slope = objective.value_and_gradient(x + d)
    assert relative(slope - gradient, curved) < 1e-10
    assert ahead == pytest.approx(value + inner(gradient, d) + inner(d, curved) / 2, rel=1e-11)
    assert relative(objective.curvature(x - 3 * d)(d), curved) < 1e-13


@each_case
def test_single_precision_agrees_with_double(case: ObjectiveCase) -> None:
    exact, rounded = case.build(DOUBLE, "cpu"), case.build(torch.float32, "cpu")
    x, d = case.start(torch.float32), along(case)
    if not case.of_params:
        d = d.float()
    value, gradient = rounded.value_and_gradient(x)
    expected, slope = exact.value_and_gradient(x.double())
    assert gradient.dtype == x.dtype
    assert value == pytest.approx(expected, rel=1e-5)
    assert relative(gradient, slope) < 1e-4
    assert relative(rounded.curvature(x)(d), exact.curvature(x.double())(d.double())) < 1e-4


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@each_case
def test_the_gpu_agrees_with_the_cpu(case: ObjectiveCase, dtype: torch.dtype) -> None:
    exact, there = case.build(DOUBLE, "cpu"), case.build(dtype, "cuda")
    x, d = case.start(dtype, "cuda"), along(case)
    d = d if case.of_params else d.to("cuda", dtype)
    value, gradient = there.value_and_gradient(x)
    expected, slope = exact.value_and_gradient(x.double().cpu())
    tolerance = 1e-10 if dtype == DOUBLE else 1e-4
    assert (gradient.dtype, gradient.device) == (x.dtype, x.device)
    assert value == pytest.approx(expected, rel=tolerance)
    assert there.value(x) == pytest.approx(expected, rel=tolerance)
    assert relative(gradient.cpu(), slope) < tolerance
    curved = there.curvature(x)(d)
    assert curved.device == d.device
    assert relative(curved.cpu(), exact.curvature(x.double().cpu())(d.double().cpu())) < tolerance


@each_case
def test_sums_and_multiples(case: ObjectiveCase) -> None:
    objective, x, d = case.build(DOUBLE, "cpu"), case.start(), along(case)
    value, gradient = objective.value_and_gradient(x)
    both = objective + 2.5 * (objective + objective)
    total, slope = both.value_and_gradient(x)
    assert total == pytest.approx(6 * value, rel=1e-13)
    assert both.value(x) == pytest.approx(6 * value, rel=1e-13)
    assert relative(slope, 6 * gradient) < 1e-13
    assert relative(both.curvature(x)(d), 6 * objective.curvature(x)(d)) < 1e-13
    assert both.shape == objective.shape
    # The same projectors, however often they stand in the sum.
    assert both.applications == objective.applications


@each_case
def test_pickling_changes_nothing(case: ObjectiveCase) -> None:
    objective, x = case.build(DOUBLE, "cpu"), case.start()
    value, gradient = objective.value_and_gradient(x)
    copy = pickle.loads(pickle.dumps(objective))
    again, slope = copy.value_and_gradient(x)
    assert (again, repr(copy)) == (value, repr(objective))
    assert torch.equal(slope, gradient)


@each_case
def test_it_says_what_is_wrong_with_its_argument(case: ObjectiveCase) -> None:
    objective, x = case.build(DOUBLE, "cpu"), case.start()
    for call in (objective.value, objective.value_and_gradient):
        with pytest.raises(ShapeError, match=r"expected \w+ \(.*\) = .*; got \(1, 2, 3, 4\)"):
            call(x.new_zeros(1, 2, 3, 4))
        with pytest.raises(
            DtypeError, match=r"expected \w+ of torch.float32 or torch.float64; got torch.int64"
        ):
            call(x.long())
