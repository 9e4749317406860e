"""Inverses: in closed form, of points, and as displacements on a grid; what they say when there is none."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, BSpline, Composition, Motion, Rigid, Transform, Translation, Velocity
from duotomo.transforms.deformation import folding
from duotomo.transforms.displacement_field import DisplacementField
from duotomo.transforms.inversion import InverseStatus, best_inverse, invert, invert_points
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, normal

GRID = VolumeGrid.on_detector((12, 14, 16), (1.0, 0.9, 0.8))
SPLINE = BSpline.over(GRID, (5, 6, 6))

CLOSED = [
    Translation(REFERENCE),
    Rigid(REFERENCE),
    Rigid(REFERENCE, center_mm=(30.0, -20.0, 10.0)),
    Affine(REFERENCE),
    Affine(REFERENCE, center_mm=(0.0, 0.0, 0.0)),
    Composition(Translation(REFERENCE), Affine(REFERENCE), Rigid(REFERENCE)),
]
OPEN = [
    SPLINE,
    Composition(Affine(GRID), SPLINE),
    Composition(SPLINE, Rigid(GRID)),
    DisplacementField(GRID.coarsen(4)),
]


def name(transform: Transform) -> str:
    parts = transform.parts if isinstance(transform, Composition) else (transform,)
    return " then ".join(type(part).__name__ for part in parts)


each_closed = pytest.mark.parametrize("transform", CLOSED, ids=name)
each_open = pytest.mark.parametrize("transform", OPEN, ids=name)


def gentle(transform: Transform) -> torch.Tensor:
    """Return parameters that do not fold."""
    size_voxels = 0.15 if isinstance(transform, DisplacementField) else 0.8
    params = draw_params(transform, seed=1, size_voxels=size_voxels, turn_deg=40.0, stretch=0.1)
    assert folding(Motion(transform, params), GRID).n_folded == 0
    return params


def folded() -> torch.Tensor:
    """Return parameters of `SPLINE` that fold around one control point."""
    coefficients_mm = torch.zeros(3, *SPLINE.lattice.shape, dtype=torch.float64)
    coefficients_mm[0, 2, 3, 3] = 18.0
    return SPLINE.params(coefficients_mm=coefficients_mm)


@each_closed
@pytest.mark.parametrize("seed", range(3))
def test_a_closed_form_undoes_and_is_undone(transform: Transform, seed: int) -> None:
    params = draw_params(transform, seed=seed)
    points_mm = 40 * normal((50, 3), seed=seed)
    result = invert(Motion(transform, params))
    assert result.status is InverseStatus.CLOSED_FORM
    assert result.residual_mm < 1e-10
    assert result.folding is None
    there_mm = transform.points(params, points_mm)
    assert float((there_mm - points_mm).norm(dim=-1).max()) > 0.5
    assert float((result.motion.points(there_mm) - points_mm).abs().max()) < 1e-9
    back_mm = result.motion.points(points_mm)
    assert float((transform.points(params, back_mm) - points_mm).abs().max()) < 1e-9


@each_closed
def test_the_inverse_of_the_inverse_is_the_transform(transform: Transform) -> None:
    params = draw_params(transform, seed=1)
    back = invert(Motion(transform, params))
    again = invert(back.motion)
    points_mm = 40 * normal((50, 3), seed=2)
    expected = transform.points(params, points_mm)
    assert float((again.motion.points(points_mm) - expected).abs().max()) < 1e-9


def test_the_inverse_of_a_velocity_says_how_far_it_is_off() -> None:
    flow = Velocity.over(GRID, (5, 5, 5))
    params = draw_params(flow, seed=1, size_voxels=1.0)
    result = invert(Motion(flow, params))
    assert result.status is InverseStatus.CLOSED_FORM
    assert torch.equal(result.motion.params, -params)
    points_mm = centers_mm(GRID)
    away = flow.points(params, result.motion.points(points_mm)) - points_mm
    assert result.residual_mm == pytest.approx(float(away.norm(dim=-1).max()), rel=1e-6)
    assert 0 < result.residual_mm < 0.1


@each_open
def test_points_come_back_to_the_tolerance(transform: Transform) -> None:
    params, start_mm = gentle(transform), centers_mm(GRID)[::3, ::3, ::3]
    there_mm = transform.points(params, start_mm)
    for tolerance_mm in (1e-3, 1e-8):
        found = invert_points(Motion(transform, params), there_mm, tolerance_mm=tolerance_mm)
        assert found.status is InverseStatus.CONVERGED
        assert found.xyz_mm.shape == start_mm.shape
        assert found.residual_mm.shape == start_mm.shape[:-1]
        assert float(found.residual_mm.max()) <= tolerance_mm
        away_mm = (transform.points(params, found.xyz_mm) - there_mm).norm(dim=-1)
        torch.testing.assert_close(away_mm, found.residual_mm, rtol=0, atol=1e-12)
    # Where nothing folds there is one inverse, and Newton finds it however near the points are asked for.
    assert float((found.xyz_mm - start_mm).abs().max()) < 1e-6


def test_points_that_did_not_come_back_are_said_to_have_not() -> None:
    params = gentle(SPLINE)
    there_mm = SPLINE.points(params, centers_mm(GRID)[::3, ::3, ::3])
    few = invert_points(Motion(SPLINE, params), there_mm, tolerance_mm=1e-10, max_steps=1)
    assert few.status is InverseStatus.NOT_CONVERGED
    assert float(few.residual_mm.max()) > 1e-10
    many = invert_points(Motion(SPLINE, params), there_mm, tolerance_mm=1e-10)
    assert float(many.residual_mm.max()) < float(few.residual_mm.max())


def test_points_of_a_fold_are_reached_all_the_same() -> None:
    # Several points go there; any of them will do, and none is an error.
    params = folded()
    there_mm = SPLINE.points(params, centers_mm(GRID)[::2, ::2, ::2])
    found = invert_points(Motion(SPLINE, params), there_mm)
    reached = found.residual_mm <= 1e-6
    assert float(reached.double().mean()) > 0.9
    assert found.status is (InverseStatus.CONVERGED if reached.all() else InverseStatus.NOT_CONVERGED)


@each_open
def test_an_inverse_on_a_grid_undoes_at_every_centre(transform: Transform) -> None:
    params = gentle(transform)
    result = invert(Motion(transform, params), GRID, tolerance_mm=1e-8)
    assert result.status is InverseStatus.CONVERGED
    assert isinstance(result.motion.transform, DisplacementField)
    assert result.motion.transform.grid == GRID
    assert result.folding is not None
    assert result.folding.n_folded == 0
    centers = centers_mm(GRID)
    away = transform.points(params, result.motion.points(centers)) - centers
    assert float(away.norm(dim=-1).max()) <= 1e-8 * (1 + 1e-3)
    assert result.residual_mm == pytest.approx(float(away.norm(dim=-1).max()), abs=1e-10)


def test_an_inverse_is_made_on_the_transforms_own_grid_unless_told() -> None:
    assert invert(Motion(SPLINE, gentle(SPLINE))).motion.grid == GRID
    assert invert(Motion(SPLINE, gentle(SPLINE)), MOVING).motion.grid == MOVING


def test_an_inverse_between_centres_is_linear() -> None:
    params = gentle(SPLINE)
    result = invert(Motion(SPLINE, params))
    inner = centers_mm(GRID)[1:-1, 1:-1, 1:-1].reshape(-1, 3)
    spacing_mm = torch.tensor(GRID.spacing_mm[::-1], dtype=torch.float64)
    between = inner + (torch.rand(inner.shape, generator=torch.Generator().manual_seed(1)) - 0.5) * spacing_mm
    away = SPLINE.points(params, result.motion.points(between)) - between
    assert 1e-4 < float(away.norm(dim=-1).max()) < 0.1


def test_too_few_steps_are_said_to_be_too_few() -> None:
    result = invert(Motion(SPLINE, gentle(SPLINE)), tolerance_mm=1e-10, max_steps=2)
    assert result.status is InverseStatus.NOT_CONVERGED
    assert result.residual_mm > 1e-10


def test_a_fold_is_named_by_its_place() -> None:
    params = folded()
    where = folding(Motion(SPLINE, params))
    assert where.n_folded > 0
    x, y, z = where.worst_mm
    expected = (
        f"BSpline folds at {where.n_folded} of {GRID.n_voxels} voxels, worst (determinant "
        f"{where.lowest_determinant:.3g}) at (x, y, z) = ({x:.4g}, {y:.4g}, {z:.4g}) mm"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(expected)):
        result = invert(Motion(SPLINE, params))
    assert result.status is InverseStatus.FOLDED
    assert result.folding == where
    assert result.residual_mm > 0
    assert bool(torch.isfinite(result.motion.params).all())
    with pytest.warns(RuntimeWarning, match=re.escape(expected)):
        Motion(SPLINE, params).inverse()


def test_who_reads_the_status_is_not_warned_of_a_fold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = best_inverse(Motion(SPLINE, folded()))
    assert found.status is InverseStatus.FOLDED
    with pytest.warns(RuntimeWarning, match="folds"):
        warned = invert(Motion(SPLINE, folded()))
    assert torch.equal(found.motion.params, warned.motion.params)
