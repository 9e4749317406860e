"""SART: the truth is its fixed point, sweeps lower the misfit, the order of views, bad settings."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.operators import Projector
from duotomo.reconstruct import Sart, reconstruct
from duotomo.reconstruct.sart import spread_order
from duotomo.solvers import Status
from tests.reconstruct.visit import DATA, GRID, SCAN, TRUTH


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_true_volume_is_a_fixed_point_on_consistent_data(nonnegative: bool, weighted: bool) -> None:
    truth = TRUTH.double().clamp(min=0)
    data = Projector(grid=GRID, acquisition=SCAN)(truth)
    weights = torch.exp(-data) if weighted else None
    algorithm = Sart(n_sweeps=2, nonnegative=nonnegative)
    solution = reconstruct(
        data, grid=GRID, acquisition=SCAN, algorithm=algorithm, start=truth, weights=weights
    )
    torch.testing.assert_close(solution.value, truth, rtol=1e-9, atol=1e-12)


def test_sweeps_lower_the_misfit_of_consistent_data_to_little() -> None:
    data = Projector(grid=GRID, acquisition=SCAN)(TRUTH.double().clamp(min=0))
    solution = reconstruct(data, grid=GRID, acquisition=SCAN, algorithm=Sart(n_sweeps=30))
    values = [step.objective for step in solution.history]
    assert all(later < earlier for earlier, later in pairwise(values))
    assert values[-1] < 1e-4 * values[0]
    assert solution.status is Status.STEP_LIMIT


def test_one_view_from_nothing_is_corrected_in_proportion_to_the_relaxation() -> None:
    half, whole = (
        reconstruct(
            DATA[4:5],
            grid=GRID,
            acquisition=SCAN[4],
            algorithm=Sart(n_sweeps=1, relaxation=relaxation, nonnegative=False),
        ).value
        for relaxation in (0.5, 1.0)
    )
    torch.testing.assert_close(2 * half, whole)


def test_unconstrained_values_may_be_negative() -> None:
    found = reconstruct(
        DATA, grid=GRID, acquisition=SCAN, algorithm=Sart(n_sweeps=3, nonnegative=False)
    ).value
    assert float(found.min()) < 0


@given(n=st.integers(1, 60))
def test_order_visits_every_view_once_and_jumps(n: int) -> None:
    order = spread_order(n)
    assert sorted(order) == list(range(n))
    assert all(abs(a - b) >= (n - 1) // 3 for a, b in pairwise(order))


@pytest.mark.parametrize("relaxation", [0.0, -1.0, 2.0, float("nan")])
def test_relaxation_that_cannot_converge_is_refused(relaxation: float) -> None:
    with pytest.raises(DuotomoError, match="Sart: expected 0 < relaxation < 2; got"):
        Sart(n_sweeps=1, relaxation=relaxation)


def test_no_sweeps_are_refused() -> None:
    with pytest.raises(DuotomoError, match="Sart: expected n_sweeps >= 1; got 0"):
        Sart(n_sweeps=0)


def test_grid_beside_the_beam_is_refused() -> None:
    aside = VolumeGrid(shape=GRID.shape, spacing_mm=GRID.spacing_mm, center_mm=(20.0, 20.0, 2000.0))
    with pytest.raises(GeometryError, match="Sart: expected the grid's footprint on the detector"):
        reconstruct(DATA, grid=aside, acquisition=SCAN, algorithm=Sart(n_sweeps=1))
