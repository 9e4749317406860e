"""The preconditioner of a volume: an inverse where the curvature is alike everywhere, never singular."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.geometry import VolumeGrid
from duotomo.methods.level import Level
from duotomo.methods.priors import Priors
from duotomo.methods.problem import Problem
from duotomo.methods.scales import scales_of
from duotomo.methods.volume_preconditioner import FLOOR, VolumePreconditioner
from duotomo.objectives import Objective, TotalVariation
from duotomo.objectives.objective import Product
from duotomo.solvers import Lbfgs
from tests.cases.studies import study, truth

SHAPES = st.tuples(*[st.integers(1, 7)] * 3)


class Stencil(Objective):
    """`1/2 f^T K f`, K a convolution that wraps around, whose spectrum is given."""

    axes = ("z", "y", "x")

    def __init__(self, spectrum: torch.Tensor, shape: tuple[int, int, int]) -> None:
        self.spectrum, self.shape, self.operators = spectrum, shape, ()

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        gradient = self.curvature(x)(x)
        return float((x * gradient).sum()) / 2, gradient

    def curvature(self, x: torch.Tensor) -> Product:
        return lambda d: torch.fft.irfftn(torch.fft.rfftn(d) * self.spectrum, s=self.shape)


def stencil(shape: tuple[int, int, int], seed: int) -> Stencil:
    """Return a convolution that is symmetric and positive, as random as these allow."""
    draw = torch.Generator().manual_seed(seed)
    kernel = torch.randn(shape, generator=draw, dtype=torch.float64)
    return Stencil(torch.fft.rfftn(kernel).abs().square(), shape)


def volumes(shape: tuple[int, int, int], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, *shape, generator=draw, dtype=torch.float64)
    return a, b


@given(shape=SHAPES, seed=st.integers(0, 99))
def test_it_inverts_a_convolution_and_its_floor(shape: tuple[int, int, int], seed: int) -> None:
    """`(K + c) P r = c r`, wherever the middle of the object is."""
    objective = stencil(shape, seed)
    r, volume = volumes(shape, seed + 1)
    floor = FLOOR * float(objective.spectrum.max())
    found = VolumePreconditioner(objective, volume)(r)
    back = objective.curvature(volume)(found) + floor * found
    torch.testing.assert_close(back, floor * r, rtol=1e-9, atol=1e-9 * floor)


@given(shape=SHAPES, seed=st.integers(0, 99), weight=st.floats(1e-3, 1e3))
def test_it_is_symmetric_positive_and_bounded(shape: tuple[int, int, int], seed: int, weight: float) -> None:
    """Also of a curvature that ends at the sides of the grid."""
    grid = VolumeGrid.on_detector(shape, (1.0, 1.0, 1.0))
    a, b = volumes(shape, seed)
    of = VolumePreconditioner(weight * TotalVariation(grid, smoothing=0.1), a)
    before = a.clone()
    scale = float(a.norm() * b.norm())
    assert float((a * of(b)).sum()) == pytest.approx(float((of(a) * b).sum()), abs=1e-12 * scale)
    assert torch.equal(a, before)
    share = float((a * of(a)).sum() / a.square().sum())
    assert FLOOR / (1 + FLOOR) - 1e-12 <= share <= 1 + 1e-12
    torch.testing.assert_close(of(a.flatten()), of(a).flatten(), rtol=0, atol=0)


def test_a_volume_of_zeros_and_a_curvature_of_zeros_leave_everything_as_it_is() -> None:
    shape = (3, 4, 5)
    nothing = Stencil(torch.zeros(3, 4, 3, dtype=torch.float64), shape)
    r, _ = volumes(shape, 0)
    torch.testing.assert_close(VolumePreconditioner(nothing, torch.zeros_like(r))(r), r)


def test_fewer_steps_lead_as_far() -> None:
    """Two thirds of the steps end at most as high as all of them without it."""
    of = study(dtype=torch.float64)
    one = Problem(Level(of, (1, 1, 1), basis="spline"), (), Priors(), scales_of(of, Priors()))
    start = 0.5 * truth(one.level.grid, torch.float64)
    objective = one.of_volume(())

    def end(n_steps: int, precondition: VolumePreconditioner | None) -> float:
        solver = Lbfgs(n_steps=n_steps, memory=20, tolerance=0.0, first_step=0.1)
        return solver.minimise(objective, start, precondition=precondition).history[-1].objective

    assert end(60, one.volume_preconditioner(start, ())) < end(90, None)
