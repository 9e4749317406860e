"""Every operator under PyTorch's derivatives and transforms: forward mode, `torch.func`, autocast."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import pytest
import torch
from torch.autograd import forward_ad

from duotomo.operators import LinearOperator
from duotomo.operators.counted import Counted
from tests.cases import operators
from tests.cases.transforms import normal

Build = Callable[[torch.dtype], LinearOperator]

each_operator = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in operators()])


def dense(operator: LinearOperator) -> torch.Tensor:
    """Return the matrix of an operator, (*range, *domain), one column after the other."""
    n = math.prod(operator.domain)
    columns = operator(torch.eye(n, dtype=torch.float64).reshape(n, *operator.domain))
    return columns.movedim(0, -1).reshape(*operator.range, *operator.domain)


def assert_near(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Raise unless two tensors are the same but for the order of factors."""
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@each_operator
def test_forward_mode_is_reverse_mode_is_finite_differences(build: Build) -> None:
    operator = build(torch.float64)
    x = normal((2, *operator.domain), seed=1).requires_grad_()
    assert torch.autograd.gradcheck(operator, x, fast_mode=True, check_forward_ad=True)


@each_operator
def test_torch_func_sees_a_linear_map(build: Build) -> None:
    operator = build(torch.float64)
    x, d, y = (normal(s, seed=i) for i, s in enumerate((operator.domain, operator.domain, operator.range)))
    image, moved = torch.func.jvp(operator, (x,), (d,))
    assert torch.equal(image, operator(x))
    assert torch.equal(moved, operator(d))
    image, pull_back = torch.func.vjp(operator, x)
    assert torch.equal(image, operator(x))
    assert_near(pull_back(y)[0], operator.adjoint(y))
    slope = torch.func.grad(lambda x: 0.5 * operator(x).square().sum())(x)
    assert_near(slope, operator.adjoint(operator(x)))


@each_operator
def test_vmap_is_a_batch(build: Build) -> None:
    operator = build(torch.float64)
    batch = normal((3, *operator.domain, 2), seed=2)
    images = torch.func.vmap(torch.func.vmap(operator), in_dims=-1)(batch)
    assert torch.equal(images, operator(batch.movedim(-1, 0)))
    # A gradient for each item of a batch.
    slopes = torch.func.vmap(torch.func.grad(lambda x: operator(x).square().sum()))(batch[..., 0])
    assert_near(slopes, operator.adjoint(2 * operator(batch[..., 0])))


SMALL = ("projector one slice", "projector one column", "warp of one column", "gradient of one slice")


@pytest.mark.parametrize("counted", [False, True], ids=["plain", "counted"])
@pytest.mark.parametrize("name", SMALL)
def test_jacobians_and_hessians_are_matrices(name: str, counted: bool) -> None:
    operator = dict(operators())[name](torch.float64)
    operator = Counted(operator) if counted else operator
    matrix, x = dense(operator), normal(operator.domain, seed=3)
    assert torch.equal(torch.func.jacfwd(operator)(x), matrix)
    assert_near(torch.func.jacrev(operator)(x), matrix)
    # The misfit's Hessian is the normal operator, A^T A.
    hessian = torch.func.hessian(lambda x: 0.5 * operator(x).square().sum())(x)
    flat = matrix.reshape(math.prod(operator.range), -1)
    assert_near(hessian.reshape(flat.shape[1], -1), flat.T @ flat)


@each_operator
def test_transforms_leave_nothing_behind(build: Build) -> None:
    # Caches that are filled inside of a transform may hold none of its tensors.
    operator = build(torch.float64)
    x = normal(operator.domain, seed=5)
    torch.func.jvp(operator, (x,), (x,))
    torch.func.grad(lambda x: operator.adjoint(operator(x)).sum())(x)
    with forward_ad.dual_level():
        operator(forward_ad.make_dual(x, x))
    copy = pickle.loads(pickle.dumps(operator))
    assert torch.equal(copy(x), operator(x))
    assert not operator(x).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_operator
def test_autocast_changes_nothing(build: Build, dtype: torch.dtype) -> None:
    operator = build(dtype)
    x = normal(operator.domain, seed=6, dtype=dtype).requires_grad_()
    expected = operator(x)
    (slope,) = torch.autograd.grad(expected.square().sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        image = build(dtype)(x)
        (under_autocast,) = torch.autograd.grad(image.square().sum(), x)
    assert image.dtype == dtype
    assert torch.equal(image, expected)
    assert torch.equal(under_autocast, slope)


@each_operator
def test_backward_passes_are_counted(build: Build) -> None:
    counted = Counted(build(torch.float64))
    x = normal((2, *counted.domain), seed=7).requires_grad_()
    counted(x).sum().backward()
    assert counted.applications == 4
    torch.func.vmap(counted)(x.detach())
    assert counted.applications == 6
