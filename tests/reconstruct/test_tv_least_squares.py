"""Total variation: weight zero is least squares, more weight is smoother, the weight found is a good one."""

from __future__ import annotations

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import ProjectionMisfit, TotalVariation
from duotomo.operators import Projector
from duotomo.reconstruct import LeastSquares, TvLeastSquares, reconstruct
from duotomo.reconstruct.mismatch import STEPS
from duotomo.reconstruct.noise import KAPPA
from duotomo.solvers import PrimalDual, Step
from tests.cases.scans import arc
from tests.reconstruct.visit import DATA, GRID, SCAN, error

SMALL = VolumeGrid.on_detector((3, 4, 4), (4.0, 4.0, 4.0), gap_mm=4.0)
WIDE = arc((12, 30), 2.0, n_views=15, degrees=120, source_to_detector_mm=200.0)


def total_variation(volume: torch.Tensor) -> float:
    return float(sum(volume.diff(dim=axis).abs().sum() for axis in range(3)))


def test_without_weight_it_is_the_least_squares_solution() -> None:
    # Well posed and positive: both must find the same volume.
    truth = 0.02 + 0.05 * torch.rand(SMALL.shape, generator=torch.Generator().manual_seed(0)).double()
    projector = Projector(grid=SMALL, acquisition=WIDE)
    noise = 1e-3 * torch.randn(WIDE.shape, generator=torch.Generator().manual_seed(1)).double()
    data = projector(truth) + noise
    least = reconstruct(
        data, grid=SMALL, acquisition=WIDE, algorithm=LeastSquares(n_steps=400, tolerance=1e-12)
    ).value
    found = [
        reconstruct(
            data,
            grid=SMALL,
            acquisition=WIDE,
            algorithm=TvLeastSquares(n_steps=3000, tolerance=1e-9, tv_weight=tv_weight),
        ).value
        for tv_weight in (1.0, 1e-2, 1e-6)
    ]
    assert float(least.min()) > 0
    gaps = [float((volume - least).norm() / least.norm()) for volume in found]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-2


def test_more_weight_is_less_variation() -> None:
    variations = [
        total_variation(
            reconstruct(
                DATA,
                grid=GRID,
                acquisition=SCAN,
                algorithm=TvLeastSquares(n_steps=60, tv_weight=tv_weight),
            ).value
        )
        for tv_weight in (0.01, 0.3, 10.0)
    ]
    assert variations[0] > variations[1] > variations[2]


def test_weight_found_beats_far_smaller_and_far_larger_ones() -> None:
    def found(kappa: float) -> float:
        algorithm = TvLeastSquares(n_steps=150, kappa=kappa)
        return error(reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=algorithm).value)

    assert found(KAPPA) < min(found(0.001), found(300.0))


def test_weight_given_is_the_weight_used_and_weights_are_left_as_they_are() -> None:
    # The same objective, written down by hand.
    misfit = ProjectionMisfit(Projector(grid=GRID, acquisition=SCAN), DATA)
    expected = PrimalDual(n_steps=20).minimise(misfit + 0.3 * TotalVariation(GRID))
    given = reconstruct(
        DATA, grid=GRID, acquisition=SCAN, algorithm=TvLeastSquares(n_steps=20, tv_weight=0.3)
    )
    torch.testing.assert_close(given.value, expected.value)
    assert given.history[-1].applications == expected.history[-1].applications


def test_what_chose_the_weight_is_counted() -> None:
    steps: list[Step] = []
    found = reconstruct(
        DATA, grid=GRID, acquisition=SCAN, algorithm=TvLeastSquares(n_steps=20), on_step=steps.append
    )
    assert steps == list(found.history[1:])
    assert [step.number for step in found.history] == list(range(21))
    # Two applications a step of the short fit.
    assert found.history[0].applications > 2 * STEPS


@pytest.mark.parametrize("name", ["tv_weight", "kappa", "depth_weight"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_impossible_weights_are_refused(name: str, value: float) -> None:
    with pytest.raises(DuotomoError, match=f"TvLeastSquares: expected {name} >= 0 and finite; got"):
        TvLeastSquares(**{name: value})  # type: ignore[arg-type]


def test_impossible_stops_are_refused() -> None:
    with pytest.raises(DuotomoError, match="PrimalDual: expected tolerance >= 0"):
        TvLeastSquares(tolerance=-1.0)
    with pytest.raises(DuotomoError, match="PrimalDual: expected n_steps >= 1"):
        TvLeastSquares(n_steps=0)
    with pytest.raises(DuotomoError, match="Cgls: expected tolerance >= 0"):
        LeastSquares(n_steps=1, tolerance=-1.0)
