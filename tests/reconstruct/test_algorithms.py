"""Laws of every algorithm: less error, cost told truly, data and start left alone, precision kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from duotomo.operators import Projector
from duotomo.reconstruct import reconstruct
from duotomo.solvers import Solution, Status, Step
from duotomo.solvers.iterate import Iterate
from tests.reconstruct.algorithms import DIRECT, EVERY, ITERATIVE
from tests.reconstruct.visit import DATA, GRID, SCAN, error

NONNEGATIVE = ("back projection", "SART", "ML-convex", "total variation")


def run(name: str, projections: torch.Tensor = DATA, **options: object) -> Solution:
    algorithm = EVERY[name][0]
    return reconstruct(projections, grid=GRID, acquisition=SCAN, algorithm=algorithm, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
def test_error_falls_below_a_bound(name: str) -> None:
    assert error(run(name).value) < EVERY[name][1]


class Memory:
    """A store that keeps its last iterate."""

    every = 2

    def __init__(self) -> None:
        self.last: Iterate | None = None

    def load(self) -> Iterate | None:
        return self.last

    def save(self, iterate: Iterate) -> None:
        self.last = iterate


@pytest.mark.parametrize("name", EVERY)
def test_every_algorithm_takes_a_store_and_gives_the_same_volume(name: str) -> None:
    store = Memory()
    assert torch.equal(run(name, store=store).value, run(name).value)
    assert (store.last is not None) == (name == "total variation")


@pytest.mark.parametrize("name", ITERATIVE)
def test_iterating_beats_back_projection(name: str) -> None:
    assert error(run(name).value) < error(run("back projection").value)


@pytest.mark.parametrize("name", NONNEGATIVE)
def test_promise_of_no_negative_values_is_kept(name: str) -> None:
    # Line integrals of air are noise about zero, so that a plain fit goes below zero.
    assert float(run("CGLS").value.min()) < 0
    data = DATA.clamp(min=0) if name == "back projection" else DATA
    assert float(run(name, data).value.min()) >= 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Count what all projectors do, in visits, apart from what the algorithms say."""
    views = 0

    def counting(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def counted(self: Projector, x: torch.Tensor) -> torch.Tensor:
            nonlocal views
            views += len(x) * self.range[0]
            return original(self, x)

        return counted

    for name in ("forward", "transpose"):
        monkeypatch.setattr(Projector, name, counting(getattr(Projector, name)))
    return lambda: views / SCAN.n_views


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_history_tells_the_cost(name: str, warm: bool, work: Callable[[], float]) -> None:
    if warm and name in DIRECT:
        return
    seen: list[Step] = []
    start = torch.full(GRID.shape, 0.01) if warm else None
    solution = run(name, on_step=seen.append, start=start)
    assert solution.history[-1].applications == work()
    assert len(solution.history) == solution.n_steps + 1
    assert tuple(seen) == solution.history[1:]
    for earlier, later in pairwise(solution.history):
        assert later.applications > earlier.applications
        assert later.seconds >= earlier.seconds
    assert solution.reason
    if name in DIRECT:
        assert (solution.status, solution.n_steps) == (Status.CONVERGED, 1)


@pytest.mark.parametrize("name", EVERY)
def test_precision_is_kept_and_input_is_left_alone(name: str) -> None:
    data = DATA.double()
    start = None if name in DIRECT else torch.full(GRID.shape, 0.01, dtype=torch.float64)
    weights = None if name == "filtered back projection" else torch.full_like(data, 2.0)
    kept = [None if t is None else t.clone() for t in (data, start, weights)]
    value = run(name, data, start=start, weights=weights).value
    assert (value.dtype, tuple(value.shape)) == (torch.float64, GRID.shape)
    for tensor, before in zip((data, start, weights), kept, strict=True):
        assert tensor is None or before is None or torch.equal(tensor, before)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "filtered back projection"])
def test_equal_weights_change_nothing(name: str) -> None:
    data = DATA.double()
    counts = torch.exp(-data) if name == "ML-convex" else torch.full_like(data, 7.0)
    plain, weighted = run(name, data), run(name, data, weights=counts)
    scale = float(plain.value.abs().max())
    # The primal-dual steps depend on the weights' scale, its minimum does not.
    tolerance = 2e-2 if name == "total variation" else 1e-9
    torch.testing.assert_close(weighted.value, plain.value, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in DIRECT])
def test_rays_of_weight_zero_are_not_read(name: str) -> None:
    spoilt, weights = DATA.double().clone(), torch.exp(-DATA.double())
    weights[4] = 0
    weights[:, 3:6, 9] = 0
    other = torch.where(weights > 0, spoilt, spoilt + 0.3)
    one, two = (run(name, data, weights=weights).value for data in (spoilt, other))
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["back projection", "filtered back projection", "CGLS", "SART"])
def test_twice_the_attenuation_is_twice_the_volume(name: str) -> None:
    data = DATA.double()
    torch.testing.assert_close(run(name, 2 * data).value, 2 * run(name, data).value, rtol=1e-9, atol=1e-12)
