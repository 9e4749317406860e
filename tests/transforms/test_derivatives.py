"""Derivatives in the parameters: the two products agree, and both are those of the warp, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid, world_to_voxel
from duotomo.transforms import DisplacementField, Transform, Translation
from duotomo.transforms.maps import LatticeMap
from duotomo.transforms.transform import FEW_PARAMS
from tests.cases.transforms import MOVING, REFERENCE, centers_mm, draw_params, normal, transforms
from tests.strategies import grid_pairs

Build = Callable[[VolumeGrid], Transform]
Warped = Callable[[torch.Tensor], torch.Tensor]

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

few = [(name, build) for name, build in transforms() if build(REFERENCE).n_params <= FEW_PARAMS]
few.append(("tiny displacement field", lambda grid: DisplacementField(grid.coarsen((3, 4, 3)))))

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])
each_of_few = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in few])
each_interpolation = pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])


def blobs(grid: VolumeGrid) -> torch.Tensor:
    """Return broad Gaussians of either sign, sampled at the voxel centres of a grid."""
    total = torch.zeros(grid.shape, dtype=torch.float64)
    middle = torch.tensor(grid.center_mm[::-1], dtype=torch.float64)
    for i, amount in enumerate((1.0, -0.7, 0.5)):
        away_mm = centers_mm(grid) - middle - 2 * normal((3,), seed=i)
        total += amount * torch.exp(-away_mm.square().sum(dim=-1) / (2 * 2.5**2))
    return total


def smooth_at(transform: Transform, params: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return which voxels of the moving grid stay between the same knots for all of these parameters.

    Knots are where slopes jump, or bend: the reference grid's voxel centres, and those of a field on the way.
    """

    def cells(p: torch.Tensor) -> torch.Tensor:
        at, found = centers_mm(MOVING), []
        for stage in transform.maps(p):
            if isinstance(stage, LatticeMap) and stage.degree == 1:
                found.append(world_to_voxel(stage.lattice, at.numpy()))
            at = stage.points(at)
        found.append(world_to_voxel(REFERENCE, at.numpy()))
        return torch.from_numpy(np.floor(np.concatenate(found, axis=-1)))

    first, *others = (cells(p) for p in params)
    return torch.stack([(other == first).all(dim=-1) for other in others]).all(dim=0)


