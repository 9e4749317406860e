"""The errors of results whose errors are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.reproduction import measures
from duotomo.reproduction.case import Case
from duotomo.reproduction.measures import errors_of
from duotomo.transforms import Affine, BSpline, Motion
from tests.reproduction.tiny import AFFINE, GRID, UNMOVED, result_of, tiny_case

MATRIX = ((1.1, 0.02, 0.0), (0.0, 0.95, -0.03), (0.04, 0.0, 1.0))
FOUND = ((1.0, 0.05, 0.0), (0.0, 1.0, 0.0), (0.0, -0.01, 1.2))


@pytest.fixture(scope="module")
def case() -> Case:
    return tiny_case()


def test_no_motion_is_off_by_the_whole_motion(case: Case) -> None:
    errors = errors_of(case, result_of(case, UNMOVED))
    # (3, 0, -4) mm everywhere.
    for name in ("tre_mm", "worst_tre_mm", "edge_tre_mm"):
        assert getattr(errors, name) == pytest.approx(5.0)
    assert errors.in_plane_mm == pytest.approx(3.0)
    assert errors.depth_mm == pytest.approx(4.0)
    assert errors.folded == 0


def test_the_truth_is_without_error(case: Case) -> None:
    errors = errors_of(case, result_of(case, case.motion))
    assert errors.relative_error == errors.mse == 0.0
    assert errors.tre_mm == errors.worst_tre_mm == errors.edge_tre_mm == 0.0
    assert errors.entries == pytest.approx([0.0] * 12, abs=1e-12)


def test_errors_of_volumes_are_squared_and_relative(case: Case) -> None:
    errors = errors_of(case, result_of(case, case.motion, 3 * case.truth))
    assert errors.relative_error == pytest.approx(4.0)
    assert errors.mse == pytest.approx(4 * float(case.truth.double().square().mean()), rel=1e-5)


def test_a_registered_volume_has_errors_only_where_there_is_one(case: Case) -> None:
    errors = errors_of(case, result_of(case, case.motion))
    assert errors.registered_relative_error is None
    assert errors.registered_mse is None
    others = {"visit_2": case.moved, "visit_2_registered": torch.zeros_like(case.truth)}
    errors = errors_of(case, result_of(case, case.motion, others=others))
    assert errors.registered_relative_error == pytest.approx(1.0)
    assert errors.registered_mse == pytest.approx(float(case.truth.double().square().mean()), rel=1e-5)


def test_entries_are_about_the_middle_of_the_grid(case: Case) -> None:
    # The truth is written about the origin; about c, its translation is M c + t - c.
    about_origin = Affine(GRID, center_mm=(0.0, 0.0, 0.0))
    truth = about_origin.params(matrix=MATRIX, translation_mm=(1.0, 2.0, 3.0))
    moved = replace(case, motion=Motion(about_origin, truth))
    found = Motion(AFFINE, AFFINE.params(matrix=FOUND, translation_mm=(0.5, 0.0, -1.0)))
    c = [0.0, 28.0, 29.0]
    translation = [1.1 * c[0] + 0.02 * c[1] + 1 - c[0], 0.95 * c[1] - 0.03 * c[2] + 2 - c[1], 3.0]
    expected = [
        *(0.1, 0.03, 0.0, abs(0.5 - translation[0])),
        *(0.0, 0.05, 0.03, abs(0.0 - translation[1])),
        *(0.04, 0.01, 0.2, abs(-1.0 - translation[2])),
    ]
    errors = errors_of(moved, result_of(moved, found))
    assert errors.entries == pytest.approx(expected, abs=1e-9)


def test_splines_have_no_entries_and_may_fold(case: Case) -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    offsets_mm = torch.zeros(3, 5, 5, 5, dtype=torch.float64)
    still = errors_of(case, result_of(case, Motion(spline, spline.params(coefficients_mm=offsets_mm))))
    assert still.entries is None
    assert still.tre_mm == pytest.approx(5.0)
    assert still.folded == 0
    # Control points that lie far behind their neighbours turn the inside out.
    offsets_mm[0, 2, 2, 2] = 300.0
    folded = errors_of(case, result_of(case, Motion(spline, spline.params(coefficients_mm=offsets_mm))))
    assert 0 < folded.folded < GRID.n_voxels


def test_folding_is_looked_for_on_a_grid_that_is_not_too_fine(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    spline = BSpline.over(GRID, (5, 5, 5))
    offsets_mm = torch.zeros(3, 5, 5, 5, dtype=torch.float64)
    offsets_mm[0, 2, 2, 2] = 300.0
    result = result_of(case, Motion(spline, spline.params(coefficients_mm=offsets_mm)))
    monkeypatch.setattr(measures, "MOST_CHECKED", 300)
    assert 0 < errors_of(case, result).folded < 300


def test_errors_are_plain_numbers(case: Case) -> None:
    plain = errors_of(case, result_of(case, case.motion)).plain()
    assert plain["registered_mse"] is None
    assert all(isinstance(plain[name], float) for name in ("relative_error", "mse", "tre_mm"))
    assert len(plain["entries"]) == 12
