"""Bending energy: the integral it says it is, without value for affine displacements, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import BendingEnergy, BSpline, bending
from tests.cases.transforms import REFERENCE, centers_mm, draw_params, normal

SPLINE = BSpline.over(REFERENCE, (5, 4, 6))


def integrated(spline: BSpline, params: torch.Tensor) -> float:
    """Return the mean over the box of all squared second derivatives of T, by Gauss' rule in every cell."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    places, shares = [], []
    for low_mm, n, d_mm in zip(
        spline.grid.low_mm, spline.lattice.shape, spline.lattice.spacing_mm, strict=True
    ):
        cells = np.arange(n - 3)
        places.append(low_mm + (cells[:, None] + (nodes + 1) / 2).ravel() * d_mm)
        shares.append(np.tile(weights / 2, n - 3) / (n - 3))
    z, y, x = np.meshgrid(*places, indexing="ij")
    at_mm = torch.from_numpy(np.stack([x, y, z], axis=-1))
    total = torch.zeros(at_mm.shape[:-1], dtype=torch.float64)
    step_mm = 1e-4
    for along in step_mm * torch.eye(3, dtype=torch.float64):
        ahead, behind = spline.jacobian(params, at_mm + along), spline.jacobian(params, at_mm - along)
        total += ((ahead - behind) / (2 * step_mm)).square().sum(dim=(-2, -1))
    return float(torch.einsum("zyx,z,y,x->", total, *(torch.from_numpy(share) for share in shares)))


@pytest.mark.parametrize("control_shape", [(4, 4, 4), (5, 4, 6), (6, 7, 5)], ids=str)
def test_the_value_is_the_integral(control_shape: tuple[int, int, int]) -> None:
    spline = BSpline.over(REFERENCE, control_shape)
    params = draw_params(spline, seed=1)
    value = BendingEnergy(spline).value(params)
    assert value > 1e-3
    assert value == pytest.approx(integrated(spline, params), rel=1e-6)


def test_affine_displacements_do_not_bend() -> None:
    matrix, shift = normal((3, 3), seed=1), normal((3,), seed=2)
    displacement_mm = (centers_mm(SPLINE.lattice) @ matrix.T + shift).movedim(-1, 0)
    params = SPLINE.params(coefficients_mm=displacement_mm)
    energy = BendingEnergy(SPLINE)
    typical = energy.value(draw_params(SPLINE, seed=3))
    assert abs(energy.value(params)) < 1e-12 * typical
    # Nor do they change the energy of anything else.
    bent = draw_params(SPLINE, seed=3)
    assert energy.value(bent + params) == pytest.approx(typical)


def test_refinement_keeps_the_energy() -> None:
    params = draw_params(SPLINE, seed=4)
    refined = SPLINE.refined(params)
    finer, finer_params = refined.transform, refined.params
    assert BendingEnergy(finer).value(finer_params) == pytest.approx(BendingEnergy(SPLINE).value(params))


def test_the_energy_of_a_known_curve() -> None:
    # u_x = x^2 / 2 has one second derivative, of 1/mm. It is the spline with c = x^2 / 2 - spacing^2 / 6.
    grid = VolumeGrid(shape=(4, 4, 8), spacing_mm=(1.0, 1.0, 1.0), center_mm=(0.0, 0.0, 0.0))
    spline = BSpline.over(grid, (4, 4, 7))
    x_mm = centers_mm(spline.lattice)[..., 0]
    d_mm = spline.lattice.spacing_mm[2]
    coefficients_mm = torch.zeros(3, *spline.lattice.shape, dtype=torch.float64)
    coefficients_mm[0] = (x_mm**2 - d_mm**2 / 3) / 2
    params = spline.params(coefficients_mm=coefficients_mm)
    at_mm = torch.tensor([1.5, 0.2, -0.4], dtype=torch.float64)
    assert float((spline.points(params, at_mm) - at_mm)[0]) == pytest.approx(1.5**2 / 2)
    assert BendingEnergy(spline).value(params) == pytest.approx(1.0)


def test_the_gradient_and_the_hessian_are_those_of_a_quadratic_form() -> None:
    energy = BendingEnergy(SPLINE)
    p, d, e = (draw_params(SPLINE, seed=i) for i in (5, 6, 7))
    value, gradient, curved = energy.value(p), energy.gradient(p), energy.hessian_vector(p, d)
    # E(p + h d) = E + h <g, d> + h^2 / 2 <d, H d>, without a remainder.
    for h in (0.5, -2.0):
        expected = value + h * float(gradient @ d) + h**2 / 2 * float(d @ curved)
        assert energy.value(p + h * d) == pytest.approx(expected, rel=1e-11)
    assert float(e @ curved) == pytest.approx(float(d @ energy.hessian_vector(p, e)), rel=1e-11)
    torch.testing.assert_close(energy.gradient(p + d) - gradient, curved)
    assert float(d @ curved) > 0
    assert torch.equal(energy.hessian_vector(e, d), curved)


def test_the_energy_does_not_depend_on_where_or_in_what_units_the_grid_is() -> None:
    # Coefficients in mm on the same lattice bend the same, whatever voxels the parameters count in.
    coefficients_mm = normal((3, *SPLINE.lattice.shape), seed=8)
    other = BSpline(REFERENCE.refine(3), SPLINE.lattice)
    moved = BSpline.over(
        VolumeGrid(shape=REFERENCE.shape, spacing_mm=REFERENCE.spacing_mm, center_mm=(90.0, 0.0, 5.0)),
        (5, 4, 6),
    )
    expected = BendingEnergy(SPLINE).value(SPLINE.params(coefficients_mm=coefficients_mm))
    for spline in (other, moved):
        got = BendingEnergy(spline).value(spline.params(coefficients_mm=coefficients_mm))
        assert got == pytest.approx(expected)


def test_the_integrals_are_exact_to_rounding() -> None:
    # The basis functions sum to 1, so the means of all their products do too.
    spline = BSpline.over(VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0)), (5, 6, 7))
    for n, spacing_mm in zip(spline.lattice.shape, spline.lattice.spacing_mm, strict=True):
        values, slopes, bends = (float(gram.sum()) for gram in bending._grams(n, spacing_mm))
        assert abs(values - 1) < 1e-14
        assert abs(slopes) < 1e-14
        assert abs(bends) < 1e-13