def order(steps: Sequence[float], errors: Sequence[float]) -> float:
    """Return the power of the step that the errors fall by."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def start(build: Build, *, seed: int = 1) -> tuple[Transform, torch.Tensor, torch.Tensor]:
    """Return a transform, parameters that keep most of the moving grid inside, and a direction."""
    transform = build(REFERENCE)
    params = draw_params(transform, seed=seed, size_voxels=0.5, turn_deg=30.0, stretch=0.1)
    return transform, params, normal((transform.n_params,), seed=seed + 1)


@each_interpolation
@each_transform
def test_jvp_and_vjp_are_transposes_between_any_grids(build: Build, cubic: bool) -> None:
    seen = []

    @settings(max_examples=8)
    @given(pair=grid_pairs(), seed=st.integers(0, 2**32))
    def law(pair: tuple[VolumeGrid, VolumeGrid], seed: int) -> None:
        transform = build(pair[0])
        params, direction = draw_params(transform, seed=seed), normal((transform.n_params,), seed=seed + 1)
        volume, image = normal(pair[0].shape, seed=seed + 2), normal(pair[1].shape, seed=seed + 3)
        try:
            pushed = transform.jvp(params, volume, direction, *pair, cubic=cubic)
        except GeometryError:
            # Drawn so far away that the grids do not meet.
            assume(False)
        pulled = transform.vjp(params, volume, image, *pair, cubic=cubic)
        size = max(float(pushed.norm() * image.norm()), float(pulled.norm() * direction.norm()))
        assume(size > 0)
        seen.append(seed)
        assert abs(float((pushed * image).sum() - pulled @ direction)) < 1e-10 * size

    law()
    assert len(seen) >= 4


@each_dtype
@each_interpolation
@each_transform
def test_jvp_and_vjp_are_transposes_on_batches(build: Build, cubic: bool, dtype: torch.dtype) -> None:
    transform, params, direction = start(build)
    volumes = normal((2, 1, *REFERENCE.shape), seed=3, dtype=dtype)
    images = normal((2, 1, *MOVING.shape), seed=4, dtype=dtype)
    pushed = transform.jvp(params, volumes, direction, REFERENCE, MOVING, cubic=cubic)
    pulled = transform.vjp(params, volumes, images, REFERENCE, MOVING, cubic=cubic)
    assert (pushed.shape, pushed.dtype) == (images.shape, dtype)
    assert (pulled.shape, pulled.dtype) == (params.shape, torch.float64)
    total = float((pushed.double() * images.double()).sum())
    assert abs(total - float(pulled @ direction)) < TOLERANCE[dtype] * float(pushed.norm() * images.norm())
    one = transform.jvp(params, volumes[1, 0], direction, REFERENCE, MOVING, cubic=cubic)
    assert torch.equal(one, pushed[1, 0])
    each = [
        transform.vjp(params, v, g, REFERENCE, MOVING, cubic=cubic)
        for v, g in zip(volumes.flatten(0, 1), images.flatten(0, 1), strict=True)
    ]
    assert float((torch.stack(each).sum(dim=0) - pulled).norm()) < 1e-12 * float(pulled.norm())


@each_transform
def test_jvp_is_linear_in_the_direction(build: Build) -> None:
    # However far it points: a direction need not be a transform.
    transform, params, direction = start(build)
    volume = normal(REFERENCE.shape, seed=3)
    one = transform.jvp(params, volume, direction)
    for factor in (-1.0, 50.0, -50.0):
        many = transform.jvp(params, volume, factor * direction)
        assert float((many - factor * one).norm()) < 1e-12 * float(many.norm())


@each_interpolation
@each_transform
def test_jvp_is_the_derivative_to_second_order(build: Build, cubic: bool) -> None:
    transform, params, direction = start(build)
    volume = blobs(REFERENCE) if cubic else normal(REFERENCE.shape, seed=3)
    steps = [2.0**-k for k in range(6, 11)]
    # Keys' interpolant has continuous slopes, a linear one only between knots.
    knots = not cubic or any(getattr(stage, "degree", 3) == 1 for stage in transform.maps(params))
    ahead = [params, *(params + h * direction for h in steps)]
    mask = smooth_at(transform, ahead) if knots else torch.ones(MOVING.shape, dtype=torch.bool)
    assert float(mask.double().mean()) > 0.6
    now, *moved = (transform.warp(p, REFERENCE, MOVING, cubic=cubic)(volume)[mask] for p in ahead)
    slope = transform.jvp(params, volume, direction, REFERENCE, MOVING, cubic=cubic)[mask]
    left = [float((then - now - h * slope).norm()) for h, then in zip(steps, moved, strict=True)]
    assert order(steps, left) > 1.9
    assert left[-1] < 0.01 * steps[-1] * float(slope.norm())


@each_interpolation
@each_transform
def test_central_differences_are_derivatives_to_second_order(build: Build, cubic: bool) -> None:
    transform, params, direction = start(build)
    volume, steps = normal(REFERENCE.shape, seed=3), [2.0**-k for k in range(5, 9)]
    mask = smooth_at(transform, [params, *(params + s * h * direction for h in steps for s in (-1, 1))])
    assert float(mask.double().mean()) > 0.5
    exact = transform.jvp(params, volume, direction, REFERENCE, MOVING, cubic=cubic)
    errors = []
    for h in steps:
        central = transform.jvp(params, volume, direction, REFERENCE, MOVING, cubic=cubic, central_step=h)
        errors.append(float((central - exact)[mask].norm()))
    assert order(steps, errors) > 1.9
    assert errors[-1] < 0.01 * float(exact[mask].norm())


@each_interpolation
@each_of_few
def test_the_gradient_by_central_differences(build: Build, cubic: bool) -> None:
    transform, params, _ = start(build)
    volume, image = normal(REFERENCE.shape, seed=3), normal(MOVING.shape, seed=4)
    steps, units = [2.0**-k for k in range(5, 9)], torch.eye(transform.n_params, dtype=torch.float64)
    image *= smooth_at(transform, [params, *(params + s * steps[0] * e for e in units for s in (-1, 1))])
    assert int(image.count_nonzero()) > 50
    exact = transform.vjp(params, volume, image, REFERENCE, MOVING, cubic=cubic)
    errors = []
    for h in steps:
        central = transform.vjp(params, volume, image, REFERENCE, MOVING, cubic=cubic, central_step=h)
        errors.append(float((central - exact).norm()))
    by_one = [
        transform.jvp(params, volume, e, REFERENCE, MOVING, cubic=cubic, central_step=steps[-1])
        for e in units
    ]
    expected = torch.stack([(one * image).sum() for one in by_one])
    assert float((central - expected).norm()) < 1e-12 * float(expected.norm())
    assert errors[-1] < 1e-3 * float(exact.norm())
    # A displacement that is linear in its parameter, seen through a linear interpolant, has no error to fall.
    assert errors[0] < 1e-12 * float(exact.norm()) or order(steps, errors) > 1.9


@each_interpolation
@pytest.mark.parametrize("central_step", [None, 0.25], ids=["analytic", "central"])
def test_the_sign_on_a_translated_ramp(central_step: float | None, cubic: bool) -> None:
    # f(x) = 3 x per mm, seen at x + t: its derivative in t is 3 per mm, 3 spacings per voxel.
    shift = Translation(REFERENCE)
    ramp = 3.0 * centers_mm(REFERENCE)[..., 0]
    unit, inside = torch.tensor([1.0, 0.0, 0.0]), (slice(2, -2),) * 3
    got = shift.jvp(shift.identity(), ramp, unit, cubic=cubic, central_step=central_step)
    spacing_mm = REFERENCE.spacing_mm[2]
    torch.testing.assert_close(got[inside], torch.full_like(got[inside], 3.0 * spacing_mm))
    weights = torch.zeros(REFERENCE.shape, dtype=torch.float64)
    weights[inside] = 1.0
    gradient = shift.vjp(shift.identity(), ramp, weights, cubic=cubic, central_step=central_step)
    expected = torch.tensor([3.0 * spacing_mm * float(weights.sum()), 0.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected)


@each_interpolation
@each_of_few
@pytest.mark.parametrize("central_step", [None, 0.01], ids=["analytic", "central"])
def test_derivative_images_contract_to_the_jvp(build: Build, central_step: float | None, cubic: bool) -> None:
    transform, params, direction = start(build)
    volumes = normal((2, *REFERENCE.shape), seed=3)
    images = transform.derivative_images(
        params, volumes, REFERENCE, MOVING, cubic=cubic, central_step=central_step
    )
    assert images.shape == (transform.n_params, 2, *MOVING.shape)
    if central_step is None:
        expected = transform.jvp(params, volumes, direction, REFERENCE, MOVING, cubic=cubic)
        got = torch.einsum("p...,p->...", images, direction)
        assert float((got - expected).norm()) < 1e-12 * float(expected.norm())
    for image, unit in zip(images, torch.eye(transform.n_params, dtype=torch.float64), strict=True):
        one = transform.jvp(params, volumes, unit, REFERENCE, MOVING, cubic=cubic, central_step=central_step)
        assert float((image - one).norm()) < 1e-12 * float(images.norm())


@each_dtype
@each_of_few
def test_derivative_images_have_the_volumes_precision(build: Build, dtype: torch.dtype) -> None:
    transform, params, _ = start(build)
    volume = normal(REFERENCE.shape, seed=3, dtype=dtype)
    images = transform.derivative_images(params, volume, REFERENCE, MOVING)
    assert images.dtype == dtype


def test_derivatives_leave_their_inputs_alone() -> None:
    transform, params, direction = start(dict(transforms())["B-spline after affine"])
    volume, image = normal(REFERENCE.shape, seed=3), normal(MOVING.shape, seed=4)
    given = (params, direction, volume, image)
    kept = [tensor.clone() for tensor in given]
    transform.jvp(params, volume, direction, REFERENCE, MOVING)
    transform.vjp(params, volume, image, REFERENCE, MOVING)
    for tensor, before in zip(given, kept, strict=True):
        assert torch.equal(tensor, before)
        assert not tensor.requires_grad
