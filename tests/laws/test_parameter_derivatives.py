"""Gradients reach the parameters of every transform through its warp, and through the warp's adjoint."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

from duotomo.errors import DuotomoError, GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.operators import LinearOperator, Projector, Weighting
from duotomo.operators.counted import Counted
from duotomo.transforms import Rigid, Transform, Translation
from tests.cases.operators import GRID, sweep
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal, transforms
from tests.strategies import grid_pairs

Build = Callable[[VolumeGrid], Transform]

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])
each_interpolation = pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def drawn(build: Build, *, seed: int = 3) -> tuple[Transform, torch.Tensor]:
    transform = build(REFERENCE)
    return transform, draw_params(transform, seed=seed, turn_deg=30.0)


@each_dtype
@each_interpolation
@each_transform
def test_backward_is_the_transforms_vjp(build: Build, cubic: bool, dtype: torch.dtype) -> None:
    transform, params = drawn(build)
    params.requires_grad_()
    volume, image = (
        normal((2, *REFERENCE.shape), seed=1, dtype=dtype),
        normal((2, *MOVING.shape), seed=2, dtype=dtype),
    )
    volume.requires_grad_()
    (transform.warp(params, REFERENCE, MOVING, cubic=cubic)(volume) * image).sum().backward()
    fixed = transform.warp(params.detach(), REFERENCE, MOVING, cubic=cubic)
    expected = transform.vjp(params.detach(), volume.detach(), image, REFERENCE, MOVING, cubic=cubic)
    torch.testing.assert_close(params.grad, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(volume.grad, fixed.adjoint(image))
    assert not fixed.tensors


@each_interpolation
@each_transform
def test_backward_through_the_adjoint_swaps_the_roles(build: Build, cubic: bool) -> None:
    # <T^T y, g> = <y, T g>
    transform, params = drawn(build)
    params.requires_grad_()
    volume, image = normal(REFERENCE.shape, seed=1), normal(MOVING.shape, seed=2).requires_grad_()
    (transform.warp(params, REFERENCE, MOVING, cubic=cubic).adjoint(image) * volume).sum().backward()
    fixed = transform.warp(params.detach(), REFERENCE, MOVING, cubic=cubic)
    expected = transform.vjp(params.detach(), volume, image.detach(), REFERENCE, MOVING, cubic=cubic)
    torch.testing.assert_close(params.grad, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(image.grad, fixed(volume))


@each_interpolation
@each_transform
def test_derivatives_are_those_of_finite_differences(build: Build, cubic: bool) -> None:
    transform, params = drawn(build)
    volume, image = normal(REFERENCE.shape, seed=1), normal(MOVING.shape, seed=2)

    def warped(params: torch.Tensor, volume: torch.Tensor) -> torch.Tensor:
        return transform.warp(params, REFERENCE, MOVING, cubic=cubic)(volume)

    def spread(params: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        return transform.warp(params, REFERENCE, MOVING, cubic=cubic).adjoint(image)

    leaves = [tensor.requires_grad_() for tensor in (params, volume, image)]
    # Linear interpolation has kinks: a step of 1e-6 meets none of them here.
    assert torch.autograd.gradcheck(warped, (leaves[0], leaves[1]), fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradcheck(spread, (leaves[0], leaves[2]), fast_mode=True)


@each_transform
def test_torch_func_reaches_the_parameters(build: Build) -> None:
    transform, params = drawn(build)
    volume, image = normal(REFERENCE.shape, seed=1), normal(MOVING.shape, seed=2)
    along = draw_params(transform, seed=4)

    def warped(params: torch.Tensor) -> torch.Tensor:
        return transform.warp(params, REFERENCE, MOVING)(volume)

    value, moved = torch.func.jvp(warped, (params,), (along,))
    assert torch.equal(value, warped(params))
    assert torch.equal(moved, transform.jvp(params, volume, along, REFERENCE, MOVING))
    expected = transform.vjp(params, volume, image, REFERENCE, MOVING)
    torch.testing.assert_close(torch.func.vjp(warped, params)[1](image)[0], expected)
    slope = torch.func.grad(lambda params: (warped(params) * image).sum())(params)
    torch.testing.assert_close(slope, expected)
    assert torch.equal(
        torch.func.vmap(transform.warp(params))(volume[None])[0], transform.warp(params)(volume)
    )


@pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])
@pytest.mark.parametrize("kind", [Translation, Rigid])
def test_jacobians_are_the_derivative_images(kind: Build, cubic: bool) -> None:
    transform, params = drawn(kind)
    volume = normal(REFERENCE.shape, seed=1)
    images = transform.derivative_images(params, volume, REFERENCE, MOVING, cubic=cubic).movedim(0, -1)

    def warped(params: torch.Tensor) -> torch.Tensor:
        return transform.warp(params, REFERENCE, MOVING, cubic=cubic)(volume)

    torch.testing.assert_close(torch.func.jacfwd(warped)(params), images)
    torch.testing.assert_close(torch.func.jacrev(warped)(params), images)


@each_transform
def test_compositions_pass_gradients_on(build: Build) -> None:
    # d/dp 1/2 |sqrt(W) (A T(p) f - b)|^2, by hand, and by what PyTorch makes of the composed operator.
    transform, params = drawn(build)
    projector = Counted(Projector(GRID, sweep()))
    volume, data = normal(REFERENCE.shape, seed=1), normal(projector.range, seed=2)
    weights = normal(projector.range, seed=5).abs()
    params.requires_grad_()
    weights.requires_grad_()

    def composed() -> LinearOperator:
        # A warp serves one backward pass, as all that PyTorch records does.
        warp = transform.warp(params, REFERENCE, GRID)
        return 2.0 * (Weighting(weights) @ (projector @ warp - projector @ (0.5 * warp)))

    residual = composed()(volume) - data
    (0.5 * residual.square().sum()).backward()
    assert projector.applications == 4
    with torch.no_grad():
        image = projector.adjoint(weights * residual)
        expected = transform.vjp(params, volume, image, REFERENCE, GRID)
        by_weights = residual * projector(transform.warp(params, REFERENCE, GRID)(volume))
    torch.testing.assert_close(params.grad, expected)
    torch.testing.assert_close(weights.grad, by_weights)
    # The adjoint of the composition depends on them too.
    params.grad = None
    (composed().adjoint(data) * volume).sum().backward()
    expected = transform.vjp(
        params.detach(), volume, projector.adjoint(weights.detach() * data), REFERENCE, GRID
    )
    torch.testing.assert_close(params.grad, expected)


def test_gradients_agree_wherever_the_grids_lie() -> None:
    seen = []

    @settings(max_examples=30)
    @given(pair=grid_pairs(), cubic=st.booleans(), seed=st.integers(0, 2**32))
    def law(pair: tuple[VolumeGrid, VolumeGrid], cubic: bool, seed: int) -> None:
        reference, moving = pair
        transform = Rigid(reference)
        params = draw_params(transform, seed=seed)
        volume, image = normal(reference.shape, seed=seed), normal(moving.shape, seed=seed + 1)
        try:
            expected = transform.vjp(params, volume, image, reference, moving, cubic=cubic)
        except GeometryError:
            # Drawn so far away that the grids do not meet.
            assume(False)
        params.requires_grad_()
        (transform.warp(params, reference, moving, cubic=cubic)(volume) * image).sum().backward()
        torch.testing.assert_close(params.grad, expected, rtol=1e-12, atol=1e-12)
        seen.append(seed)

    law()
    assert len(seen) >= 15


def test_forward_mode_without_torch_func() -> None:
    transform, params = drawn(Rigid)
    volume, along = normal(REFERENCE.shape, seed=1), draw_params(transform, seed=4)
    with forward_ad.dual_level():
        image = transform.warp(forward_ad.make_dual(params, along))(volume)
        moved = forward_ad.unpack_dual(image).tangent
    assert torch.equal(moved, transform.jvp(params, volume, along))


def test_optimisers_of_torch_find_a_shift() -> None:
    shift = Translation(REFERENCE)
    z, y, x = torch.meshgrid(
        *(torch.linspace(-1, 1, n, dtype=torch.float64) for n in REFERENCE.shape), indexing="ij"
    )
    volume = torch.exp(-3 * (z**2 + y**2 + x**2))
    truth = torch.tensor([0.8, -0.5, 0.3], dtype=torch.float64)
    seen = shift.warp(truth, cubic=True)(volume)
    params = shift.identity().requires_grad_()
    optimiser = torch.optim.LBFGS([params], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (shift.warp(params, cubic=True)(volume) - seen).square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    torch.testing.assert_close(params.detach(), truth, rtol=1e-4, atol=1e-4)


def test_a_warp_with_gradients_pickles_without_them() -> None:
    transform, params = drawn(Rigid)
    warp = transform.warp(params.requires_grad_())
    copy = pickle.loads(pickle.dumps(warp))
    volume = normal(REFERENCE.shape, seed=1)
    assert warp(volume).requires_grad
    assert not copy(volume).requires_grad
    assert torch.equal(copy(volume), warp(volume).detach())


def test_a_mixed_second_derivative() -> None:
    # d/dp of the gradient in the volume, d/dp <T(p)^T T(p) f, g>, is one derivative in the parameters.
    transform, params = drawn(Rigid)
    volume, other = normal(REFERENCE.shape, seed=1).requires_grad_(), normal(REFERENCE.shape, seed=2)

    def slope(params: torch.Tensor) -> torch.Tensor:
        loss = 0.5 * transform.warp(params, cubic=True)(volume).square().sum()
        return torch.autograd.grad(loss, volume, create_graph=True)[0]

    (got,) = torch.autograd.grad((slope(params.requires_grad_()) * other).sum(), params)
    step, fixed = 1e-6, params.detach()
    for i, along in enumerate(step * torch.eye(6, dtype=torch.float64)):
        difference = ((slope(fixed + along) - slope(fixed - along)) * other).sum() / (2 * step)
        assert float(got[i]) == pytest.approx(float(difference.detach()), rel=1e-5)


def test_a_second_derivative_in_the_parameters_is_refused() -> None:
    transform, params = drawn(Rigid)
    volume = normal(REFERENCE.shape, seed=1)

    def value(params: torch.Tensor) -> torch.Tensor:
        return transform.warp(params)(volume).square().sum()

    params.requires_grad_()
    (slope,) = torch.autograd.grad(value(params), params, create_graph=True)
    expected = "expected one derivative in the parameters of an operator, .*; got a second one"
    with pytest.raises(DuotomoError, match=expected):
        slope.sum().backward()
    with pytest.raises(DuotomoError, match=expected):
        torch.func.jacfwd(torch.func.grad(value))(params.detach())


def test_forward_mode_through_the_adjoint_is_refused() -> None:
    transform, params = drawn(Rigid)
    image = normal(REFERENCE.shape, seed=1)
    with pytest.raises(DuotomoError, match=r"Warp: expected reverse mode for derivatives of the adjoint"):
        torch.func.jvp(lambda params: transform.warp(params).adjoint(image), (params,), (params,))


def test_a_batch_of_parameters_is_refused() -> None:
    transform, params = drawn(Rigid)
    volume = normal(REFERENCE.shape, seed=1)
    with pytest.raises(
        ShapeError, match=r"Rigid: expected params of one motion; got a batch of them, by torch"
    ):
        torch.func.vmap(lambda params: transform.warp(params)(volume))(params.expand(3, 6))
