"""Checks of a result say what the data leave unexplained, and whether the motion could be one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import Study, quality
from duotomo.methods.quality import moved, quality_of
from duotomo.operators import Projector
from duotomo.transforms import Affine, BSpline, Motion
from tests.cases.studies import shifted
from tests.cli.tiny import GRID, SCAN, SHIFT_MM, tiny_study

SHIFT = shifted(*SHIFT_MM, grid=GRID)


def body() -> torch.Tensor:
    """Return a block of tissue in the middle of nothing."""
    volume = torch.zeros(GRID.shape)
    volume[4:12, 4:12, 4:12] = 0.05
    return volume


def study(**changes: torch.Tensor) -> Study:
    """Return two visits without noise, the second moved."""
    projector = Projector(grid=GRID, acquisition=SCAN)
    data = (projector(body()), projector(SHIFT.warp()(body())))
    given = tiny_study()
    visits = tuple(
        replace(visit, projections=views, **changes) for visit, views in zip(given.visits, data, strict=True)
    )
    return Study(grid=GRID, visits=visits)


def test_the_truth_leaves_nothing_unexplained() -> None:
    found = quality_of(study(), body(), GRID, [SHIFT])
    assert len(found.residual_by_view) == 2
    assert all(len(views) == SCAN.n_views for views in found.residual_by_view)
    assert max(max(views) for views in found.residual_by_view) < 1e-5
    assert found.mean_displacement_mm == pytest.approx((3.0,))
    assert found.largest_displacement_mm == pytest.approx((3.0,))
    assert found.folded_voxels == (0,)
    assert found.least_jacobian == pytest.approx((1.0,))


def test_a_wrong_motion_leaves_residuals_in_its_visit_alone() -> None:
    found = quality_of(study(), body(), GRID, [shifted(0.0, 0.0, 0.0, grid=GRID)])
    reference, moving = found.residual_by_view
    assert max(reference) < 1e-5
    assert min(moving) > 1e-2


def test_the_rms_is_that_of_each_view() -> None:
    given = study()
    views = given.reference.projections.clone()
    views[2] += 0.3
    changed = Study(grid=GRID, visits=(replace(given.reference, projections=views), *given.moving))
    found = quality_of(changed, body(), GRID, [SHIFT]).residual_by_view[0]
    assert found[2] == pytest.approx(0.3, abs=1e-4)
    assert max(found[:2]) < 1e-5


def test_weights_scale_residuals_and_leave_rays_out() -> None:
    weights = torch.full(SCAN.shape, 4.0)
    weights[:, :10] = 0.0
    given = study(weights=weights)
    views = given.reference.projections.clone()
    views[:, :10] = 100.0
    views[:, 10:] += 0.5
    changed = Study(grid=GRID, visits=(replace(given.reference, projections=views), *given.moving))
    found = quality_of(changed, body(), GRID, [SHIFT]).residual_by_view[0]
    assert found == pytest.approx([1.0] * SCAN.n_views, abs=1e-3)


def test_noise_is_that_of_the_data() -> None:
    generator = torch.Generator().manual_seed(0)
    given = study()
    # Wide enough for an estimate, and without edges.
    noisy = 1.0 + 0.02 * torch.randn(SCAN.shape, generator=generator)
    changed = Study(grid=GRID, visits=(replace(given.reference, projections=noisy),))
    assert quality_of(changed, body(), GRID).noise[0] == pytest.approx(0.02, rel=0.15)
    dark = torch.zeros(SCAN.shape)
    dark[0, 0, 0] = 1.0
    changed = Study(grid=GRID, visits=(replace(given.reference, projections=dark),))
    assert quality_of(changed, body(), GRID).noise == (None,)


def test_folds_are_counted_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    generator = torch.Generator().manual_seed(1)
    params = 10 * torch.randn(spline.n_params, generator=generator, dtype=torch.float64)
    whole = moved(body(), GRID, GRID, Motion(spline, params))
    # In pieces it is the same as at once.
    monkeypatch.setattr(quality, "MOST_AT_ONCE", 300)
    pieces = moved(body(), GRID, GRID, Motion(spline, params))
    assert whole.folded_voxels == pieces.folded_voxels > 0
    assert pieces.mean_mm == pytest.approx(whole.mean_mm)
    assert pieces.largest_mm == pytest.approx(whole.largest_mm)
    assert pieces.least_jacobian <= 0
    assert pieces.least_jacobian == pytest.approx(whole.least_jacobian)


def test_displacements_are_those_of_tissue() -> None:
    affine = Affine(GRID)
    stretched = Motion(affine, affine.params(matrix=torch.eye(3) * 1.5, translation_mm=(0.0, 0.0, 0.0)))
    inside = moved(body(), GRID, GRID, stretched)
    everywhere = moved(torch.ones(GRID.shape), GRID, GRID, stretched)
    assert inside.largest_mm < 0.6 * everywhere.largest_mm
    # Without tissue there is still an answer.
    assert moved(torch.zeros(GRID.shape), GRID, GRID, stretched).largest_mm > inside.largest_mm


def test_json_has_no_numbers_that_are_not_numbers() -> None:
    found = quality.Quality(residual_by_view=((float("nan"), 1.0),), noise=(None,), least_jacobian=(-1.0,))
    assert found.to_dict() == {
        "residual_by_view": [[None, 1.0]],
        "noise": [None],
        "folded_voxels": [],
        "least_jacobian": [-1.0],
        "mean_displacement_mm": [],
        "largest_displacement_mm": [],
    }


def test_a_coarser_volume_is_checked_against_the_same_data() -> None:
    coarse = GRID.coarsen(2)
    volume = body()[::2, ::2, ::2]
    found = quality_of(study(), volume, coarse, [SHIFT])
    assert max(max(views) for views in found.residual_by_view) < 0.3
    assert isinstance(coarse, VolumeGrid)
