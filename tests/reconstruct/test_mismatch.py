"""What a model cannot explain is measured, and the weight of total variation follows it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.objectives import ProjectionMisfit, photon_weights
from duotomo.operators import Projector, Weighting
from duotomo.reconstruct import TvLeastSquares, reconstruct
from duotomo.reconstruct.mismatch import model_mismatch, residual_mismatch, with_mismatch
from duotomo.reconstruct.noise import noise_level, total_variation_weight
from tests.reconstruct.visit import DATA, GRID, PHOTONS, SCAN, error

SIGMA = noise_level(DATA)


def turned(degrees: float) -> Acquisition:
    """The scan with its detector turned in its own plane about the middle."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    u, v = np.array(SCAN.u_axis), np.array(SCAN.v_axis)
    return replace(
        SCAN,
        u_axis=tuple(map(tuple, (c * u + s * v).tolist())),
        v_axis=tuple(map(tuple, (c * v - s * u).tolist())),
    )


def mismatch(
    data: torch.Tensor, scan: Acquisition = SCAN, grid: VolumeGrid = GRID, weights: torch.Tensor | None = None
) -> float:
    misfit = ProjectionMisfit(Projector(grid=grid, acquisition=scan), data, weights)
    return model_mismatch(misfit, SIGMA if weights is None else 1.0)


def other_gain() -> torch.Tensor:
    data = DATA.clone()
    data[4] += 0.2
    return data


def shifted_view() -> torch.Tensor:
    data = DATA.clone()
    data[4] = data[4].roll(3, 1)
    return data


def test_wrong_models_explain_less() -> None:
    right = mismatch(DATA)
    half = VolumeGrid.on_detector((8, 7, 16), GRID.spacing_mm, gap_mm=6.0)
    wrong = {
        "turned by 8 degrees": mismatch(DATA, turned(8.0)),
        "a view of another gain": mismatch(other_gain()),
        "a view that is shifted": mismatch(shifted_view()),
        "tissue beside the grid": mismatch(DATA, grid=half),
    }
    assert {name: found > 1.3 * right for name, found in wrong.items()} == dict.fromkeys(wrong, True)


def test_weights_do_not_change_what_is_not_explained() -> None:
    weights = photon_weights(DATA, PHOTONS)
    assert mismatch(DATA, weights=weights) == pytest.approx(mismatch(DATA), rel=0.3)


def test_rays_of_weight_zero_are_not_asked() -> None:
    weights = photon_weights(DATA, PHOTONS)
    weights[4] = 0
    spoilt = DATA.clone()
    spoilt[4] = 17.0
    assert mismatch(spoilt, weights=weights) == pytest.approx(mismatch(DATA, weights=weights), rel=0.3)
    everything_left_out = residual_mismatch(DATA, DATA, 1.0, torch.zeros_like(DATA))
    assert everything_left_out == 0.0


def test_no_more_than_noise_is_no_mismatch() -> None:
    noise = 0.1 * torch.randn(3, 50, 50, generator=torch.Generator().manual_seed(0))
    assert residual_mismatch(noise, torch.ones_like(noise), 0.2) == 0
    assert residual_mismatch(noise + 0.3, torch.ones_like(noise), 0.1) == pytest.approx(0.3, rel=0.05)
    weights = torch.full_like(noise, 4.0)
    assert residual_mismatch(noise + 0.3, torch.ones_like(noise), 0.2, weights) == pytest.approx(
        0.3, rel=0.05
    )


def test_variances_add() -> None:
    weights = torch.tensor([4.0, 0.01, 0.0], dtype=torch.float64)
    found, sigma = with_mismatch(weights, 0.5, 2.0)
    assert found is not None
    assert sigma == 1
    torch.testing.assert_close(found[:2], 1 / (0.25 / weights[:2] + 4))
    assert found[2] == 0
    assert with_mismatch(None, 0.0, 0.0) == (None, 0.0)


@pytest.mark.parametrize(("data", "scan"), [(shifted_view(), SCAN), (DATA, turned(8.0))])
def test_data_that_contradict_each_other_are_smoothed_more(data: torch.Tensor, scan: Acquisition) -> None:
    trusting = 0.3 * total_variation_weight(Projector(grid=GRID, acquisition=SCAN), SIGMA, kappa=1.0)
    by_noise, by_default = (
        error(reconstruct(data, grid=GRID, acquisition=scan, algorithm=algorithm).value)
        for algorithm in (TvLeastSquares(tv_weight=trusting), TvLeastSquares())
    )
    assert by_default < by_noise


def test_photons_known_are_no_worse_than_unknown() -> None:
    weights = photon_weights(DATA, PHOTONS)
    known, unknown = (
        error(reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=TvLeastSquares(), weights=w).value)
        for w in (weights, None)
    )
    assert known < 1.05 * unknown


def test_views_are_needed() -> None:
    misfit = ProjectionMisfit(Weighting(torch.ones(3, 4, 5)), torch.ones(3, 4, 5))
    with pytest.raises(DuotomoError, match="model_mismatch: expected the misfit of a Projector"):
        model_mismatch(misfit, 1.0)
