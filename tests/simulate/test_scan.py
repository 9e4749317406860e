"""Laws of a simulated scan: its mean, its noise, its seed, and the messages of what it refuses."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import same_grid_noise_free, scan
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((10, 12, 12), (2.0, 2.0, 2.0), gap_mm=2.0)
BALL = Ellipsoid(center_mm=(1.0, 12.0, 12.0), radii_mm=(9.0, 9.0, 9.0), value=0.05)
SCAN = arc((14, 20), 2.0, n_views=3, degrees=30)

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_scan_is_float32_projections() -> None:
    projections = scan(BALL, GRID, SCAN, generator=seeded())
    assert tuple(projections.shape) == SCAN.shape
    assert projections.dtype == torch.float32


def test_seed_decides_the_noise() -> None:
    one, again, other = (scan(BALL, GRID, SCAN, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_with_endless_photons_it_is_the_exact_line_integral() -> None:
    exact = BALL.line_integrals(SCAN)
    projections = scan(BALL, GRID, SCAN, generator=seeded(), photons=1e12, finer=4).numpy()
    assert np.linalg.norm(projections - exact) < 0.02 * np.linalg.norm(exact)


def test_noise_has_the_variance_of_counted_photons() -> None:
    # d(-log n) = -dn / n and Var n = n, so Var p = exp(p) / photons where counts are high.
    photons, expected = 2e4, scan(BALL, GRID, SCAN, generator=seeded(), photons=1e12).double()
    draws = torch.stack(
        [scan(BALL, GRID, SCAN, generator=seeded(seed), photons=photons).double() for seed in range(40)]
    )
    normalised = (draws - expected) / torch.sqrt(torch.exp(expected) / photons)
    n = normalised.numel()
    assert abs(float(normalised.mean())) < 5 / n**0.5 + 0.01
    assert float(normalised.var()) == pytest.approx(1, abs=5 * (2 / n) ** 0.5 + 0.01)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
@pytest.mark.parametrize("photons", [3e7, 3e8, 3e12])
def test_noise_of_very_many_photons_has_their_variance(photons: float, device: str) -> None:
    air = Ellipsoid(center_mm=(1.0, 12.0, 12.0), radii_mm=(9.0, 9.0, 9.0), value=0.0)
    generator = torch.Generator(device=device).manual_seed(0)
    draws = torch.cat([scan(air, GRID, SCAN, generator=generator, photons=photons) for _ in range(20)])
    # Float32 keeps small line integrals to full precision.
    normalised = draws.double() * photons**0.5
    n = normalised.numel()
    assert abs(float(normalised.mean())) < 5 / n**0.5
    assert float(normalised.var()) == pytest.approx(1, abs=5 * (2 / n) ** 0.5)


def test_starved_pixels_count_one_photon() -> None:
    opaque = Ellipsoid(center_mm=(1.0, 12.0, 12.0), radii_mm=(9.0, 9.0, 9.0), value=10.0)
    projections = scan(opaque, GRID, SCAN, generator=seeded(), photons=1000.0)
    assert torch.isfinite(projections).all()
    assert float(projections.max()) == pytest.approx(float(np.log(1000.0)), rel=1e-6)


def test_finer_grid_is_not_the_same_grid() -> None:
    crime = same_grid_noise_free(BALL, GRID, SCAN)
    fine = scan(BALL, GRID, SCAN, generator=seeded(), photons=1e12)
    assert float((crime - fine).abs().max()) > 1e-3


def test_same_grid_noise_free_is_the_projector_of_the_voxels() -> None:
    from duotomo.operators import Projector

    volume = torch.from_numpy(BALL.voxels(GRID))
    projections = same_grid_noise_free(BALL, GRID, SCAN, dtype=torch.float64)
    assert torch.equal(projections, Projector(grid=GRID, acquisition=SCAN)(volume))


def test_no_photons_are_refused() -> None:
    with pytest.raises(DuotomoError, match="expected photons > 0; got 0"):
        scan(BALL, GRID, SCAN, generator=seeded(), photons=0)


def test_inverse_crime_has_to_be_asked_for_by_name() -> None:
    with pytest.raises(DuotomoError, match=r"expected finer >= 2; got 1.*same_grid_noise_free"):
        scan(BALL, GRID, SCAN, generator=seeded(), finer=1)
