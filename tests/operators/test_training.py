"""Operators inside of networks: modules, compilation, half precision, workers of a data loader."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import duotomo
from duotomo.errors import DtypeError
from duotomo.operators import OperatorModule, Projector, Weighting
from duotomo.operators.counted import Counted
from duotomo.transforms import Rigid
from tests.cases.operators import GRID, sweep
from tests.cases.transforms import normal


@pytest.fixture(scope="module")
def projector() -> Projector:
    return Projector(GRID, sweep())


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, as a file: spawned workers import it again."""
    source = Path(duotomo.__file__).parents[1]
    paths = os.pathsep.join([str(source), str(source.parent)])
    return subprocess.run(
        [sys.executable, code, *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_geometry_goes_by_position_or_by_name(projector: Projector) -> None:
    x = normal(projector.domain, seed=0)
    assert torch.equal(Projector(grid=GRID, acquisition=sweep())(x), projector(x))


def test_a_module_is_the_operator(projector: Projector) -> None:
    layer = projector.to_module()
    x, y = normal((2, *projector.domain), seed=1), normal((2, *projector.range), seed=2)
    assert torch.equal(layer(x), projector(x))
    assert torch.equal(layer.adjoint(y), projector.adjoint(y))
    assert torch.equal(layer.adjoint.adjoint(x), projector(x))
    assert not layer.state_dict()
    assert not list(layer.parameters())
    assert repr(layer) == "OperatorModule(Projector(domain=(4, 6, 7), range=(3, 9, 11)))"
    copy = pickle.loads(pickle.dumps(layer))
    assert torch.equal(copy(x), projector(x))


def test_a_network_learns_through_the_operator(projector: Projector) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(7, 7, dtype=torch.float64), OperatorModule(projector))
    x, data = normal((3, *projector.domain), seed=1), normal((3, *projector.range), seed=2)
    assert set(network.state_dict()) == {"0.weight", "0.bias"}
    assert torch.autograd.gradcheck(
        lambda weight: torch.func.functional_call(network, {"0.weight": weight}, (x,)),
        network[0].weight,
        fast_mode=True,
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = (network(x) - data).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    # A layer moved to another precision by its network still takes what it is given.
    assert network.float()[1](x.float()).dtype == torch.float32


@pytest.mark.parametrize("counted", [False, True], ids=["plain", "counted"])
def test_results_may_be_changed_in_place(projector: Projector, counted: bool) -> None:
    rigid = Rigid(GRID)
    params = (0.3 * normal((6,), seed=2)).requires_grad_()
    x = normal(projector.domain, seed=1).requires_grad_()
    slopes = []
    for operator in (projector, projector @ rigid.warp(params)):
        image = (Counted(operator) if counted else operator)(x)
        image -= 1.0
        slopes.append(torch.autograd.grad(image.square().sum(), x)[0])
        with torch.no_grad():
            assert torch.equal(slopes[-1], operator.adjoint(2 * (operator(x) - 1.0)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_refused_with_the_remedy(projector: Projector, dtype: torch.dtype) -> None:
    weighting = Weighting(torch.ones(3, 9, 11))
    expected = rf"got {dtype}\. Convert it with \.to\(torch\.float32\)"
    for operator in (projector, projector.adjoint, weighting, weighting @ projector, projector.to_module()):
        shape = operator.operator.domain if isinstance(operator, OperatorModule) else operator.domain
        with pytest.raises(DtypeError, match=expected):
            operator(torch.ones(shape, dtype=dtype))


def test_a_layer_under_autocast_needs_single_precision_in(projector: Projector) -> None:
    layer, linear = projector.to_module(), torch.nn.Linear(7, 7)
    x = normal(projector.domain, seed=1, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(DtypeError, match=r"got torch.bfloat16\. Convert it with"):
            layer(linear(x))
        image = layer(linear(x).float())
    assert image.dtype == torch.float32


def compiled(function: object, *inputs: torch.Tensor) -> torch.Tensor:
    """Return what a compiled function does; skip where nothing can be compiled."""
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    except Exception as error:
        pytest.skip(f"no compiler here: {type(error).__name__}")
    torch._dynamo.reset()
    result: torch.Tensor = torch.compile(function)(*inputs)  # type: ignore[call-overload]
    return result


@pytest.mark.filterwarnings("ignore")
def test_compiled_networks_give_the_same_numbers(projector: Projector) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.ReLU(), projector.to_module(), torch.nn.ReLU())
    x = normal((2, *projector.domain), seed=1).requires_grad_()
    expected = network(x)
    (slope,) = torch.autograd.grad(expected.square().sum(), x)
    image = compiled(network, x)
    (compiled_slope,) = torch.autograd.grad(image.square().sum(), x)
    torch.testing.assert_close(image, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(compiled_slope, slope, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_compiled_motion_gives_the_same_gradient() -> None:
    rigid = Rigid(GRID)
    volume = normal(GRID.shape, seed=1)
    params = (0.3 * normal((6,), seed=2)).requires_grad_()

    def loss(params: torch.Tensor) -> torch.Tensor:
        return rigid.warp(params)(volume).square().sum()

    (expected,) = torch.autograd.grad(loss(params), params)
    (slope,) = torch.autograd.grad(compiled(loss, params), params)
    torch.testing.assert_close(slope, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_whole_graph_is_refused_by_the_compiler(projector: Projector) -> None:
    x = normal(projector.domain, seed=1)
    compiled(lambda x: x + 1, x)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: projector(x) + 1, fullgraph=True)(x)


WORKER = """
import sys
import torch
from duotomo.operators import Projector
from tests.cases.operators import GRID, sweep

A = Projector(GRID, sweep())

class Scans(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return A(torch.full(A.domain, float(index)))

if __name__ == "__main__":
    context, used = sys.argv[1:]
    expected = A(torch.ones(A.domain)) if used == "used" else None
    loader = torch.utils.data.DataLoader(Scans(), num_workers=1, multiprocessing_context=context)
    batches = [batch[0] for batch in loader]
    assert expected is None or torch.equal(batches[1], expected)
    print(len(batches))
"""


@pytest.mark.parametrize(
    ("context", "used"),
    [("spawn", "used"), ("forkserver", "used"), ("fork", "fresh"), ("fork", "used")],
    ids=["spawn", "forkserver", "fork before the first use", "fork after it"],
)
def test_workers_with_threads_of_their_own(tmp_path: Path, context: str, used: str) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKER)
    ended = run(str(script), context, used)
    assert ended.stdout.strip() == "2", ended.stderr
