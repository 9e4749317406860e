"""Pixels within a voxel's shadow are combined, with the variance of their mean."""

from __future__ import annotations

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.binning import bin_projections
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.reconstruct import TvLeastSquares, combine_pixels, pixels_per_voxel, reconstruct
from duotomo.simulate import scan
from tests.cases.scans import arc
from tests.reconstruct.visit import Body, error

FINE = arc((50, 80), 1.0, n_views=9, degrees=50)
COARSE = VolumeGrid.on_detector((12, 11, 16), (4.0, 4.0, 4.0))


def misfit(weights: torch.Tensor | None = None, data: torch.Tensor | None = None) -> ProjectionMisfit:
    noise = torch.randn(FINE.shape, generator=torch.Generator().manual_seed(0))
    return ProjectionMisfit(Projector(COARSE, FINE), noise if data is None else data, weights)


def test_as_many_as_fit_into_the_shadow() -> None:
    assert pixels_per_voxel(COARSE, FINE) == (4, 4)
    assert pixels_per_voxel(VolumeGrid.on_detector((4, 4, 4), (9.0, 2.0, 0.5)), FINE) == (2, 1)


def test_pixels_as_large_as_voxels_are_left_alone() -> None:
    one = ProjectionMisfit(
        Projector(VolumeGrid.on_detector((4, 4, 4), (2.0, 0.9, 0.9)), FINE), torch.ones(FINE.shape)
    )
    found, sigma = combine_pixels(one, 0.3)
    assert found is one
    assert sigma == 0.3


def test_the_noise_of_means_is_the_one_that_is_said() -> None:
    found, sigma = combine_pixels(misfit(), 1.0)
    assert found.data.shape == (9, 12, 20)
    assert sigma == 0.25
    assert abs(float(found.data.std()) / sigma - 1) < 0.05
    # The same with weights that say the same.
    told, one = combine_pixels(misfit(torch.ones(FINE.shape)), 1.0)
    assert told.weights is not None
    torch.testing.assert_close(told.weights, torch.full_like(told.data, 16.0))
    assert one == 1.0


def test_pixels_without_weight_are_left_out() -> None:
    weights, data = torch.ones(FINE.shape), torch.full(FINE.shape, 2.0)
    weights[0, 0, :2], weights[1, :4, :4] = 0.0, 0.0
    data[weights == 0] = 1e6
    found, _ = combine_pixels(misfit(weights, data), 1.0)
    assert found.weights is not None
    assert float(found.data[0, 0, 0]) == 2.0
    assert abs(float(found.weights[0, 0, 0]) - 14.0) < 1e-4
    assert float(found.weights[1, 0, 0]) == 0.0
    assert bool(torch.isfinite(found.data).all())


def test_voxels_coarser_than_pixels_are_not_spoilt_by_them() -> None:
    data = scan(Body(), COARSE, FINE, generator=torch.Generator().manual_seed(3), photons=2e4)
    truth = torch.from_numpy(Body().voxels(COARSE)).float()
    fine = reconstruct(data, grid=COARSE, acquisition=FINE, algorithm=TvLeastSquares(n_steps=200))
    binned = reconstruct(
        bin_projections(data, 4), grid=COARSE, acquisition=FINE.bin(4), algorithm=TvLeastSquares(n_steps=200)
    )
    assert error(fine.value, truth) < 1.05 * error(binned.value, truth)
