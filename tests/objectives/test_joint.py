"""The joint misfit of several visits: against its parts, at the truth, its cost, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DtypeError, GeometryError, NonFiniteError, ShapeError
from duotomo.objectives import JointMisfit, Nonnegativity, ProjectionMisfit, Term
from duotomo.operators import Projector, SplineBasis
from duotomo.operators.counted import Counted
from duotomo.transforms import Affine, Rigid
from tests.cases.objectives import SPLINE, joint, joint_of_spline, visit_params, visits, volume
from tests.cases.operators import sweep
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal

DOUBLE = torch.float64
F, PARAMS = volume(20), visit_params()
N = REFERENCE.n_voxels

each_joint = pytest.mark.parametrize("build", [joint, joint_of_spline], ids=["voxels", "spline"])


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-11) -> bool:
    return float((got - expected).norm()) <= tolerance * float(expected.norm())


def test_split_undoes_join() -> None:
    misfit = joint()
    f, params = misfit.split(misfit.join(F, PARAMS))
    assert torch.equal(f, F)
    assert all(torch.equal(a, b) for a, b in zip(params, PARAMS, strict=True))
    assert misfit.shape == (N + 6 + SPLINE.n_params,)
    single = joint(torch.float32)
    x = single.join(F.float(), PARAMS)
    assert x.dtype == torch.float32
    f, params = single.split(x)
    assert f.data_ptr() == x.data_ptr()
    assert [row.dtype for row in params] == [DOUBLE, DOUBLE]


def test_it_is_the_sum_over_visits_of_composed_misfits() -> None:
    # The same model, written as an equation of operators.
    misfit, total, gradient = joint(), 0.0, torch.zeros_like(F)
    warps = [None, Rigid(REFERENCE).warp(PARAMS[0], REFERENCE, MOVING), SPLINE.warp(PARAMS[1])]
    for term, warp in zip(visits(), warps, strict=True):
        operator = term.projector if warp is None else term.projector @ warp
        value, slope = ProjectionMisfit(operator, term.data, term.weights).value_and_gradient(F)
        total, gradient = total + value, gradient + slope
    got, slope = misfit.value_and_gradient(misfit.join(F, PARAMS))
    assert got == pytest.approx(total, rel=1e-12)
    assert close(slope[:N].view(F.shape), gradient)


def test_with_a_basis_the_warps_act_on_the_volume_it_makes() -> None:
    misfit, basis = joint_of_spline(), SplineBasis(REFERENCE)
    total, gradient = 0.0, torch.zeros_like(F)
    rigid = Rigid(REFERENCE).warp(PARAMS[0], REFERENCE, MOVING, cubic=True)
    for term, warp in zip(visits(), [None, rigid, SPLINE.warp(PARAMS[1], cubic=True)], strict=True):
        operator = term.projector @ basis if warp is None else term.projector @ warp @ basis
        value, slope = ProjectionMisfit(operator, term.data, term.weights).value_and_gradient(F)
        total, gradient = total + value, gradient + slope
    got, slope = misfit.value_and_gradient(misfit.join(F, PARAMS))
    assert got == pytest.approx(total, rel=1e-12)
    assert close(slope[:N].view(F.shape), gradient)
    # Along the parameters, it is the misfit of the volume that the coefficients make.
    terms = [replace(term, cubic=True) for term in visits()]
    of_volume = JointMisfit(terms, REFERENCE)
    assert close(slope[N:], of_volume.value_and_gradient(of_volume.join(basis(F), PARAMS))[1][N:])


@each_joint
def test_its_gradient_is_that_of_its_parts(build: Callable[[], JointMisfit]) -> None:
    misfit = build()
    x = misfit.join(F, PARAMS)
    value, gradient = misfit.value_and_gradient(x)
    of_volume, of_params = misfit.volume_part(PARAMS), misfit.params_part(F)
    volume_value, volume_slope = of_volume.value_and_gradient(F)
    assert volume_value == pytest.approx(value, rel=1e-13)
    assert close(gradient[:N].view(F.shape), volume_slope)
    params_value, params_slope = of_params.value_and_gradient(torch.cat(PARAMS))
    assert close(gradient[N:], params_slope)
    # The reference visit does not depend on the parameters, and is left out.
    first, shown = visits()[0], F if misfit.basis is None else misfit.basis(F)
    assert params_value + ProjectionMisfit(first.projector, first.data).value(shown) == pytest.approx(value)


@each_joint
def test_its_curvature_has_that_of_its_parts_on_the_diagonal(build: Callable[[], JointMisfit]) -> None:
    misfit = build()
    product = misfit.curvature(misfit.join(F, PARAMS))
    d_f, d_p = normal(F.shape, seed=1), normal((misfit.n_params,), seed=2)
    alone = product(torch.cat([d_f.flatten(), torch.zeros_like(d_p)]))
    assert close(alone[:N].view(F.shape), misfit.volume_part(PARAMS).curvature(F)(d_f))
    alone = product(torch.cat([torch.zeros(N, dtype=DOUBLE), d_p]))
    assert close(alone[N:], misfit.params_part(F).curvature(torch.cat(PARAMS))(d_p))
    # And the coupling between them is there.
    assert float(alone[:N].norm()) > 0


def explained(*, cubic: bool) -> JointMisfit:
    """Return the joint misfit whose data the volume F, or the spline of its coefficients, explains."""
    if not cubic:
        return JointMisfit(visits(truth=F, params=PARAMS), REFERENCE)
    shown = SplineBasis(REFERENCE)(F)
    rigid = Rigid(REFERENCE).warp(PARAMS[0], REFERENCE, MOVING, cubic=True)
    images = [shown, rigid(shown), SPLINE.warp(PARAMS[1], cubic=True)(shown)]
    pairs = zip(visits(), images, strict=True)
    terms = [replace(term, data=term.projector(image), cubic=True) for term, image in pairs]
    return JointMisfit(terms, REFERENCE, basis=SplineBasis(REFERENCE))


@pytest.mark.parametrize("cubic", [False, True], ids=["voxels", "spline"])
def test_the_truth_is_a_minimum_where_the_curvature_is_exact(cubic: bool) -> None:
    misfit = explained(cubic=cubic)
    x = misfit.join(F, PARAMS)
    value, gradient = misfit.value_and_gradient(x)
    d, h = normal(misfit.shape, seed=3), 1e-7
    away, slope = misfit.value_and_gradient(x + 0.1 * d)
    assert value < 1e-25 * away
    assert float(gradient.norm()) < 1e-12 * float(slope.norm())
    # Without a residual, Gauss and Newton agree.
    near = misfit.value_and_gradient(x + h * d)[1] / h
    assert close(near, misfit.curvature(x)(d), 1e-4)


def test_applications_are_counted_exactly() -> None:
    misfit = joint()
    x, d = misfit.join(F, PARAMS), normal(misfit.shape, seed=4)
    misfit.value(x)
    assert misfit.applications == 3
    misfit.value_and_gradient(x)
    assert misfit.applications == 3 + 6
    product = misfit.curvature(x)
    assert misfit.applications == 3 + 6
    product(d)
    product(d)
    assert misfit.applications == 3 + 6 + 12
    assert [operator.applications for operator in misfit.operators] == [7, 7, 7]


def test_the_parts_count_on_the_same_projectors() -> None:
    misfit, rows = joint(), torch.cat(PARAMS)
    of_volume, of_params = misfit.volume_part(PARAMS), misfit.params_part(F)
    of_volume.value_and_gradient(F)
    of_volume.curvature(F)(F)
    assert misfit.applications == of_volume.applications == 12
    of_params.value(rows)
    of_params.value_and_gradient(rows)
    of_params.curvature(rows)(rows)
    assert misfit.applications == 12 + 2 * (1 + 2 + 2)


def test_a_projector_that_two_visits_share_is_counted_once() -> None:
    shared = Counted(Projector(grid=REFERENCE, acquisition=sweep()))
    data = normal(shared.range, seed=5)
    moved = Term(projector=shared, data=data, transform=Rigid(REFERENCE))
    misfit = JointMisfit([Term(projector=shared, data=data), moved], REFERENCE)
    misfit.value(misfit.join(F, PARAMS[:1]))
    assert misfit.applications == shared.applications == 2


@pytest.mark.parametrize("central_step", [None, 0.02], ids=["exact", "central"])
def test_the_normal_equations_of_the_parameters(central_step: float | None) -> None:
    second = Affine(REFERENCE)
    rows = [draw_params(second, seed=6, size_voxels=0.5, turn_deg=15.0), PARAMS[0]]
    terms = visits(second=second)
    third = Term(
        projector=terms[2].projector,
        data=terms[2].data,
        weights=terms[2].weights,
        transform=Rigid(REFERENCE),
    )
    part = JointMisfit([*terms[:2], third], REFERENCE, central_step=central_step).params_part(F)
    x = torch.cat(rows)
    before = part.applications
    value, gradient, matrix = part.normal_equations(x)
    # One projection for each of 12 + 6 parameters, and one residual for each visit.
    assert part.applications - before == 12 + 6 + 2
    expected, slope = part.value_and_gradient(x)
    assert value == pytest.approx(expected)
    assert close(gradient, slope)
    product = part.curvature(x)
    columns = torch.stack([product(e) for e in torch.eye(18, dtype=DOUBLE)])
    assert close(matrix, columns)
    assert torch.count_nonzero(matrix[:12, 12:]) == 0


def test_central_differences_come_near_the_exact_gradient() -> None:
    terms = visits()
    exact, central = (JointMisfit(terms[:2], REFERENCE, central_step=step) for step in (None, 1e-4))
    x = exact.join(F, PARAMS[:1])
    slope, near = exact.value_and_gradient(x)[1], central.value_and_gradient(x)[1]
    assert torch.equal(near[:N], slope[:N])
    assert 0 < float((near - slope)[N:].norm()) < 1e-2 * float(slope[N:].norm())


def test_where_a_transform_is_undefined_the_value_is_infinite() -> None:
    affine = Affine(REFERENCE)
    misfit = JointMisfit(visits(second=affine), REFERENCE)
    singular = torch.zeros(12, dtype=DOUBLE)
    singular[:9] = affine.params(matrix=torch.zeros(3, 3), translation_mm=(0, 0, 0))[:9]
    away = torch.zeros(12, dtype=DOUBLE)
    away[9] = 1000.0
    x = misfit.join(F, [torch.zeros(12, dtype=DOUBLE), PARAMS[1]])
    part = misfit.params_part(F)
    for row in (singular, away):
        x[N : N + 12] = row
        value, gradient = misfit.value_and_gradient(x)
        assert value == misfit.value(x) == math.inf
        assert gradient.shape == x.shape
        assert torch.count_nonzero(gradient) == 0
        with pytest.raises(GeometryError, match="Affine: expected"):
            misfit.curvature(x)
        value, gradient = part.value_and_gradient(x[N:])
        assert value == part.value(x[N:]) == math.inf
        assert gradient.shape == part.shape
        assert torch.count_nonzero(gradient) == 0
        with pytest.raises(GeometryError, match="Affine: expected"):
            part.normal_equations(x[N:])


def test_numbers_that_are_not_finite_are_an_error_and_no_infinite_value() -> None:
    misfit = joint()
    for at in (0, N):
        x = misfit.join(F, PARAMS)
        x[at] = math.nan
        with pytest.raises(NonFiniteError, match="to be finite"):
            misfit.value(x)
        with pytest.raises(NonFiniteError, match="to be finite"):
            misfit.value_and_gradient(x)


def test_one_visit_alone_is_a_reconstruction() -> None:
    term = visits()[0]
    misfit = JointMisfit([term], REFERENCE)
    alone = ProjectionMisfit(term.projector, term.data)
    value, gradient = misfit.value_and_gradient(misfit.join(F, []))
    assert misfit.split(misfit.join(F, []))[1] == []
    assert value == alone.value(F)
    assert torch.equal(gradient.view(F.shape), alone.value_and_gradient(F)[1])
    with pytest.raises(
        ShapeError, match="params_part: expected at least one visit with a transform; got none"
    ):
        misfit.params_part(F)


def test_the_order_of_the_visits_does_not_matter() -> None:
    misfit = joint()
    turned = JointMisfit(visits()[::-1], REFERENCE)
    assert turned.value(turned.join(F, PARAMS[::-1])) == pytest.approx(misfit.value(misfit.join(F, PARAMS)))


def test_priors_act_on_their_part() -> None:
    misfit = joint()
    x = misfit.join(F, PARAMS)
    gradient = misfit.on_volume(Nonnegativity(REFERENCE)).value_and_gradient(x)[1]
    assert torch.equal(gradient[:N].view(F.shape), F.clamp(max=0))
    assert torch.count_nonzero(gradient[N:]) == 0


def test_no_visit() -> None:
    with pytest.raises(ShapeError, match="JointMisfit: expected at least one visit; got none"):
        JointMisfit([], REFERENCE)


def test_another_grid_without_a_transform() -> None:
    projector = Projector(grid=MOVING, acquisition=sweep())
    with pytest.raises(
        GeometryError, match="JointMisfit: expected a visit without a transform on the reference"
    ):
        JointMisfit([Term(projector=projector, data=normal(projector.range, seed=1), grid=MOVING)], REFERENCE)


def test_a_projector_of_another_grid() -> None:
    projector = Projector(grid=MOVING, acquisition=sweep())
    term = Term(projector=projector, data=normal(projector.range, seed=1), transform=Rigid(REFERENCE))
    with pytest.raises(
        ShapeError, match=r"expected a projector of volumes \(z, y, x\) = \(6, 7, 9\); got Proj"
    ):
        JointMisfit([term], REFERENCE)


def test_visits_of_different_precision() -> None:
    terms = [visits()[0], visits(torch.float32)[1]]
    with pytest.raises(DtypeError, match=r"JointMisfit: expected data of torch.float64; got torch.float32"):
        JointMisfit(terms, REFERENCE)


@pytest.mark.parametrize("central_step", [0.0, -1.0, math.nan])
def test_a_step_that_is_not_positive(central_step: float) -> None:
    with pytest.raises(GeometryError, match="JointMisfit: expected a positive central_step"):
        JointMisfit(visits(), REFERENCE, central_step=central_step)


def test_parameters_of_another_number_of_visits() -> None:
    with pytest.raises(ShapeError, match="JointMisfit: expected parameters for 2 visits; got 1"):
        joint().join(F, PARAMS[:1])
    with pytest.raises(ShapeError, match="JointMisfit: expected parameters for 2 visits; got 3"):
        joint().volume_part([*PARAMS, PARAMS[0]])
    with pytest.raises(ShapeError, match=r"BSpline: expected params"):
        joint().join(F, [PARAMS[0], PARAMS[0]])


def test_a_volume_of_another_shape_or_precision() -> None:
    misfit = joint()
    with pytest.raises(ShapeError, match=r"JointMisfit.join: expected volume \(z, y, x\) = \(6, 7, 9\)"):
        misfit.join(F[:5], PARAMS)
    with pytest.raises(ShapeError, match=r"JointMisfit.params_part: expected volume \(z, y, x\)"):
        misfit.params_part(F[:5])
    with pytest.raises(DtypeError, match=r"JointMisfit: expected volume of torch.float64; got torch.float32"):
        misfit.join(F.float(), PARAMS)
    with pytest.raises(DtypeError, match=r"JointMisfit: expected volume of torch.float64; got torch.float32"):
        misfit.params_part(F.float())
    with pytest.raises(DtypeError, match=r"JointMisfit: expected x of torch.float64; got torch.float32"):
        misfit.value(misfit.join(F, PARAMS).float())
