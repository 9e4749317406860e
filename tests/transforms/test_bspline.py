"""B-splines: what control points do, refinement that changes nothing, and fits that are projections."""

from __future__ import annotations

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import BSpline
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, normal

CONTROL_SHAPES = [(4, 4, 4), (5, 4, 7), (6, 7, 8)]

each_shape = pytest.mark.parametrize("control_shape", CONTROL_SHAPES, ids=str)


def in_the_box_mm(grid: VolumeGrid) -> torch.Tensor:
    """Return points, (n, xyz), in a grid's box, some of them on its faces, edges and corners."""
    low, high = (torch.tensor(corner[::-1], dtype=torch.float64) for corner in (grid.low_mm, grid.high_mm))
    along = torch.rand(200, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    along[:60] = along[:60].round()
    return low + along * (high - low)


@each_shape
def test_equal_coefficients_are_a_translation_on_the_whole_box(control_shape: tuple[int, int, int]) -> None:
    # The weights sum to one there, and one control point beyond the box is enough for that.
    spline = BSpline.over(REFERENCE, control_shape)
    shift_mm = torch.tensor([0.5, -1.5, 2.0], dtype=torch.float64)
    params = spline.params(coefficients_mm=shift_mm[:, None, None, None].expand(3, *control_shape))
    points_mm = in_the_box_mm(REFERENCE)
    assert float((spline.points(params, points_mm) - points_mm - shift_mm).abs().max()) < 1e-12


@each_shape
def test_linear_coefficients_are_a_linear_displacement(control_shape: tuple[int, int, int]) -> None:
    spline = BSpline.over(REFERENCE, control_shape)
    matrix = 0.2 * normal((3, 3), seed=1)
    params = spline.params(coefficients_mm=(centers_mm(spline.lattice) @ matrix.T).movedim(-1, 0))
    points_mm = in_the_box_mm(REFERENCE)
    assert float((spline.points(params, points_mm) - points_mm - points_mm @ matrix.T).abs().max()) < 1e-12


def test_a_control_point_acts_within_two_spacings() -> None:
    spline = BSpline.over(REFERENCE, (6, 7, 8))
    coefficients_mm = torch.zeros(3, 6, 7, 8, dtype=torch.float64)
    coefficients_mm[0, 3, 3, 4] = 1.0
    params = spline.params(coefficients_mm=coefficients_mm)
    at_mm = centers_mm(spline.lattice)[3, 3, 4]
    d_z, d_y, d_x = spline.lattice.spacing_mm
    spacing_mm = torch.tensor([d_x, d_y, d_z], dtype=torch.float64)
    away = 3 * normal((500, 3), seed=2)
    moved_mm = spline.points(params, at_mm + away * spacing_mm) - at_mm - away * spacing_mm
    beyond = (away.abs() >= 2).any(dim=-1)
    assert 0 < int(beyond.sum()) < 500
    assert torch.count_nonzero(moved_mm[beyond].abs() > 1e-14) == 0
    assert float(moved_mm[~beyond, 0].min()) > 0
    # B(0) = 2/3 along each axis.
    assert abs(float((spline.points(params, at_mm) - at_mm)[0]) - (2 / 3) ** 3) < 1e-12


@each_shape
def test_refinement_moves_no_point(control_shape: tuple[int, int, int]) -> None:
    spline = BSpline.over(REFERENCE, control_shape)
    params = draw_params(spline, seed=3)
    points_mm = in_the_box_mm(REFERENCE)
    expected = spline.points(params, points_mm)
    for times in (1, 2):
        before = spline
        refined = spline.refined(params)
        spline, params = refined.transform, refined.params
        assert spline.lattice.spacing_mm == tuple(d / 2 for d in before.lattice.spacing_mm)
        assert spline.lattice.shape == tuple(2 * n - 3 for n in before.lattice.shape)
        assert spline.grid == REFERENCE
        assert float((spline.points(params, points_mm) - expected).abs().max()) < 1e-10, times


def test_refinement_of_a_spline_over_a_grid_is_the_finer_spline_over_it() -> None:
    spline = (
        BSpline.over(REFERENCE, (5, 4, 7)).refined(torch.zeros(3 * 5 * 4 * 7, dtype=torch.float64)).transform
    )
    expected = BSpline.over(REFERENCE, (7, 5, 11)).lattice
    assert spline.lattice.shape == expected.shape
    torch.testing.assert_close(spline.lattice.spacing_mm, expected.spacing_mm)
    torch.testing.assert_close(spline.lattice.center_mm, expected.center_mm)


@pytest.mark.parametrize("grid", [None, MOVING.refine(2)], ids=["its own grid", "another grid"])
def test_a_fit_recovers_a_spline(grid: VolumeGrid | None) -> None:
    spline = BSpline.over(REFERENCE, (5, 4, 6))
    params = draw_params(spline, seed=4)
    fit = spline.fit(spline.displacement(params, grid), grid)
    assert fit.residual_mm < 1e-8
    field_mm = spline.displacement(fit.params, grid)
    assert float((field_mm - spline.displacement(params, grid)).abs().max()) < 1e-8
    if grid is None:
        assert float((fit.params - params).abs().max()) < 1e-8


def test_a_fit_is_a_projection() -> None:
    spline = BSpline.over(REFERENCE, (5, 4, 6))
    field_mm = normal((3, *REFERENCE.shape), seed=5)
    first = spline.fit(field_mm)
    second = spline.fit(spline.displacement(first.params))
    assert first.residual_mm > 0.1
    assert second.residual_mm < 1e-10
    assert float((second.params - first.params).abs().max()) < 1e-8


def test_a_fit_is_the_nearest_and_says_how_near() -> None:
    spline = BSpline.over(REFERENCE, (5, 4, 6))
    field_mm = normal((3, *REFERENCE.shape), seed=5)
    fit = spline.fit(field_mm)

    def left_mm(params: torch.Tensor) -> float:
        away = spline.displacement(params) - field_mm
        return float(away.square().sum(dim=0).mean().sqrt())

    assert abs(left_mm(fit.params) - fit.residual_mm) < 1e-12
    for seed in range(5):
        assert left_mm(fit.params + 0.01 * normal((spline.n_params,), seed=seed)) > fit.residual_mm


def test_a_fit_leaves_control_points_that_act_on_nothing_at_zero() -> None:
    # The field covers the first quarter of the box along x.
    spline = BSpline.over(REFERENCE, (4, 4, 12))
    part = VolumeGrid(shape=(6, 7, 8), spacing_mm=(1.5, 1.0, 0.225), center_mm=(8.0, 3.0, -3.7))
    assert part.low_mm[2] == pytest.approx(REFERENCE.low_mm[2])
    coefficients = spline.physical(spline.fit(normal((3, *part.shape), seed=6), part).params)[
        "coefficients_mm"
    ]
    assert torch.count_nonzero(coefficients[..., 6:]) == 0
    assert torch.count_nonzero(coefficients[..., :5]) == 3 * 4 * 4 * 5


def test_a_lattice_may_lie_anywhere() -> None:
    lattice = VolumeGrid(shape=(4, 5, 4), spacing_mm=(2.0, 2.0, 3.0), center_mm=(9.0, 2.0, 1.0))
    spline = BSpline(REFERENCE, lattice)
    params = draw_params(spline, seed=7)
    points_mm = in_the_box_mm(REFERENCE)
    moved = (spline.points(params, points_mm) - points_mm).norm(dim=-1)
    low, high = (torch.tensor(c[::-1], dtype=torch.float64) for c in (lattice.low_mm, lattice.high_mm))
    spacing_mm = torch.tensor(lattice.spacing_mm[::-1], dtype=torch.float64)
    # 1.5 spacings beyond the outer faces are two beyond the outermost control points.
    beyond = ((points_mm < low - 1.5 * spacing_mm) | (points_mm > high + 1.5 * spacing_mm)).any(dim=-1)
    assert float(moved[~beyond].max()) > 0.5
    assert float(moved[beyond].max() if beyond.any() else 0.0) < 1e-14
    # Refined, it lies where it did, and moves what it did where it is complete.
    refined = spline.refined(params)
    finer, finer_params = refined.transform, refined.params
    complete = ((points_mm >= low + 1.5 * spacing_mm) & (points_mm <= high - 1.5 * spacing_mm)).all(dim=-1)
    assert int(complete.sum()) > 5
    away = finer.points(finer_params, points_mm) - spline.points(params, points_mm)
    assert float(away[complete].abs().max()) < 1e-10
