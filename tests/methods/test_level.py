"""Levels: what is united stands for its parts, and what is resampled stays what it was."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.geometry import VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.methods.level import Level, block_mean, coarsening, resampled
from duotomo.methods.schedule import LEAST_VOXELS, pyramid
from duotomo.operators import Projector
from tests.cases.studies import GRID, SCAN, seen, shifted, study, truth

factors = st.tuples(*[st.integers(1, 4)] * 3)


@pytest.mark.parametrize("coarsen", [(1, 1, 1), (2, 2, 2), (1, 2, 2), (2, 3, 3)])
def test_binned_data_are_projections_of_the_averaged_volume(coarsen: tuple[int, int, int]) -> None:
    mean = block_mean(truth(), coarsen)
    blocks = mean
    for axis, factor in enumerate(coarsen):
        blocks = blocks.repeat_interleave(factor, dim=axis).narrow(axis, 0, GRID.shape[axis])
    views = Projector(grid=GRID, acquisition=SCAN)(blocks)
    level = Level(Study(grid=GRID, visits=(Visit(projections=views, acquisition=SCAN),)), coarsen)
    expected, got = level.visits[0].projections, level.projectors[0](mean)
    assert got.shape == expected.shape
    assert float((got - expected).norm()) < 2e-3 * float(expected.norm())
    # What else is in a voxel changes where its shadow falls, not how much of it there is.
    whole = Level(study(), coarsen).visits[0].projections
    assert float(whole.sum()) == pytest.approx(float(got.sum()), rel=1e-3)


@given(coarsen=factors)
@settings(max_examples=10)
def test_a_constant_signal_keeps_its_value_and_its_weight(coarsen: tuple[int, int, int]) -> None:
    visit = seen(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(visit.projections.shape, generator=generator, dtype=torch.float64) + 0.1
    constant = replace(visit, projections=torch.full_like(weights, 0.7), weights=weights)
    level = Level(Study(grid=GRID, visits=(constant,)), coarsen)
    binned = level.visits[0]
    assert binned.weights is not None
    torch.testing.assert_close(binned.projections, torch.full_like(binned.projections, 0.7))
    n_v, n_u = (n // f * f for n, f in zip(weights.shape[1:], coarsen[1:], strict=True))
    torch.testing.assert_close(binned.weights.sum(), weights[:, :n_v, :n_u].sum())
    unweighted = Level(Study(grid=GRID, visits=(replace(constant, weights=None),)), coarsen).visits[0]
    torch.testing.assert_close(unweighted.projections, torch.full_like(binned.projections, 0.7))


def test_rays_without_weight_do_not_reach_the_binned_data() -> None:
    visit = seen()
    weights = torch.ones_like(visit.projections)
    weights[:, ::2] = 0.0
    dirty = torch.where(weights > 0, visit.projections, torch.full_like(weights, 1e3))
    clean, changed = (
        Level(Study(grid=GRID, visits=(replace(visit, projections=views, weights=weights),)), (2, 2, 2))
        for views in (visit.projections, dirty)
    )
    assert torch.equal(clean.visits[0].projections, changed.visits[0].projections)


@given(coarsen=factors, seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_coarse_voxel_is_the_mean_of_those_it_unites(coarsen: tuple[int, int, int], seed: int) -> None:
    volume = torch.rand(5, 6, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    means = block_mean(volume, coarsen)
    f_z, f_y, f_x = coarsen
    assert means.shape == (ceil(5 / f_z), ceil(6 / f_y), ceil(7 / f_x))
    for z, y, x in [(0, 0, 0), tuple(n - 1 for n in means.shape)]:
        block = volume[z * f_z : (z + 1) * f_z, y * f_y : (y + 1) * f_y, x * f_x : (x + 1) * f_x]
        torch.testing.assert_close(means[z, y, x], block.mean())


@given(coarsen=factors)
@settings(max_examples=20)
def test_resampling_keeps_constants_and_inside_also_slopes(coarsen: tuple[int, int, int]) -> None:
    coarse = GRID.coarsen(coarsen)
    constant = torch.full(coarse.shape, 0.3, dtype=torch.float64)
    torch.testing.assert_close(
        resampled(constant, coarse, GRID), torch.full(GRID.shape, 0.3, dtype=torch.float64)
    )
    slopes = [_x_mm(grid).expand(grid.shape).contiguous() for grid in (coarse, GRID)]
    inner = (slice(4, -4),) * 3
    torch.testing.assert_close(resampled(slopes[0], coarse, GRID)[inner], slopes[1][inner])


def _x_mm(grid: VolumeGrid) -> torch.Tensor:
    return grid.low_mm[2] + (torch.arange(grid.shape[2], dtype=torch.float64) + 0.5) * grid.spacing_mm[2]


def test_a_volume_on_its_own_grid_is_not_touched() -> None:
    volume = truth()
    assert resampled(volume, GRID, GRID) is volume
    assert block_mean(volume, (1, 1, 1)) is volume


def test_whitened_noise_keeps_its_pull_where_it_is_averaged() -> None:
    """The rms of A^T n over voxels that a level states is that of noise which was binned with the data."""
    visit = seen(dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(visit.projections.shape, generator=generator, dtype=torch.float64)
    clean, noisy = (
        Level(Study(grid=GRID, visits=(replace(visit, projections=views),)), (2, 2, 2))
        for views in (visit.projections, visit.projections + 0.01 * noise)
    )
    pull = clean.projectors[0].adjoint(noisy.visits[0].projections - clean.visits[0].projections)
    assert clean.noise_gradient_rms([0.01]) == pytest.approx(float(pull.square().mean().sqrt()), rel=0.2)


def test_applications_are_counted_over_all_visits() -> None:
    level = Level(study(shifted(3.0, 0.0, 0.0)), (2, 2, 2))
    assert level.applications == 0
    level.noise_gradient_rms([1.0, 1.0])
    assert level.applications == 2


@given(st.tuples(*[st.integers(1, 60)] * 3), st.tuples(*[st.sampled_from([0.1, 0.5, 1.0])] * 3))
@settings(max_examples=30)
def test_the_pyramid_ends_at_full_resolution(
    shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]
) -> None:
    grid = VolumeGrid.on_detector(shape, spacing_mm)
    levels = pyramid(grid)
    assert levels[-1] == (1, 1, 1)
    n_voxels = [grid.coarsen(level).n_voxels for level in levels]
    assert n_voxels == sorted(n_voxels)
    assert len(levels) == 1 or max(grid.coarsen(levels[0]).shape) >= LEAST_VOXELS
    assert all(factor >= 1 for factor in coarsening(grid, 0.01))
