"""The laws of a linear operator, for every operator there is."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import LinearOperator, Projector, adjoint_gap
from duotomo.operators.linear import AdjointOperator
from tests.cases import operators
from tests.cases.scans import arc
from tests.strategies import scans

Build = Callable[[torch.dtype], LinearOperator]

GAP = {torch.float64: 1e-12, torch.float32: 1e-6}
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5}

each_operator = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in operators()])
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def draw(shape: tuple[int, ...], dtype: torch.dtype = torch.float64, *, seed: int = 0) -> torch.Tensor:
    """Return signed normal numbers: positive ones would hide errors that cancel."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected.double()).norm() / expected.double().norm())


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@each_dtype
@each_operator
def test_the_adjoint_is_the_transpose(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    assert float(operator(draw(operator.domain, dtype)).norm()) > 0
    for seed in range(3):
        assert adjoint_gap(operator, generator=generator(seed), dtype=dtype) < GAP[dtype]


@each_dtype
@each_operator
def test_the_adjoint_of_the_adjoint_is_the_operator(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    if isinstance(operator, AdjointOperator):
        assert operator.adjoint.adjoint.operator is operator.operator
    else:
        assert operator.adjoint.adjoint is operator
    assert (operator.adjoint.domain, operator.adjoint.range) == (operator.range, operator.domain)
    assert type(operator.T) is type(operator.adjoint)
    assert torch.equal(operator.T.T(draw(operator.domain, dtype)), operator(draw(operator.domain, dtype)))
    x = draw(operator.adjoint.range, dtype)
    assert torch.equal(operator.adjoint.transpose(x[None])[0], operator(x))


@each_dtype
@each_operator
def test_it_is_linear(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    x, y = draw(operator.domain, dtype, seed=1), draw(operator.domain, dtype, seed=2)
    assert relative(operator(3.0 * x - 0.7 * y), 3.0 * operator(x) - 0.7 * operator(y)) < ROUNDING[dtype]


@each_operator
def test_zero_maps_to_zero(build: Build) -> None:
    operator = build(torch.float64)
    image = operator(torch.zeros(operator.domain, dtype=torch.float64))
    assert image.shape == operator.range
    assert torch.count_nonzero(image) == 0


@each_dtype
@each_operator
def test_a_batch_is_a_loop(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    batch = draw((2, 3, *operator.domain), dtype)
    images = operator(batch)
    assert images.shape == (2, 3, *operator.range)
    assert images.dtype == dtype
    for i in range(2):
        for j in range(3):
            assert torch.equal(images[i, j], operator(batch[i, j]))
    assert operator(batch[:0]).shape == (0, 3, *operator.range)


@each_operator
def test_any_layout_in_memory_is_accepted(build: Build) -> None:
    operator = build(torch.float64)
    x = draw(operator.domain)
    expected = operator(x)
    permuted = x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    strided = x.new_full([2 * n for n in x.shape], torch.nan)[::2, ::2, ::2]
    strided.copy_(x)
    offset = x.new_full((x.numel() + 1,), torch.nan)[1:].view(x.shape)
    offset.copy_(x)
    assert x.numel() == max(x.shape) or not permuted.is_contiguous()
    assert torch.equal(operator(permuted), expected)
    assert torch.equal(operator(strided), expected)
    assert torch.equal(operator(offset), expected)
    one_for_all = x[:1].expand(x.shape)
    assert torch.equal(operator(one_for_all), operator(one_for_all.contiguous()))


@each_operator
def test_its_input_stays_as_it_was(build: Build) -> None:
    operator = build(torch.float64)
    for op in (operator, operator.adjoint):
        x = draw(op.domain)
        kept = x.clone()
        image = op(x)
        assert torch.equal(x, kept)
        # Nor may the result share memory with it.
        image.zero_()
        assert torch.equal(x, kept)


@each_dtype
@each_operator
def test_pickling_changes_nothing(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    x, y = draw(operator.domain, dtype), draw(operator.range, dtype)
    expected, back = operator(x), operator.adjoint(y)
    copy = pickle.loads(pickle.dumps(operator))
    assert repr(copy) == repr(operator)
    assert torch.equal(copy(x), expected)
    assert torch.equal(copy.adjoint(y), back)


@each_operator
def test_it_prints_its_shapes(build: Build) -> None:
    operator = build(torch.float64)
    pattern = rf"\w+\(domain={re.escape(str(operator.domain))}, range={re.escape(str(operator.range))}\)"
    assert re.fullmatch(pattern, repr(operator))


@each_operator
def test_single_precision_agrees_with_double(build: Build) -> None:
    single, double = build(torch.float32), build(torch.float64)
    x, y = draw(double.domain, torch.float32), draw(double.range, torch.float32)
    assert relative(single(x), double(x.double())) < 1e-4
    assert relative(single.adjoint(y), double.adjoint(y.double())) < 1e-4


@each_operator
def test_derivatives_to_second_order(build: Build) -> None:
    operator = build(torch.float64)
    x = draw(operator.domain).requires_grad_()
    assert torch.autograd.gradcheck(operator, x, fast_mode=True)
    # A quadratic has a second derivative to get wrong.
    assert torch.autograd.gradgradcheck(lambda x: operator(x).square(), x, fast_mode=True)


def test_every_partial_derivative_of_a_tiny_projector() -> None:
    grid = VolumeGrid.on_detector((2, 2, 3), (1.0, 1.0, 1.0))
    scan = arc((3, 4), 1.0, n_views=2, degrees=30, tilt_deg=6, source_to_detector_mm=100.0)
    operator = Projector(grid=grid, acquisition=scan)
    batch = draw((2, *operator.domain)).requires_grad_()
    assert torch.autograd.gradcheck(operator, batch)
    assert torch.autograd.gradgradcheck(operator, batch)


@each_dtype
@each_operator
def test_the_gradient_of_the_misfit(build: Build, dtype: torch.dtype) -> None:
    # d/dx 0.5 |A x - b|^2 = A^T (A x - b)
    operator = build(dtype)
    x = draw(operator.domain, dtype).requires_grad_()
    b = draw(operator.range, dtype, seed=5)
    (0.5 * (operator(x) - b).square().sum()).backward()
    assert x.grad is not None
    with torch.no_grad():
        expected = operator.adjoint(operator(x) - b)
    assert relative(x.grad, expected) < ROUNDING[dtype]


def test_the_algebra_is_that_of_matrices() -> None:
    build = dict(operators())
    a, b = build["projector static"](torch.float64), build["projector tilting"](torch.float64)
    w = build["weighting"](torch.float64)
    x, y = draw(a.domain), draw(a.range)
    assert torch.equal((w @ a)(x), w(a(x)))
    assert torch.equal(a @ x, a(x))
    assert relative((w @ (a + b))(x), (w @ a + w @ b)(x)) < 1e-13
    assert torch.equal((2.0 * a)(x), 2.0 * a(x))
    assert torch.equal((-a)(x), -a(x))
    assert torch.equal((a - b)(x), a(x) - b(x))
    with pytest.raises(TypeError, match="unsupported operand"):
        a + 3  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        a - 3  # type: ignore[operator]
    # (A B)^T = B^T A^T
    assert torch.equal((w @ a).adjoint(y), (a.adjoint @ w.adjoint)(y))


@pytest.mark.parametrize("tilting", [False, True], ids=["static", "tilting"])
def test_the_adjoint_of_any_scan_is_the_transpose(tilting: bool) -> None:
    @settings(max_examples=80)
    @given(scan=scans(tilting=tilting), seed=st.integers(0, 2**32))
    def law(scan: tuple[VolumeGrid, Acquisition], seed: int) -> None:
        grid, acquisition = scan
        operator = Projector(grid=grid, acquisition=acquisition)
        x = torch.randn(operator.domain, generator=generator(seed), dtype=torch.float64)
        # The gap is measured against |A x|. Where the sums over one or two pixels happen to cancel, all that
        # is left to measure against is rounding, and such a draw says nothing.
        assume(operator(x).norm() > 0.1 * operator(x.abs()).norm())
        for dtype, most in GAP.items():
            assert adjoint_gap(operator, generator=generator(seed), dtype=dtype) < most

    law()


@pytest.mark.parametrize("seed", range(12))
def test_the_adjoint_of_any_orientation_is_the_transpose(seed: int) -> None:
    # Leaning by up to 60 degrees towards any side, turned by any angle, of either handedness.
    draw = np.random.default_rng(seed)
    lean, side, turn = draw.uniform(0, 1, 3) * (np.pi / 3, 2 * np.pi, 2 * np.pi)
    normal = np.array([np.sin(lean) * np.cos(side), np.sin(lean) * np.sin(side), np.cos(lean)])
    across = np.cross(normal, (0.3, 0.5, 0.1))
    across /= np.linalg.norm(across)
    u_axis = np.cos(turn) * across + np.sin(turn) * np.cross(normal, across)
    v_axis = np.cross(normal, u_axis) * (1 if seed % 2 else -1)
    scan = Acquisition(
        source_mm=[(draw.uniform(-40, 40), draw.uniform(-40, 40), draw.uniform(80, 200))],
        detector_center_mm=[(0.0, 0.0, 0.0)],
        u_axis=[u_axis],
        v_axis=[v_axis],
        pixel_spacing_mm=(draw.uniform(0.3, 3), draw.uniform(0.3, 3)),
        detector_shape=(15, 13),
    )
    grid = VolumeGrid(shape=(5, 9, 8), spacing_mm=(1.0, 1.3, 0.7), center_mm=(13.0, 1.0, -1.0))
    operator = Projector(grid=grid, acquisition=scan)
    assert float(operator(torch.ones(operator.domain)).norm()) > 0
    for dtype, most in GAP.items():
        assert adjoint_gap(operator, generator=generator(seed), dtype=dtype) < most
