"""Statistics of a deformation, folding, and target registration errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import (
    Affine,
    BSpline,
    Motion,
    Translation,
    deformation_statistics,
    folding,
    target_registration_error,
)
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, normal

SPLINE = BSpline.over(REFERENCE, (5, 5, 6))


def test_a_translation_moves_everything_alike() -> None:
    shift = Translation(REFERENCE)
    found = deformation_statistics(Motion(shift, shift.params(translation_mm=(2.0, -1.0, 2.0))))
    lengths = (found.mean_mm, found.median_mm, found.percentile_95_mm, found.largest_mm)
    assert lengths == pytest.approx((3.0,) * 4)
    assert found.mean_xyz_mm == pytest.approx((2.0, -1.0, 2.0))
    assert (found.mean_determinant, found.highest_determinant) == pytest.approx((1.0, 1.0))
    assert found.n_voxels == REFERENCE.n_voxels
    assert found.folding.n_folded == 0


def test_an_affine_transform_changes_volume_by_its_determinant() -> None:
    affine = Affine(REFERENCE)
    params = affine.params(matrix=torch.diag(torch.tensor([1.2, 0.9, 1.1])), translation_mm=(0.0, 0.0, 0.0))
    found = deformation_statistics(Motion(affine, params))
    expected = 1.2 * 0.9 * 1.1
    assert found.mean_determinant == pytest.approx(expected)
    assert found.folding.lowest_determinant == pytest.approx(expected)


@pytest.mark.parametrize("grid", [REFERENCE, MOVING], ids=["its own grid", "another grid"])
@pytest.mark.parametrize("masked", [False, True], ids=["everywhere", "in a mask"])
def test_statistics_are_those_of_points_and_determinants(grid: VolumeGrid, masked: bool) -> None:
    params = draw_params(SPLINE, seed=1)
    mask = normal(grid.shape, seed=2) > 0 if masked else None
    found = deformation_statistics(Motion(SPLINE, params), grid, mask)
    chosen = torch.ones(grid.shape, dtype=torch.bool) if mask is None else mask
    moved_mm = (SPLINE.points(params, centers_mm(grid)) - centers_mm(grid))[chosen]
    lengths_mm = moved_mm.norm(dim=-1)
    determinants = torch.linalg.det(SPLINE.jacobian(params, centers_mm(grid)[chosen]))
    assert found.n_voxels == int(chosen.sum()) == found.folding.n_voxels
    assert found.mean_mm == pytest.approx(float(lengths_mm.mean()))
    assert found.largest_mm == pytest.approx(float(lengths_mm.max()))
    assert found.mean_xyz_mm == pytest.approx(tuple(moved_mm.mean(dim=0).tolist()))
    for got, share in ((found.median_mm, 50), (found.percentile_95_mm, 95)):
        # A value that occurs, next to the percentile between two of them.
        low = np.percentile(lengths_mm, share, method="lower")
        high = np.percentile(lengths_mm, share, method="higher")
        assert low - 1e-9 <= got <= high + 1e-9
    assert found.mean_determinant == pytest.approx(float(determinants.mean()))
    assert found.highest_determinant == pytest.approx(float(determinants.max()))
    assert found.folding.lowest_determinant == pytest.approx(float(determinants.min()))
    assert found.folding.n_folded == int((determinants <= 0).sum())
    assert folding(Motion(SPLINE, params), grid, mask) == found.folding


def test_folding_counts_and_finds_the_worst_place() -> None:
    coefficients_mm = torch.zeros(3, *SPLINE.lattice.shape, dtype=torch.float64)
    coefficients_mm[1, 2, 2, 3] = 15.0
    params = SPLINE.params(coefficients_mm=coefficients_mm)
    found = folding(Motion(SPLINE, params))
    determinants = SPLINE.determinants(params)
    assert found.n_folded == int((determinants <= 0).sum()) > 0
    worst = SPLINE.jacobian(params, torch.tensor(found.worst_mm))
    assert float(torch.linalg.det(worst)) == pytest.approx(found.lowest_determinant)
    assert found.lowest_determinant == pytest.approx(float(determinants.min()))
    # Outside the mask nothing counts.
    assert folding(Motion(SPLINE, params), mask=determinants > 0).n_folded == 0


def test_the_registration_error_of_what_was_moved_is_zero() -> None:
    params, moving_mm = draw_params(SPLINE, seed=3), 3 * normal((12, 3), seed=4)
    reference_mm = SPLINE.points(params, moving_mm)
    assert float(target_registration_error(Motion(SPLINE, params), moving_mm, reference_mm).max()) < 1e-12
    away = normal((12, 3), seed=5)
    error_mm = target_registration_error(Motion(SPLINE, params), moving_mm, reference_mm + away)
    torch.testing.assert_close(error_mm, away.norm(dim=-1))


def test_the_registration_error_goes_from_moving_to_reference() -> None:
    shift = Translation(REFERENCE)
    params = shift.params(translation_mm=(3.0, 0.0, 0.0))
    here, there = torch.zeros(1, 3), torch.tensor([[3.0, 0.0, 0.0]])
    assert target_registration_error(Motion(shift, params), here, there).tolist() == [0.0]
    assert target_registration_error(Motion(shift, params), there, here).tolist() == [6.0]
