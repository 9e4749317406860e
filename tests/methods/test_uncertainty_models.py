"""How sure motions of other models with control points are: velocity fields, and an affine motion before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Study, uncertainty_of
from duotomo.methods.motion_prior import FAR_MM, STIFFNESS
from duotomo.methods.preconditioner import motion_curvatures
from duotomo.methods.uncertainty import COMPRESSED_MM, profiled_curvature
from duotomo.transforms import Affine, BSpline, Motion, Transform, Velocity, chain
from duotomo.transforms.recompression import Recompression
from duotomo.transforms.units import spacing_xyz
from tests.cases.studies import GRID, shifted, study, truth
from tests.cases.transforms import compressions
from tests.methods.test_profiled_curvature import dense
from tests.methods.test_uncertainty import CENTERS, noisier, solved

SHAPE = (4, 4, 4)
MODELS: dict[str, Callable[[VolumeGrid], Transform]] = {
    "bspline": BSpline.shaped(SHAPE),
    "velocity": lambda grid: Velocity.over(grid, SHAPE, finer=1),
    "affine, then bspline": chain(Affine, BSpline.shaped(SHAPE)),
}
CASES = ["bspline", pytest.param("velocity", marks=pytest.mark.slow), "affine, then bspline"]


@pytest.fixture(scope="module")
def visits() -> Study:
    return noisier(study(shifted(2.0, -1.0, 1.0), dtype=torch.float64), 0.01)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings.staged(GRID, Affine)


def bent(transform: Transform) -> Motion:
    """Return a motion that is not linear in its parameters."""
    start = shifted(2.0, -1.0, 1.0).convert(transform)
    generator = torch.Generator().manual_seed(2)
    more = 0.2 * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)
    return Motion(transform, start.params + more)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_as_a_dense_matrix(model: str, visits: Study, settings: Settings) -> None:
    transform = MODELS[model](GRID)
    result = replace(
        solved(visits, transform), motions=(bent(transform),), volume=truth(dtype=torch.float64) + 0.001
    )
    profiled, problem = profiled_curvature(visits, settings, result)
    (params,) = profiled.params
    curvature, _ = dense(problem, profiled.volume, [params])
    (diagonal,) = (one.diagonal for one in motion_curvatures(problem.misfit, profiled.volume, [params]))
    (bending,) = problem.bending([diagonal])
    assert bending is not None
    product = bending.curvature(transform.identity())
    units = torch.eye(transform.n_params, dtype=torch.float64)
    far = (float(spacing_xyz(GRID).mean()) / FAR_MM) ** 2
    precision = STIFFNESS * torch.stack([product(unit) for unit in units]) + far * units
    covariance = torch.linalg.inv((curvature + curvature.T) / 2 + precision)
    points = transform.points
    slopes = torch.func.jacrev(lambda p: points(p, CENTERS))(params)
    expected = slopes @ covariance @ slopes.transpose(1, 2)
    found = uncertainty_of(
        visits, settings, result, form="laplace", n_modes=transform.n_params, tolerance=1e-7, n_steps=2000
    )[0]
    scale = expected.diagonal(dim1=1, dim2=2).rsqrt()
    difference = (found.covariance_mm2(CENTERS) - expected) * scale[:, :, None] * scale[:, None, :]
    assert float(difference.abs().max()) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_few_modes_say_nearly_the_same(model: str, visits: Study, settings: Settings) -> None:
    """What lies beyond the modes is the prior's, whatever the model: nothing cancels."""
    transform = MODELS[model](GRID)
    result = replace(solved(visits, transform), motions=(bent(transform),), volume=truth(dtype=torch.float64))
    (few,) = uncertainty_of(visits, settings, result, n_modes=100)
    (most,) = uncertainty_of(visits, settings, result, n_modes=transform.n_params)
    found = few.deviation_mm(CENTERS)
    assert bool(found.isfinite().all())
    assert bool((found > 0).all())
    torch.testing.assert_close(found, most.deviation_mm(CENTERS), rtol=0.15, atol=0)
    edge = torch.tensor([[8.0, 20.0, 24.0], [-16.0, 20.0, 24.0]])
    air = torch.tensor([[22.0, 3.0, 45.0], [-22.0, 40.0, 8.0]])
    for one in (few, most):
        assert one.is_determined(edge).tolist() == [True, True]
        assert one.is_determined(air).tolist() == [False, False]
    first = few.least_determined(CENTERS)[0]
    assert 0 < first.deviation_mm < 5


def test_a_velocity_field_has_deviations(visits: Study, settings: Settings) -> None:
    transform = MODELS["velocity"](GRID)
    result = replace(solved(visits, transform), motions=(bent(transform),), volume=truth(dtype=torch.float64))
    (found,) = uncertainty_of(visits, settings, result, n_modes=40)
    deviations = found.deviation_mm(CENTERS)
    assert bool(deviations.isfinite().all())
    assert 0 < float(deviations.min()) <= float(deviations.max()) < 5


@pytest.mark.parametrize("with_control_points", [False, True])
def test_between_compressions_no_residual_tells_what_mechanics_leaves(
    with_control_points: bool, visits: Study, settings: Settings
) -> None:
    residual = MODELS["bspline"](GRID) if with_control_points else None
    assert residual is None or isinstance(residual, BSpline)
    transform = Recompression(GRID, compressions(GRID), residual)
    motion = Motion(transform, transform.identity())
    result = replace(solved(visits, transform), motions=(motion,), volume=truth(dtype=torch.float64))
    (found,) = uncertainty_of(visits, settings, result, n_modes=20)
    of_parameters = replace(found, beside_mm=0.0)
    more = found.covariance_mm2(CENTERS) - of_parameters.covariance_mm2(CENTERS)
    torch.testing.assert_close(more, (COMPRESSED_MM**2 * torch.eye(3, dtype=torch.float64)).expand_as(more))
    (plain,) = uncertainty_of(visits, settings, result, n_modes=20, form="laplace")
    assert plain.beside_mm == 0
