"""Priors: what they are zero for, what they grow with, and that total variation is majorised."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import Bending, Nonnegativity, Objective, Smoothness, Tikhonov, TotalVariation
from duotomo.operators import Gradient
from duotomo.transforms import BendingEnergy, BSpline
from tests.cases.transforms import REFERENCE, draw_params, normal
from tests.strategies import grids

DOUBLE = torch.float64


def plain_total_variation(
    f: torch.Tensor, grid: VolumeGrid, smoothing: float, depth_weight: float
) -> torch.Tensor:
    """Return the total variation voxel by voxel, as its definition says, differentiable."""
    n_z, n_y, n_x = grid.shape
    smallest = min(grid.spacing_mm)
    total = f.new_zeros(())
    for i in range(n_z):
        for j in range(n_y):
            for k in range(n_x):
                slopes_sq = f.new_tensor(smoothing**2)
                nexts = [(i + 1, j, k), (i, j + 1, k), (i, j, k + 1)]
                for axis, at in enumerate(nexts):
                    if at[axis] < grid.shape[axis]:
                        scale = smallest / grid.spacing_mm[axis] * (depth_weight if axis == 0 else 1.0)
                        slopes_sq = slopes_sq + (scale * (f[at] - f[i, j, k])) ** 2
                total = total + slopes_sq.sqrt() - smoothing
    return total


@given(grid=grids(), depth_weight=st.sampled_from([0.0, 0.5, 1.0, 2.0]), seed=st.integers(0, 1000))
def test_total_variation_is_what_its_definition_says(
    grid: VolumeGrid, depth_weight: float, seed: int
) -> None:
    grid = VolumeGrid(
        shape=(min(3, grid.shape[0]), min(3, grid.shape[1]), min(4, grid.shape[2])),
        spacing_mm=grid.spacing_mm,
        center_mm=grid.center_mm,
    )
    f = normal(grid.shape, seed=seed).requires_grad_()
    expected = plain_total_variation(f, grid, 0.2, depth_weight)
    if expected.requires_grad and grid.n_voxels > 1:
        (slope,) = torch.autograd.grad(expected, f, allow_unused=True)
    else:
        slope = torch.zeros_like(f)
    value, gradient = TotalVariation(grid, 0.2, depth_weight).value_and_gradient(f.detach())
    assert value == pytest.approx(float(expected.detach()), rel=1e-12, abs=1e-12)
    torch.testing.assert_close(gradient, slope if slope is not None else torch.zeros_like(gradient))


@given(
    grid=grids(),
    smoothing=st.sampled_from([1e-3, 0.1, 1.0, 10.0]),
    depth_weight=st.sampled_from([0.3, 1.0, 3.0]),
    size=st.sampled_from([0.01, 1.0, 100.0]),
    seed=st.integers(0, 2**32),
)
def test_the_curvature_majorises_total_variation(
    grid: VolumeGrid, smoothing: float, depth_weight: float, size: float, seed: int
) -> None:
    # F(y) <= F(x) + <g, y - x> + 1/2 <y - x, H (y - x)>
    prior = TotalVariation(grid, smoothing, depth_weight)
    x, d = normal(grid.shape, seed=seed), size * normal(grid.shape, seed=seed + 1)
    value, gradient = prior.value_and_gradient(x)
    curved = prior.curvature(x)(d)
    bound = value + float((gradient * d).sum()) + 0.5 * float((d * curved).sum())
    got = prior.value(x + d)
    assert got <= bound + 1e-12 * (abs(bound) + grid.n_voxels * smoothing)
    # At x itself the bound is touched, with the same slope.
    assert float((d * curved).sum()) >= 0


def test_the_denominator_is_the_length_of_the_slopes() -> None:
    prior = TotalVariation(REFERENCE, 0.3)
    f = normal(REFERENCE.shape, seed=1)
    lengths = prior.denominator(f)
    assert float(lengths.min()) >= 0.3
    assert float((lengths - 0.3).sum()) == pytest.approx(prior.value(f))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("smoothing", [1e-4, 0.3])
def test_constants_have_no_variation(dtype: torch.dtype, smoothing: float) -> None:
    flat = torch.full(REFERENCE.shape, 0.7, dtype=dtype)
    for prior in (TotalVariation(REFERENCE, smoothing), Smoothness(REFERENCE)):
        value, gradient = prior.value_and_gradient(flat)
        # Rounding of one voxel's smoothing would add up to far more.
        assert abs(value) < 1e-12 * REFERENCE.n_voxels * smoothing
        assert torch.count_nonzero(gradient) == 0


def test_an_edge_counts_by_its_area_and_height() -> None:
    # Between two slices: 7 x 9 voxels see the step, whose slope is weighed by the slices' distance.
    f = torch.zeros(REFERENCE.shape, dtype=DOUBLE)
    f[3:] = 2.0
    expected = 7 * 9 * 2.0 * min(REFERENCE.spacing_mm) / REFERENCE.spacing_mm[0]
    assert TotalVariation(REFERENCE, 1e-9).value(f) == pytest.approx(expected, rel=1e-6)
    assert TotalVariation(REFERENCE, 1e-9, depth_weight=0.5).value(f) == pytest.approx(expected / 2, rel=1e-6)


def test_a_slope_costs_the_same_along_every_axis() -> None:
    # f = x along one axis, in mm: all voxels but those of the far edge have that slope times 0.5 mm.
    grid = VolumeGrid(shape=(6, 6, 6), spacing_mm=(2.0, 1.0, 0.5), center_mm=(6.0, 3.0, 0.0))
    values = []
    for axis, spacing in enumerate(grid.spacing_mm):
        ramp = spacing * torch.arange(6, dtype=DOUBLE).reshape(-1, *(1,) * (2 - axis))
        values.append(TotalVariation(grid, 1e-9).value(ramp.expand(grid.shape).contiguous()))
    assert values == pytest.approx([0.5 * 5 * 36] * 3, rel=1e-6)


def test_volumes_of_any_layout_have_the_same_variation() -> None:
    f = normal(REFERENCE.shape, seed=4)
    permuted = f.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    for prior in (TotalVariation(REFERENCE, 0.1), Smoothness(REFERENCE)):
        value, gradient = prior.value_and_gradient(permuted)
        expected, slope = prior.value_and_gradient(f)
        assert value == expected
        assert torch.equal(gradient, slope)
        assert torch.equal(prior.curvature(permuted)(permuted), prior.curvature(f)(f))


def test_total_variation_with_strong_smoothing_is_smoothness() -> None:
    # sqrt(|D f|^2 + e^2) - e tends to |D f|^2 / (2 e).
    f, smoothing = normal(REFERENCE.shape, seed=2), 1e4
    smooth = Smoothness(REFERENCE, depth_weight=0.6).value(f)
    assert TotalVariation(REFERENCE, smoothing, 0.6).value(f) * smoothing == pytest.approx(smooth, rel=1e-4)


def test_nonnegativity_sees_only_negative_values() -> None:
    prior, f = Nonnegativity(REFERENCE), normal(REFERENCE.shape, seed=3)
    assert prior.value(f.abs()) == 0
    assert prior.value(-f.abs()) == pytest.approx(Tikhonov(REFERENCE).value(f))
    curved = prior.curvature(f)(torch.ones_like(f))
    assert torch.equal(curved == 1, f < 0)
    assert torch.equal(curved == 0, f >= 0)


def test_the_expected_volume_has_no_penalty() -> None:
    f = normal(REFERENCE.shape, seed=5)
    value, gradient = Tikhonov(REFERENCE, f).value_and_gradient(f)
    assert value == 0
    assert torch.count_nonzero(gradient) == 0


def test_bending_is_the_bending_energy() -> None:
    spline = BSpline.over(REFERENCE, (5, 4, 6))
    params = draw_params(spline, seed=6)
    value, gradient = Bending(spline).value_and_gradient(params)
    energy = BendingEnergy(spline)
    assert value == pytest.approx(energy.value(params), rel=1e-13)
    assert torch.equal(gradient, energy.gradient(params))
    assert Bending(spline).applications == 0


@pytest.mark.parametrize("smoothing", [-1.0, math.inf, math.nan])
def test_smoothing_is_not_negative(smoothing: float) -> None:
    with pytest.raises(DuotomoError, match="TotalVariation: expected smoothing >= 0 and finite"):
        TotalVariation(REFERENCE, smoothing)


def test_without_smoothing_there_are_values_but_no_gradients() -> None:
    f = normal(REFERENCE.shape, seed=7)
    prior = TotalVariation(REFERENCE)
    assert prior.value(f) == pytest.approx(TotalVariation(REFERENCE, 1e-12).value(f), rel=1e-9)
    for ask in (prior.value_and_gradient, prior.curvature):
        with pytest.raises(DuotomoError, match=r"TotalVariation: expected smoothing > 0, .*; got 0"):
            ask(f)


def test_variation_and_smoothness_are_norms_of_the_gradient() -> None:
    f = normal(REFERENCE.shape, seed=8)
    slopes = Gradient(REFERENCE, depth_weight=0.7)(f)
    assert TotalVariation(REFERENCE, depth_weight=0.7).value(f) == pytest.approx(
        float(slopes.norm(dim=0).sum())
    )
    assert Smoothness(REFERENCE, 0.7).value(f) == pytest.approx(0.5 * float(slopes.square().sum()))


@pytest.mark.parametrize("depth_weight", [-0.1, math.inf, math.nan])
def test_the_depth_weight_is_not_negative(depth_weight: float) -> None:
    with pytest.raises(DuotomoError, match="Gradient: expected a finite depth_weight >= 0"):
        TotalVariation(REFERENCE, 0.1, depth_weight)
    with pytest.raises(DuotomoError, match="Gradient: expected a finite depth_weight >= 0"):
        Smoothness(REFERENCE, depth_weight)


def test_another_expected_volume() -> None:
    with pytest.raises(ShapeError, match=r"Tikhonov: expected expected \(z, y, x\) = \(6, 7, 9\)"):
        Tikhonov(REFERENCE, torch.zeros(6, 7, 8))
    with pytest.raises(DtypeError, match=r"Tikhonov: expected x of torch.float32; got torch.float64"):
        Tikhonov(REFERENCE, torch.zeros(6, 7, 9)).value(torch.zeros(6, 7, 9, dtype=DOUBLE))


@pytest.mark.parametrize(
    "prior",
    [TotalVariation(REFERENCE, 0.1), Smoothness(REFERENCE), Nonnegativity(REFERENCE)],
    ids=lambda prior: type(prior).__name__,
)
def test_a_direction_of_another_shape(prior: Objective) -> None:
    product = prior.curvature(torch.zeros(REFERENCE.shape))
    with pytest.raises(
        ShapeError, match=r"expected d \(z, y, x\) = \(6, 7, 9\); got \(9, 7, 6\). Axes reversed"
    ):
        product(torch.zeros(9, 7, 6))
