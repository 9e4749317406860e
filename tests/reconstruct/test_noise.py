"""The noise is found from the data alone, and its pull sets the weight of total variation."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid, paper
from duotomo.operators import Projector, Weighting
from duotomo.phantoms import Ellipsoid, EllipticCylinder, SheppLogan
from duotomo.reconstruct.noise import estimated_photons, noise_level, total_variation_weight
from duotomo.simulate import scan

GRID = VolumeGrid.on_detector((16, 24, 24), (3.0, 3.0, 3.0))
MACHINE = paper(detector_shape=(80, 120))
BREAST = EllipticCylinder(center_mm=(0.0, 36.0, 24.0), radii_mm=(30.0, 30.0), height_mm=40.0, value=0.04)
BALL = Ellipsoid(center_mm=(0.0, 36.0, 24.0), radii_mm=(30.0, 30.0, 20.0), value=0.05)
HEAD = SheppLogan(center_mm=(0.0, 36.0, 24.0), size_mm=48.0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("photons", [2e3, 2e4])
@pytest.mark.parametrize("phantom", [BREAST, BALL])
def test_level_of_counted_photons(phantom: EllipticCylinder | Ellipsoid, photons: float) -> None:
    data = scan(phantom, GRID, MACHINE, generator=seeded(), photons=photons)
    clean = scan(phantom, GRID, MACHINE, generator=seeded(), photons=1e12)
    # Var p = e^p / photons.
    expected = math.sqrt(float(torch.exp(clean[clean > 0.01 * clean.max()]).mean()) / photons)
    assert noise_level(data) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("photons", [2e3, 2e4, 2e5])
def test_fine_detail_is_not_taken_for_noise(photons: float) -> None:
    data = scan(HEAD, GRID, MACHINE, generator=seeded(), photons=photons)
    clean = scan(HEAD, GRID, MACHINE, generator=seeded(), photons=1e12)
    expected = math.sqrt(float(torch.exp(clean[clean > 0.01 * clean.max()]).mean()) / photons)
    assert noise_level(data) == pytest.approx(expected, rel=0.1)
    found = estimated_photons(data)
    assert found == pytest.approx(photons, rel=0.1)


@pytest.mark.parametrize("masked", [False, True])
def test_air_that_was_replaced_is_not_looked_at(masked: bool) -> None:
    data = scan(BREAST, GRID, MACHINE, generator=seeded(), photons=2e4)
    replaced = data.clamp(min=0.0)
    if masked:
        # As little noise as a smoothed background has.
        quiet = 1e-4 * torch.randn(data.shape, generator=seeded(8))
        replaced = torch.where(data > 0.1, data, quiet)
    assert noise_level(replaced) == pytest.approx(noise_level(data), rel=0.25)


def test_noise_shared_by_neighbours_counts_with_its_power() -> None:
    clean = scan(BREAST, GRID, MACHINE, generator=seeded(), photons=1e12)
    white = torch.randn(clean.shape, generator=seeded(4))
    shared = (white + white.roll(1, 2) + white.roll(1, 1) + white.roll((1, 1), (1, 2))) / 4
    # Means of large blocks have the noise of a white pixel.
    spread = torch.exp(clean / 2) / 100
    found = noise_level(clean + spread * shared) / noise_level(clean + spread * white)
    assert 0.6 < found < 1.05


def test_noise_that_is_the_same_everywhere_has_no_photons() -> None:
    clean = scan(HEAD, GRID, MACHINE, generator=seeded(), photons=1e12)
    thick = 3 * clean
    data = thick + 0.02 * torch.randn(clean.shape, generator=seeded(4))
    assert estimated_photons(data) is None
    assert noise_level(data) == pytest.approx(0.02, rel=0.15)
    # Nor without air.
    cut = data.clamp(min=0.0)
    assert estimated_photons(cut) is None
    assert noise_level(cut) == pytest.approx(0.02, rel=0.3)


def test_photons_of_too_small_a_picture_are_not_told() -> None:
    assert estimated_photons(1 + 0.1 * torch.randn(1, 20, 20, generator=seeded())) is None
    assert estimated_photons(torch.ones(2, 40, 40)) is None


def test_large_scans_are_judged_by_some_of_their_views(monkeypatch: pytest.MonkeyPatch) -> None:
    from duotomo.reconstruct import photon_noise

    data = scan(BREAST, GRID, MACHINE, generator=seeded(), photons=2e4)
    every = noise_level(data)
    monkeypatch.setattr(photon_noise, "_PIXELS", 60_000)
    some = noise_level(data)
    assert some != every
    assert some == pytest.approx(every, rel=0.05)


def test_level_of_weighted_data_is_one_when_the_weights_are_right() -> None:
    data = scan(BREAST, GRID, MACHINE, generator=seeded(), photons=2e4)
    weights = 2e4 * torch.exp(-data)
    assert noise_level(data, weights) == pytest.approx(1, rel=0.05)
    assert noise_level(data, weights / 4) == pytest.approx(0.5, rel=0.05)


def test_pixels_of_weight_zero_are_left_out() -> None:
    data = scan(BREAST, GRID, MACHINE, generator=seeded(), photons=2e4)
    weights = 2e4 * torch.exp(-data)
    dead = torch.rand(data.shape, generator=seeded(1)) < 0.1
    spoilt = torch.where(dead, data + torch.rand(data.shape, generator=seeded(2)), data)
    weights[dead] = 0
    assert noise_level(spoilt, weights) == pytest.approx(1, rel=0.1)


def test_what_is_linear_along_one_direction_is_no_noise() -> None:
    v, u = torch.arange(30.0).double()[:, None], torch.arange(40.0).double()
    smooth = (8 + (1 + 0.1 * v) * torch.sin(u) + torch.cos(v))[None]
    assert noise_level(smooth) == pytest.approx(0, abs=1e-12)


def test_weight_is_the_rms_that_noise_leaves_after_the_adjoint() -> None:
    # For A = diag(a), the rms of a n is sqrt(mean a^2) sigma.
    a = torch.rand(200, 200, generator=seeded(5), dtype=torch.float64)
    expected = 0.3 * float((a**2).mean().sqrt())
    weight = total_variation_weight(Weighting(a), 0.3, dtype=torch.float64, kappa=1.0)
    assert weight == pytest.approx(expected, rel=0.02)
    assert total_variation_weight(Weighting(a), 0.3, dtype=torch.float64, kappa=2.0) == 2 * weight
    w = torch.rand(200, 200, generator=seeded(6), dtype=torch.float64)
    weighted = 0.3 * float((a**2 * w).mean().sqrt())
    assert total_variation_weight(Weighting(a), 0.3, w, kappa=1.0) == pytest.approx(weighted, rel=0.02)


def test_weight_is_the_same_each_time_and_proportional_to_sigma() -> None:
    projector = Projector(grid=GRID, acquisition=MACHINE.bin(4))
    one, again, three = (total_variation_weight(projector, sigma) for sigma in (0.1, 0.1, 0.3))
    assert one == again > 0
    assert three == pytest.approx(3 * one, rel=1e-5)


def test_too_few_pixels_behind_the_object_are_refused() -> None:
    data = torch.zeros(1, 20, 20)
    data[0, 3:7, 3:7] = 1
    with pytest.raises(DuotomoError, match=r"noise_level: expected at least 16 patches of 3 x 3 .*; got 4"):
        noise_level(data)
    with pytest.raises(DuotomoError, match="noise_level: expected at least 16 patches"):
        noise_level(torch.ones(3, 1, 500))


@pytest.mark.parametrize(("sigma", "kappa"), [(-1.0, 1.0), (float("nan"), 1.0), (1.0, -1.0), (1.0, math.inf)])
def test_impossible_noise_is_refused(sigma: float, kappa: float) -> None:
    with pytest.raises(DuotomoError, match="total_variation_weight: expected sigma >= 0 and kappa >= 0"):
        total_variation_weight(Weighting(torch.ones(3)), sigma, kappa=kappa)
