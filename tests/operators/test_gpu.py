"""Derivatives of operators on a CUDA device: what `tests/laws` asks of them on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.operators import Gradient, LinearOperator, Projector, Weighting
from duotomo.transforms import Rigid, Transform
from tests.cases.operators import GRID, sweep
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal, transforms

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])


def operators() -> dict[str, LinearOperator]:
    """Return one operator of each kind, for CUDA tensors."""
    projector, rigid = Projector(GRID, sweep()), Rigid(REFERENCE)
    weights = normal(projector.range, seed=3).cuda()
    warp = rigid.warp(draw_params(rigid, seed=4, turn_deg=30.0), REFERENCE, GRID)
    return {
        "projector": projector,
        "warp": warp,
        "gradient": Gradient(GRID, depth_weight=0.7),
        "composed": Weighting(weights) @ projector @ warp,
    }


@pytest.mark.parametrize("name", ["projector", "warp", "gradient", "composed"])
def test_torch_func_sees_a_linear_map(name: str) -> None:
    operator = operators()[name]
    x, d = normal((2, 3, *operator.domain), seed=1).cuda()
    y = normal((3, *operator.range), seed=2).cuda()
    image, moved = torch.func.jvp(operator, (x,), (d,))
    torch.testing.assert_close(image, operator(x))
    torch.testing.assert_close(moved, operator(d))
    torch.testing.assert_close(torch.func.vjp(operator, x)[1](y)[0], operator.adjoint(y))
    torch.testing.assert_close(torch.func.vmap(operator)(x), operator(x))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        torch.testing.assert_close(operator(x), image)
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(operator, leaf, fast_mode=True, check_forward_ad=True, nondet_tol=1e-10)


@pytest.mark.parametrize("on_gpu", [False, True], ids=["params on the CPU", "params on the GPU"])
@each_transform
def test_gradients_reach_the_parameters(build: Callable[[VolumeGrid], Transform], on_gpu: bool) -> None:
    transform = build(REFERENCE)
    params = draw_params(transform, seed=3, turn_deg=30.0)
    volume, image = normal(REFERENCE.shape, seed=1), normal(MOVING.shape, seed=2)
    expected = transform.vjp(params, volume, image, REFERENCE, MOVING)
    leaf = (params.cuda() if on_gpu else params).requires_grad_()
    (transform.warp(leaf, REFERENCE, MOVING)(volume.cuda()) * image.cuda()).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), expected)
    leaf.grad = None
    (transform.warp(leaf, REFERENCE, MOVING).adjoint(image.cuda()) * volume.cuda()).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), expected)

    def warped(params: torch.Tensor) -> torch.Tensor:
        return transform.warp(params, REFERENCE, MOVING)(volume.cuda())

    along = draw_params(transform, seed=5).to(leaf.device)
    moved = torch.func.jvp(warped, (leaf.detach(),), (along,))[1]
    torch.testing.assert_close(
        moved.cpu(), transform.jvp(params.detach(), volume, along.cpu(), REFERENCE, MOVING)
    )
