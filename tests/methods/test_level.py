"""Levels: what is united stands for its parts, and what is resampled stays what it was."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.geometry import VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.methods.detector_filter import change_over, voxel_shadow
from duotomo.methods.level import UNEXPLAINED, Basis, Level, block_mean, coarsening, resampled
from duotomo.methods.schedule import LEAST_VOXELS, pyramid
from duotomo.operators import Projector
from tests.cases.scans import arc
from tests.cases.studies import GRID, SCAN, seen, shifted, study, truth

BASES: list[Basis] = ["voxel", "spline"]

factors = st.tuples(*[st.integers(1, 4)] * 3)
bases = st.sampled_from(BASES)


def weighted(n_unused: int = 0) -> Visit:
    """Return a visit of random weights, of which so many are zero, the first pixels among them."""
    visit, generator = seen(dtype=torch.float64), torch.Generator().manual_seed(0)
    weights = torch.rand(visit.projections.shape, generator=generator, dtype=torch.float64) + 0.1
    drawn = torch.randperm(weights.numel(), generator=generator)[:n_unused]
    weights.view(-1)[drawn] = 0.0
    if n_unused:
        weights[:, :4, :4] = 0.0
    return replace(visit, weights=weights)


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


@given(coarsen=factors, basis=bases)
@settings(max_examples=10)
def test_a_constant_signal_keeps_its_value(coarsen: tuple[int, int, int], basis: Basis) -> None:
    visit = weighted()
    constant = replace(visit, projections=torch.full_like(visit.projections, 0.7))
    for one in (constant, replace(constant, weights=None)):
        (binned,) = Level(Study(grid=GRID, visits=(one,)), coarsen, basis=basis).visits
        torch.testing.assert_close(binned.projections, torch.full_like(binned.projections, 0.7))


@pytest.mark.parametrize("mismatch", [0.0, 0.02])
@given(coarsen=factors)
@settings(max_examples=5)
def test_a_pixel_is_the_mean_of_its_rays_and_so_weighted(
    mismatch: float, coarsen: tuple[int, int, int]
) -> None:
    """A plain mean of those that have a weight; its variance is that of the mean, and of what misfits."""
    visit = weighted(n_unused=40)
    level = Level(Study(grid=GRID, visits=(visit,)), coarsen, mismatches=[mismatch])
    (binned,) = level.visits
    assert visit.weights is not None
    assert binned.weights is not None
    _, f_v, f_u = coarsen
    values, variances = torch.zeros_like(binned.projections), torch.full_like(binned.weights, torch.inf)
    for view, v, u in itertools.product(*map(range, values.shape)):
        block = view, slice(v * f_v, (v + 1) * f_v), slice(u * f_u, (u + 1) * f_u)
        rays, weights = visit.projections[block], visit.weights[block]
        if bool((weights > 0).any()):
            values[view, v, u] = rays[weights > 0].mean()
            variances[view, v, u] = (1 / weights[weights > 0]).sum() / (weights > 0).sum() ** 2
    torch.testing.assert_close(binned.projections, values)
    # Voxels of 3 mm misfit by 3 mm of the mismatch per mm, times the factors.
    edge_mm = 3.0 * (f_v * f_u) ** 0.5
    typical = variances[(values > 0.1 * values.max()) & variances.isfinite()].median()
    unexplained = (mismatch * edge_mm) ** 2 + UNEXPLAINED * typical
    torch.testing.assert_close(binned.weights, 1 / (variances + unexplained))


@pytest.mark.parametrize("coarsen", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("junk", [1e3, -1e3])
def test_rays_without_weight_never_matter(basis: Basis, junk: float, coarsen: tuple[int, int, int]) -> None:
    visit = seen()
    weights = torch.ones_like(visit.projections)
    weights[:, ::2] = 0.0
    weights[:, 4:9, 6:11] = 0.0
    dirty = torch.where(weights > 0, visit.projections, torch.full_like(weights, junk))
    clean, changed = (
        Level(
            Study(grid=GRID, visits=(replace(visit, projections=views, weights=weights),)),
            coarsen,
            basis=basis,
        ).visits[0]
        for views in (visit.projections, dirty)
    )
    assert clean.weights is not None
    assert changed.weights is not None
    assert torch.equal(clean.weights, changed.weights)
    assert bool((clean.weights == 0).any())
    assert torch.equal(clean.projections[clean.weights > 0], changed.projections[clean.weights > 0])


@pytest.mark.parametrize(
    ("spacing_mm", "pixel_mm", "expected"),
    [
        # 3 mm voxels in the middle of 52 mm, from 660 mm on high: their shadows are 3.12 mm wide.
        ((3.0, 3.0, 3.0), (0.6, 1.0), (5, 3)),
        ((3.0, 3.0, 3.0), (3.13, 3.11), (1, 1)),
        ((3.0, 1.5, 3.0), (0.6, 1.0), (2, 3)),
    ],
)
def test_pixels_are_combined_up_to_the_shadow_of_a_voxel(
    spacing_mm: tuple[float, float, float], pixel_mm: tuple[float, float], expected: tuple[int, int]
) -> None:
    grid = VolumeGrid(shape=(14, 14, 16), spacing_mm=spacing_mm, center_mm=(26.0, 21.0, 0.0))
    scan = arc((40, 60), pixel_mm, degrees=0.0, n_views=1)
    visit = Visit(projections=torch.ones(scan.shape), acquisition=scan)
    level = Level(Study(grid=grid, visits=(visit,)), (1, 1, 1), basis="spline")
    f_v, f_u = expected
    assert level.visits[0].projections.shape == (1, 40 // f_v, 60 // f_u)
    assert level.visits[0].acquisition == scan.bin(expected)
    # With voxels as the basis, pixels stay as they are at full resolution.
    assert Level(Study(grid=grid, visits=(visit,)), (1, 1, 1)).visits[0].acquisition == scan


def test_a_visit_with_finer_voxels_holds_no_more_than_the_volume_shows() -> None:
    """Its pixels are combined and smoothed by the voxels of the volume, which has no finer detail."""
    visit = seen()
    own = replace(
        visit, grid=VolumeGrid(shape=(42, 42, 48), spacing_mm=(1.0, 1.0, 1.0), center_mm=GRID.center_mm)
    )
    level = Level(Study(grid=GRID, visits=(visit, own)), (1, 1, 1), basis="spline")
    plain, finer = level.visits
    assert finer.acquisition == plain.acquisition
    torch.testing.assert_close(finer.projections, plain.projections)
    assert level.grids[1].spacing_mm == (1.0, 1.0, 1.0)


@given(st.floats(0.01, 1.0), st.floats(0.001, 0.1), bases, st.booleans())
@settings(max_examples=20)
def test_rays_at_edges_count_less(edges: float, sigma: float, basis: Basis, weighs: bool) -> None:
    """`1 / (v + (edges c)^2)`: v the variance without, c the change over the shadow of a voxel."""
    visit = weighted(n_unused=40) if weighs else seen(dtype=torch.float64)
    of = Study(grid=GRID, visits=(visit,))
    less, plain = (
        Level(of, (2, 2, 2), basis=basis, sigmas=[sigma], mismatches=[0.01], edges=share)
        for share in (edges, 0.0)
    )
    (one,), (other,) = less.visits, plain.visits
    assert torch.equal(one.projections, other.projections)
    assert one.weights is not None
    used = None if other.weights is None else other.weights > 0
    change = change_over(other.projections, voxel_shadow(other.acquisition, less.grids[0]), used)
    if other.weights is None:
        variance = torch.full_like(change, plain.noises[0] ** 2)
        used = torch.ones_like(change, dtype=torch.bool)
    else:
        variance = 1 / other.weights
    assert used is not None
    expected = torch.where(used, 1 / (variance + (edges * change) ** 2), 0.0)
    torch.testing.assert_close(one.weights, expected)
    assert less.noises == [1.0]


def test_without_noise_nothing_says_what_an_edge_costs() -> None:
    level = Level(study(), (1, 1, 1), basis="spline", edges=0.1)
    assert level.visits[0].weights is None


@pytest.mark.parametrize("edges", [0.0, 0.1])
def test_rays_that_are_left_out_have_no_weight(edges: float) -> None:
    """The others keep theirs, and the weight of total variation its meaning."""
    of = study(shifted(3.0, 0.0, 0.0), dtype=torch.float64)
    level, whole = (Level(of, (1, 1, 1), sigmas=[0.1, 0.2], edges=edges) for _ in range(2))
    out = [torch.zeros_like(visit.projections, dtype=torch.bool) for visit in level.visits]
    out[0][:, :3] = True
    level.leave_out(out)
    for visit, before, gone, sigma in zip(level.visits, whole.visits, out, (0.1, 0.2), strict=True):
        weights = torch.full_like(visit.projections, sigma**-2) if before.weights is None else before.weights
        assert visit.weights is not None
        torch.testing.assert_close(visit.weights, weights.masked_fill(gone, 0.0))
    assert level.noises == [1.0, 1.0]


@pytest.mark.parametrize("coarsen", [(1, 1, 1), (2, 2, 2), (1, 2, 2)])
def test_data_are_smoothed_as_the_spline_smooths_the_volume(coarsen: tuple[int, int, int]) -> None:
    """The data of a level are what its projector makes of the spline with the true values.

    Up to detail that the voxels lack, of which the filter takes away the finest.
    """
    grid, fine = GRID.coarsen(coarsen), study(finer=3)
    level, rough = (Level(fine, coarsen, basis=basis) for basis in ("spline", "voxel"))
    assert level.basis is not None
    assert rough.basis is None
    off = [
        float((projector(shown) - visit.projections).norm() / visit.projections.norm())
        for projector, shown, visit in (
            (level.projectors[0], level.basis(truth(grid)), level.visits[0]),
            (rough.projectors[0], truth(grid), rough.visits[0]),
        )
    ]
    assert off[0] < 0.65 * off[1] < 0.1
    assert [term.cubic for term in level.terms([])] == [True]
    assert [term.cubic for term in rough.terms([])] == [False]


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
        Level(Study(grid=GRID, visits=(replace(visit, projections=views),)), (2, 2, 2), sigmas=[0.01])
        for views in (visit.projections, visit.projections + 0.01 * noise)
    )
    pull = clean.projectors[0].adjoint(noisy.visits[0].projections - clean.visits[0].projections)
    assert clean.noise_gradient_rms() == pytest.approx(float(pull.square().mean().sqrt()), rel=0.2)


def test_applications_are_counted_over_all_visits() -> None:
    level = Level(study(shifted(3.0, 0.0, 0.0)), (2, 2, 2))
    assert level.applications == 0
    level.noise_gradient_rms()
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
