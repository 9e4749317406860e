"""ML-convex: the likelihood never falls, positive stays positive, the truth is a fixed point."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.reconstruct import MlConvex, reconstruct
from duotomo.reconstruct.ml_convex import _curvature_times_line
from tests.reconstruct.visit import DATA, GRID, SCAN, TRUTH
from tests.strategies import scans


def likelihood(data: torch.Tensor, lines: torch.Tensor, photons: float) -> float:
    """Return the Poisson log likelihood of the counts behind `data`, without their factorials."""
    counts = photons * torch.exp(-data)
    return float((counts * (torch.log(torch.tensor(photons)) - lines) - photons * torch.exp(-lines)).sum())


@given(visit=scans(), seed=st.integers(0, 2**16), scale=st.sampled_from([0.01, 0.3, 3.0]))
def test_likelihood_never_falls_and_positive_stays_positive(
    visit: tuple[VolumeGrid, Acquisition], seed: int, scale: float
) -> None:
    grid, acquisition = visit
    generator = torch.Generator().manual_seed(seed)
    # Data that no volume explains, and a start that is far off in both directions.
    data = scale * torch.randn(acquisition.shape, generator=generator, dtype=torch.float64)
    start = torch.exp(2 * torch.randn(grid.shape, generator=generator, dtype=torch.float64)) * scale
    solution = reconstruct(
        data, grid=grid, acquisition=acquisition, algorithm=MlConvex(n_steps=6), start=start
    )
    values = [step.objective for step in solution.history]
    assert all(later <= earlier * (1 + 1e-12) + 1e-9 for earlier, later in pairwise(values))
    assert float(solution.value.min()) > 0


def test_likelihood_never_falls_from_a_start_that_is_far_too_dense() -> None:
    # Where the plain Newton step of Lange and Fessler overshoots: few photons, and t well above p.
    dense = 3 * TRUTH.double().clamp(min=0.01)
    data = Projector(grid=GRID, acquisition=SCAN)(dense)
    solution = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=20), start=2 * dense)
    values = [step.objective for step in solution.history]
    assert all(later < earlier for earlier, later in pairwise(values))


def test_objective_is_the_likelihood_that_is_missing() -> None:
    data, photons = DATA.double(), 1000.0
    solution = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=3, photons=photons))
    lines = Projector(grid=GRID, acquisition=SCAN)(solution.value)
    missing = likelihood(data, data, photons) - likelihood(data, lines, photons)
    assert solution.history[-1].objective == pytest.approx(missing, rel=1e-6)


def test_gradient_norm_is_that_of_the_objective() -> None:
    data, photons = DATA.double(), 1000.0
    solution = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=2, photons=photons))
    volume = solution.value.clone().requires_grad_()
    lines = Projector(grid=GRID, acquisition=SCAN)(volume)
    counts = photons * torch.exp(-data)
    (photons * torch.exp(-lines) + counts * lines).sum().backward()  # type: ignore[no-untyped-call]
    assert volume.grad is not None
    assert solution.history[-1].gradient_norm == pytest.approx(float(volume.grad.norm()), rel=1e-9)


def test_true_volume_is_a_fixed_point_on_consistent_data() -> None:
    truth = TRUTH.double().clamp(min=0)
    data = Projector(grid=GRID, acquisition=SCAN)(truth)
    found = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=3), start=truth).value
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-12)


def test_photons_scale_the_likelihood_and_nothing_else() -> None:
    few, many = (
        reconstruct(
            DATA.double(), grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=4, photons=photons)
        )
        for photons in (1e3, 1e5)
    )
    torch.testing.assert_close(few.value, many.value, rtol=1e-9, atol=0)
    assert many.history[-1].objective == pytest.approx(100 * few.history[-1].objective, rel=1e-9)


@given(t=st.floats(0, 20))
def test_curvature_is_the_least_that_touches_at_no_attenuation(t: float) -> None:
    # The parabola that touches b e^-t at t with curvature c passes through its value b at 0, for b = 1.
    line = torch.tensor([t], dtype=torch.float64)
    c_t = float(_curvature_times_line(line))
    at_zero = float(torch.exp(-line)) * (1 + t) + 0.5 * c_t * t
    assert at_zero == pytest.approx(1, abs=1e-8)


def test_curvature_is_as_good_in_single_precision() -> None:
    line = torch.logspace(-6, 1.5, 400, dtype=torch.float64)
    single = _curvature_times_line(line.float()).double()
    torch.testing.assert_close(single, _curvature_times_line(line), rtol=3e-6, atol=0)


@pytest.mark.parametrize("value", [0.0, -0.01])
def test_start_without_anything_positive_or_with_something_negative_is_refused(value: float) -> None:
    start = torch.full(GRID.shape, value)
    with pytest.raises(
        DuotomoError, match="MlConvex: expected a start that is positive somewhere and nowhere"
    ):
        reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=1), start=start)


def test_projections_that_attenuate_nothing_are_refused() -> None:
    with pytest.raises(
        DuotomoError, match="MlConvex: expected projections whose mean over the grid's footprint"
    ):
        reconstruct(-DATA, grid=GRID, acquisition=SCAN, algorithm=MlConvex(n_steps=1))


@pytest.mark.parametrize("photons", [0.0, -1.0, float("inf"), float("nan")])
def test_no_photons_are_refused(photons: float) -> None:
    with pytest.raises(DuotomoError, match="MlConvex: expected photons > 0 and finite; got"):
        MlConvex(n_steps=1, photons=photons)


def test_no_steps_are_refused() -> None:
    with pytest.raises(DuotomoError, match="MlConvex: expected n_steps >= 1; got 0"):
        MlConvex(n_steps=0)


def test_grid_beside_the_beam_is_refused() -> None:
    aside = VolumeGrid(shape=GRID.shape, spacing_mm=GRID.spacing_mm, center_mm=(20.0, 20.0, 2000.0))
    with pytest.raises(GeometryError, match="MlConvex: expected the grid's footprint on the detector"):
        reconstruct(DATA, grid=aside, acquisition=SCAN, algorithm=MlConvex(n_steps=1))
