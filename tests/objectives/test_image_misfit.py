"""The misfits of a registration: minima, invariances, normal equations, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.errors import DtypeError, DuotomoError, GeometryError, NonFiniteError, ShapeError
from duotomo.objectives import CrossCorrelation, ImageMisfit, SumOfSquares
from duotomo.transforms import Affine, Rigid, Translation
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal

AFFINE = Affine(REFERENCE)
PARAMS = draw_params(AFFINE, seed=6, size_voxels=0.7, turn_deg=20.0)
VOLUME = normal(REFERENCE.shape, seed=1)
TARGET = normal(MOVING.shape, seed=2)
MASK = normal(MOVING.shape, seed=3).clamp(min=0)

kinds = pytest.mark.parametrize("kind", [SumOfSquares, CrossCorrelation])
Kind = type[SumOfSquares] | type[CrossCorrelation]


def between(
    kind: Kind,
    target: torch.Tensor = TARGET,
    mask: torch.Tensor | None = None,
    *,
    central_step: float | None = None,
) -> ImageMisfit:
    return kind(
        AFFINE,
        VOLUME,
        target,
        reference=REFERENCE,
        moving=MOVING,
        mask=mask,
        central_step=central_step,
    )


def seen() -> torch.Tensor:
    return AFFINE.warp(PARAMS, REFERENCE, MOVING)(VOLUME)


@kinds
@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "masked"])
def test_the_truth_is_a_minimum_where_the_curvature_is_exact(kind: Kind, mask: torch.Tensor | None) -> None:
    misfit = between(kind, seen(), mask)
    value, gradient = misfit.value_and_gradient(PARAMS)
    elsewhere = PARAMS + 0.3 * normal(PARAMS.shape, seed=5)
    assert abs(value) < 1e-12 * misfit.value(elsewhere)
    assert float(gradient.norm()) < 1e-10 * float(misfit.value_and_gradient(elsewhere)[1].norm())
    # Without a residual, Gauss and Newton agree.
    d, h = normal(PARAMS.shape, seed=6), 1e-7
    slope = misfit.value_and_gradient(PARAMS + h * d)[1] / h
    torch.testing.assert_close(slope, misfit.curvature(PARAMS)(d), rtol=1e-5, atol=1e-5 * float(slope.norm()))


def test_squares_are_those_of_the_definition() -> None:
    left = seen() - TARGET
    assert between(SumOfSquares).value(PARAMS) == pytest.approx(0.5 * float(left.square().sum()))
    masked = between(SumOfSquares, mask=MASK)
    assert masked.value(PARAMS) == pytest.approx(0.5 * float((MASK * left.square()).sum()))


def test_correlation_is_that_of_the_definition() -> None:
    rows = torch.stack([seen().flatten(), TARGET.flatten()])
    assert between(CrossCorrelation).value(PARAMS) == pytest.approx(1 - float(torch.corrcoef(rows)[0, 1]))
    weights = MASK.flatten()
    mean = (rows * weights).sum(dim=1, keepdim=True) / weights.sum()
    a, b = rows - mean
    ratio = (weights * a * b).sum() / ((weights * a * a).sum() * (weights * b * b).sum()).sqrt()
    assert between(CrossCorrelation, mask=MASK).value(PARAMS) == pytest.approx(1 - float(ratio))


@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "masked"])
def test_correlation_does_not_see_scale_and_shift(mask: torch.Tensor | None) -> None:
    value, gradient = between(CrossCorrelation, TARGET, mask).value_and_gradient(PARAMS)
    other, slope = between(CrossCorrelation, 4.0 * TARGET - 9.0, mask).value_and_gradient(PARAMS)
    assert other == pytest.approx(value)
    torch.testing.assert_close(slope, gradient)
    assert between(CrossCorrelation, -TARGET, mask).value(PARAMS) == pytest.approx(2 - value)


@kinds
def test_masked_voxels_do_not_count(kind: Kind) -> None:
    changed = TARGET + 100.0 * (MASK == 0)
    value, gradient = between(kind, TARGET, MASK).value_and_gradient(PARAMS)
    other, slope = between(kind, changed, MASK).value_and_gradient(PARAMS)
    assert other == pytest.approx(value)
    torch.testing.assert_close(slope, gradient)


@pytest.mark.parametrize("mask", [None, MASK], ids=["everywhere", "masked"])
@pytest.mark.parametrize("central_step", [None, 0.01], ids=["exact", "central"])
def test_the_normal_equations_are_the_derivatives(
    mask: torch.Tensor | None, central_step: float | None
) -> None:
    misfit = between(SumOfSquares, mask=mask, central_step=central_step)
    assert isinstance(misfit, SumOfSquares)
    value, gradient, matrix = misfit.normal_equations(PARAMS)
    expected, slope = misfit.value_and_gradient(PARAMS)
    assert value == pytest.approx(expected)
    torch.testing.assert_close(gradient, slope)
    product = misfit.curvature(PARAMS)
    columns = torch.stack([product(e) for e in torch.eye(12, dtype=torch.float64)])
    torch.testing.assert_close(matrix, columns)


@kinds
def test_central_differences_come_near_the_exact_gradient(kind: Kind) -> None:
    exact = between(kind).value_and_gradient(PARAMS)[1]
    central = between(kind, central_step=1e-4).value_and_gradient(PARAMS)[1]
    assert 0 < float((central - exact).norm()) < 1e-2 * float(exact.norm())


def test_both_grids_are_the_transforms_unless_given() -> None:
    target = normal(REFERENCE.shape, seed=4)
    misfit = SumOfSquares(AFFINE, VOLUME, target)
    given = SumOfSquares(AFFINE, VOLUME, target, reference=REFERENCE, moving=REFERENCE)
    assert misfit.value(PARAMS) == given.value(PARAMS)


@kinds
def test_where_the_transform_is_undefined_the_value_is_infinite(kind: Kind) -> None:
    misfit = between(kind)
    singular, away = PARAMS.clone(), PARAMS.clone()
    singular[:9] = AFFINE.params(matrix=torch.zeros(3, 3), translation_mm=(0, 0, 0))[:9]
    away[9] = 1000.0
    for params in (singular, away):
        value, gradient = misfit.value_and_gradient(params)
        assert value == misfit.value(params) == math.inf
        assert torch.count_nonzero(gradient) == 0
        with pytest.raises(GeometryError):
            misfit.curvature(params)


def test_a_warped_volume_without_contrast_has_no_correlation() -> None:
    flat = CrossCorrelation(AFFINE, torch.zeros_like(VOLUME), TARGET, reference=REFERENCE, moving=MOVING)
    value, gradient = flat.value_and_gradient(PARAMS)
    assert value == math.inf
    assert torch.count_nonzero(gradient) == 0
    with pytest.raises(GeometryError, match="CrossCorrelation: expected a warped volume that varies"):
        flat.curvature(PARAMS)


@kinds
def test_parameters_that_are_not_finite(kind: Kind) -> None:
    with pytest.raises(NonFiniteError, match="Affine: expected params to be finite"):
        between(kind).value(torch.full((12,), math.nan, dtype=torch.float64))


def test_a_constant_target() -> None:
    for constant in (0.0, 0.1):
        with pytest.raises(DuotomoError, match="CrossCorrelation: expected a target that varies"):
            between(CrossCorrelation, torch.full_like(TARGET, constant))


def test_a_mask_of_zeros() -> None:
    with pytest.raises(DuotomoError, match="CrossCorrelation: expected a mask that is positive somewhere"):
        between(CrossCorrelation, mask=torch.zeros_like(TARGET))


@kinds
def test_a_negative_mask(kind: Kind) -> None:
    with pytest.raises(DuotomoError, match=rf"{kind.__name__}: expected mask >= 0; got -"):
        between(kind, mask=TARGET)


@kinds
def test_volumes_on_other_grids_or_of_other_precision(kind: Kind) -> None:
    with pytest.raises(ShapeError, match=rf"{kind.__name__}: expected volume \(z, y, x\) = \(6, 7, 9\)"):
        kind(AFFINE, TARGET, TARGET)
    with pytest.raises(ShapeError, match=rf"{kind.__name__}: expected target \(z, y, x\) = \(5, 6, 8\)"):
        between(kind, VOLUME)
    with pytest.raises(DtypeError, match=rf"{kind.__name__}: expected mask of torch.float64"):
        between(kind, mask=MASK.float())


@pytest.mark.parametrize("central_step", [0.0, -1.0, math.inf])
def test_a_step_that_is_not_positive(central_step: float) -> None:
    with pytest.raises(GeometryError, match="SumOfSquares: expected a positive central_step"):
        between(SumOfSquares, central_step=central_step)


def test_squares_find_a_known_shift() -> None:
    # One Gauss-Newton step from near the truth lands nearer: the equations belong to the same unknowns.
    shift = Translation(REFERENCE)
    truth = torch.tensor([0.4, -0.3, 0.35], dtype=torch.float64)
    blob = torch.exp(
        -0.15
        * sum(
            (torch.arange(n) - n / 2).double().square().reshape(-1, *(1,) * (2 - i))
            for i, n in enumerate(REFERENCE.shape)
        )
    )
    misfit = SumOfSquares(shift, blob, shift.warp(truth)(blob))
    start = torch.tensor([0.3, -0.2, 0.25], dtype=torch.float64)
    _, gradient, matrix = misfit.normal_equations(start)
    ahead = start - torch.linalg.solve(matrix, gradient)
    assert float((ahead - truth).norm()) < 0.1 * float((start - truth).norm())


def test_parameters_in_single_precision_give_gradients_in_it() -> None:
    rigid = SumOfSquares(Rigid(REFERENCE), VOLUME, VOLUME.flip(0))
    assert rigid.value_and_gradient(torch.zeros(6) + 0.1)[1].dtype == torch.float32
