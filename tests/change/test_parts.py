"""The parts of change detection: templates, draws, slopes, scores, peaks, and what to expect of them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.change import Silent
from duotomo.change.detection import _drawn_rays
from duotomo.change.difference import Difference
from duotomo.change.draws import displaced_volumes, drawn_factors
from duotomo.change.false_findings import expected_above, false_findings, threshold_for
from duotomo.change.memory import change_bytes
from duotomo.change.peaks import APART_MM, peaks
from duotomo.change.place import nipple_mm
from duotomo.change.refit import Refit, _contrast
from duotomo.change.score import Draws, best, correlated, score
from duotomo.change.silent import CHEST_MM, STRIDE_MM, depth_mm, silent_voxels
from duotomo.change.templates import MOST_VOXEL_MM, TEMPLATES, Template
from duotomo.change.undiluted import undiluted
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods import Settings, Study, Visit
from duotomo.methods.level import FINEST, Level
from duotomo.methods.problem import Problem
from duotomo.methods.scales import level_of, scales_of
from duotomo.transforms import Motion, Translation
from tests.cases.scans import arc
from tests.cases.studies import GRID as BALLS_GRID
from tests.cases.studies import seen, shifted, truth

GRID = VolumeGrid.on_detector((20, 22, 24), (2.0, 2.0, 2.0))


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_fills_the_volume_of_its_sphere(template: Template) -> None:
    values = template.values(GRID)
    assert all(n % 2 == 1 for n in values.shape)
    assert float(values.sum()) * 8.0 == pytest.approx(math.pi / 6 * template.size_mm**3, rel=1e-5)
    assert float(template.contrast(GRID).sum()) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_fills_the_volume_of_its_sphere_in_the_largest_voxels(template: Template) -> None:
    grid = VolumeGrid.on_detector((5, 5, 5), (MOST_VOXEL_MM,) * 3)
    for offset in ((0.0, 0.0, 0.0), (0.5, -0.5, 0.24)):
        values = template.values(grid, offset)
        assert float(values.sum()) * MOST_VOXEL_MM**3 == pytest.approx(math.pi / 6 * template.size_mm**3)
        assert float(template.contrast(grid, offset).abs().max()) > 0


def test_a_template_moves_by_its_offset() -> None:
    values = TEMPLATES[3].values(GRID, (0.5, 0.0, -0.5))
    axes = torch.meshgrid(*(torch.arange(n) - n // 2 for n in values.shape), indexing="ij")
    middle = [float((axis * values).sum() / values.sum()) for axis in axes]
    assert middle == pytest.approx([0.5, 0.0, -0.5], abs=0.02)


def test_inner_products_with_a_kernel_are_those_of_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    volume, kernel = torch.randn(6, 7, 8, generator=generator), torch.randn(3, 5, 3, generator=generator)
    found = correlated(volume, kernel)
    padded = torch.nn.functional.pad(volume, (1, 1, 2, 2, 1, 1))
    for z, y, x in ((0, 0, 0), (3, 4, 5), (5, 6, 7)):
        block = padded[z : z + 3, y : y + 5, x : x + 3]
        assert float(found[z, y, x]) == pytest.approx(float((block * kernel).sum()), abs=1e-4)


def test_draws_keep_the_size_of_every_ray_and_go_together() -> None:
    acquisition = arc((40, 50), 2.0)
    residuals = torch.linspace(0.1, 3.0, 7 * 40 * 50).reshape(7, 40, 50)
    factors = drawn_factors(residuals, acquisition, 200, torch.Generator().manual_seed(0))
    ratios = factors * residuals / residuals
    assert float(ratios.square().mean()) == pytest.approx(1.0, rel=1e-3)
    # All views, and rays next to each other, keep their sign together; those far apart do not.
    assert torch.allclose(ratios[:, 0], ratios[:, 6], rtol=1e-4, atol=1e-4)
    assert float((ratios[:, 0, 20, 20] * ratios[:, 0, 20, 21]).mean()) > 0.8
    assert abs(float((ratios[:, 0, 20, 5] * ratios[:, 0, 20, 45]).mean())) < 0.25


def _difference(dtype: torch.dtype = torch.float64) -> tuple[Difference, Study]:
    difference, study, _ = _leveled(dtype)
    return difference, study


def _leveled(dtype: torch.dtype) -> tuple[Difference, Study, Level]:
    study = Study(grid=BALLS_GRID, visits=(seen(dtype=dtype), seen(shifted(3.0, -2.0, 1.0), dtype=dtype)))
    settings = Settings.for_study(study, Translation)
    scales = scales_of(study, settings.priors)
    level = level_of(study, FINEST, basis=settings.basis, priors=settings.priors, scales=scales)
    problem = Problem(level, [Translation(BALLS_GRID)], settings.priors, scales)
    return Difference(problem, truth(dtype=dtype), [shifted(3.0, -2.0, 1.0).params]), study, level


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rays_that_are_drawn_one_after_the_other_are_those_drawn_at_once(dtype: torch.dtype) -> None:
    difference, _, level = _leveled(dtype)
    n, generator = 3, torch.Generator().manual_seed(0)
    current, prior = (
        own * drawn_factors(own, visit.acquisition, n, generator)
        for own, visit in zip(difference.residuals, level.visits, strict=True)
    )
    moved = torch.stack(list(displaced_volumes(difference.prior_volume, level.grids[1], n, generator)))
    found = [torch.stack(one) for one in zip(*_drawn_rays(difference, level, n), strict=True)]
    assert torch.equal(found[0], torch.cat([difference.residuals[0][None], current, 0 * current]))
    displaced = difference.prior.misfit.columns(moved)
    assert torch.equal(found[1], torch.cat([difference.residuals[1][None], prior, displaced]))


def test_inner_products_hold_no_more_than_they_say() -> None:
    found = correlated(torch.ones(GRID.shape), torch.ones(9, 9, 9))
    assert found.untyped_storage().nbytes() == GRID.n_voxels * 4


def test_what_both_visits_share_has_no_slope_and_what_one_has_alone_has() -> None:
    difference, study = _difference()
    blob = torch.zeros(study.grid.shape, dtype=torch.float64)
    blob[6:8, 6:9, 7:10] = 0.01
    warp = shifted(3.0, -2.0, 1.0).warp(BALLS_GRID, BALLS_GRID)
    shared = difference.slopes(
        difference.current.misfit.columns(blob[None]), difference.prior.misfit.columns(warp(blob)[None])
    )[0]
    alone = difference.of_change(blob[None])
    assert float(shared.norm()) < 0.1 * float(alone[0].norm())
    # The slope along what changed is positive: it fits better with the change than without.
    assert float((alone[0] * blob).sum()) > 0


def test_slopes_of_a_change_are_those_of_its_rays() -> None:
    difference, study = _difference()
    blob = torch.zeros(1, *study.grid.shape, dtype=torch.float64)
    blob[0, 7, 7, 8] = 1.0
    rays = difference.current.misfit.columns(blob)
    nothing = torch.zeros(1, *difference.residuals[1].shape, dtype=torch.float64)
    assert torch.equal(difference.of_change(blob), difference.slopes(rays, nothing))


def test_scores_of_noise_have_variance_one_and_a_blob_does_not_hide_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(GRID.shape, generator=generator)
    draws = torch.randn(8, *GRID.shape, generator=generator)
    stated = torch.ones(GRID.shape, dtype=torch.bool)
    both = Draws(rays=draws, motion=draws)
    found = score(TEMPLATES[2], noise, both, stated, GRID)
    assert float(found.z.square().mean()) == pytest.approx(1.0, rel=0.25)
    blob = noise.clone()
    blob[9:12, 10:13, 11:14] += 3.0
    z = score(TEMPLATES[2], blob, both, stated, GRID).z
    noiseless = score(TEMPLATES[2], blob - noise, None, stated, GRID)
    expected = float(
        correlated(blob - noise, TEMPLATES[2].contrast(GRID))[10, 11, 12] / found.deviation[10, 11, 12]
    )
    assert float(z[10, 11, 12] - found.z[10, 11, 12]) > 0.7 * expected
    assert noiseless.z.shape == GRID.shape


def test_the_best_score_keeps_its_sign() -> None:
    stated = torch.ones(GRID.shape, dtype=torch.bool)
    noise = torch.randn(GRID.shape, generator=torch.Generator().manual_seed(3))
    scores = [score(one, noise, None, stated, GRID) for one in TEMPLATES[1:3]]
    z, index = best(scores)
    for number, one in enumerate(scores):
        assert torch.equal(z[index == number], one.z[index == number])
    assert bool((z.abs() >= scores[0].z.abs()).all())


def test_peaks_are_apart_and_the_largest_first() -> None:
    z_map = torch.full(GRID.shape, float("nan"))
    z_map[5:15, 5:15, 5:15] = 0.0
    z_map[6, 6, 6], z_map[6, 6, 7], z_map[12, 13, 14] = -6.0, 5.0, 4.0
    assert peaks(z_map, GRID, 3.0, 10) == [(6, 6, 6), (12, 13, 14)]
    assert peaks(z_map, GRID, 3.0, 1) == [(6, 6, 6)]
    assert peaks(z_map, GRID, 7.0, 10) == []
    assert min(APART_MM) > 0


@given(st.floats(3.0, 9.0), st.floats(0.05, 2.0))
def test_thresholds_and_expected_numbers_are_inverse(z: float, litres: float) -> None:
    assert threshold_for(expected_above(z, litres), litres) == pytest.approx(z, abs=1e-6)


def test_the_curve_of_what_to_expect_falls() -> None:
    curve = false_findings(0.5)
    pairs = list(zip(curve.expected[:-1], curve.expected[1:], strict=True))
    assert all(before > after > 0 for before, after in pairs)


def test_depth_is_from_the_skin_but_not_from_the_chest_wall() -> None:
    volume = torch.zeros(GRID.shape)
    volume[:, :12, 4:20] = 0.05
    depth = depth_mm(volume, GRID)
    assert float(depth[10, 0, 12]) > 10.0
    assert float(depth[0, 0, 12]) == pytest.approx(2.0)
    assert float(depth[10, 15, 12]) == 0.0
    nipple = nipple_mm(depth, GRID)
    assert nipple is not None
    assert nipple[1] == pytest.approx(23.0)
    assert nipple_mm(torch.zeros(GRID.shape), GRID) is None


@pytest.mark.parametrize("shift_mm", [-8.0, 0.0, 8.0])
def test_the_chest_wall_is_silent_where_it_is_near_at_either_visit(shift_mm: float) -> None:
    acquisition = arc((30, 60), 2.0)
    visit = Visit(projections=torch.ones(acquisition.shape), acquisition=acquisition)
    shift = Translation(GRID)
    # What lies at y now lay at y less the shift before.
    motion = Motion(shift, shift.params(translation_mm=(0.0, shift_mm, 0.0)))
    study = Study(grid=GRID, visits=(visit, visit))
    silent = silent_voxels(study, torch.full(GRID.shape, 50.0), motion)
    border_mm = 2.0 * int((silent[10, :, 12] != int(Silent.STATED)).sum())
    assert border_mm == pytest.approx(CHEST_MM + max(0.0, shift_mm), abs=STRIDE_MM / 2 + 2.0)


def test_memory_grows_with_the_volume() -> None:
    study = Study(grid=BALLS_GRID, visits=(seen(), seen()))
    finer = Study(grid=BALLS_GRID.refine(2), visits=study.visits)
    assert change_bytes(finer) == 8 * change_bytes(study) > 100 * 4 * BALLS_GRID.n_voxels


SIZES_MM, FALLING = (3.0, 5.0, 8.0, 12.0), (0.09, 0.03, 0.012, 0.006)


@given(
    size_mm=st.floats(3.5, 11.0),
    smaller=st.floats(0.01, 1.0),
    larger=st.floats(0.01, 1.0),
    score=st.floats(6.0, 50.0),
)
def test_a_contrast_is_as_unsure_as_its_size(
    size_mm: float, smaller: float, larger: float, score: float
) -> None:
    low_mm, high_mm = size_mm * math.exp(-smaller), size_mm * math.exp(larger)
    contrast, (low, high) = _contrast(SIZES_MM, FALLING, size_mm, (low_mm, high_mm), score)
    at_low, at_high = (_contrast(SIZES_MM, FALLING, one, (one, one), score)[0] for one in (low_mm, high_mm))
    assert low < at_high <= contrast <= at_low < high
    surer, (least, most) = _contrast(SIZES_MM, FALLING, size_mm, (size_mm, size_mm), score)
    assert surer == contrast
    assert low <= least < contrast < most <= high


def test_a_contrast_ends_where_the_templates_do() -> None:
    at_ends = _contrast(SIZES_MM, FALLING, 8.0, (SIZES_MM[0], SIZES_MM[-1]), 10.0)
    assert _contrast(SIZES_MM, FALLING, 8.0, (1.0, 40.0), 10.0) == at_ends
    # Of what is gone contrasts are negative, and its interval is the same.
    assert _contrast(SIZES_MM, [-one for one in FALLING], 8.0, (1.0, 40.0), 10.0) == at_ends


def test_a_lesion_alone_is_taken_from_the_current_visit() -> None:
    refit = Refit(
        template=3,
        place_mm=(0.0, 22.0, 20.0),
        place_deviation_mm=(1.0, 1.0, 2.0),
        size_mm=6.0,
        size_interval_mm=(5.0, 8.0),
        contrast_per_mm=0.02,
        contrast_interval_per_mm=(0.01, 0.03),
        slice_index=10,
        smear_mm=4.0,
    )
    shared, alone = torch.zeros(GRID.shape), torch.ones(GRID.shape)
    both = undiluted(shared, alone, [refit], GRID)
    away = torch.from_numpy(voxel_centers_mm(GRID)) - torch.tensor(refit.place_mm)
    in_plane, height = away[..., :2].norm(dim=-1), away[..., 2].abs()
    assert bool((both[(in_plane < 9.9) & (height < 2.0)] == 1).all())
    assert bool((both[in_plane > 15.1] == 0).all())
    assert bool((both[height > 17.1] == 0).all())
    assert torch.equal(undiluted(shared, alone, [], GRID), shared)
