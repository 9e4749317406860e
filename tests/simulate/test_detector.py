"""Laws of the detector: blur and scatter of the intensity, their size, and what they leave alone."""

from __future__ import annotations

from math import inf, log, nan
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import scan, scan_analytic
from duotomo.simulate.detector import blurred, count, scattered
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((10, 12, 12), (2.0, 2.0, 2.0), gap_mm=2.0)
BALL = Ellipsoid(center_mm=(1.0, 12.0, 12.0), radii_mm=(9.0, 9.0, 9.0), value=0.05)
SCAN = arc((14, 20), 2.0, n_views=3, degrees=30)
ENDLESS = 1e14


class Edge:
    """A plate over half the detector: what is behind u = n_u / 2 is dimmed by `depth`."""

    def __init__(self, depth: float) -> None:
        self.depth = depth

    def line_integrals(self, acquisition: Acquisition, *, oversample: int = 1) -> NDArray[np.float64]:
        integrals = np.zeros(acquisition.shape)
        integrals[..., acquisition.detector_shape[1] // 2 :] = self.depth
        return integrals


class Voxels:
    """A phantom that knows its voxels only."""

    def voxels(self, grid: VolumeGrid, *, dtype: Any = np.float64) -> NDArray[Any]:
        return np.zeros(grid.shape, dtype=dtype)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def intensity(**effects: float) -> torch.Tensor:
    return torch.exp(-scan(BALL, GRID, SCAN, generator=seeded(), photons=ENDLESS, **effects).double())  # type: ignore[arg-type]


def test_without_effects_it_is_the_plain_poisson_scan_bit_for_bit() -> None:
    volume = torch.from_numpy(BALL.voxels(GRID.refine(2))).float()
    expected = Projector(grid=GRID.refine(2), acquisition=SCAN)(volume)
    counts = torch.poisson(5e4 * torch.exp(-expected.double()), generator=seeded())
    plain = -torch.log(counts.clamp(min=1) / 5e4).float()
    assert torch.equal(scan(BALL, GRID, SCAN, generator=seeded(), photons=5e4), plain)
    assert torch.equal(
        scan(BALL, GRID, SCAN, generator=seeded(), photons=5e4, blur_mm=0.0, scatter=0.0), plain
    )


def test_counts_have_the_mean_and_the_variance_of_photons() -> None:
    mean = torch.tensor([3.0, 40.0, 2e4], dtype=torch.float64)
    draws = count(mean.expand(20_000, 3), seeded())
    spread = torch.sqrt(mean / len(draws))
    assert bool(((draws.mean(0) - mean).abs() < 5 * spread).all())
    torch.testing.assert_close(draws.var(0), mean, rtol=5 * (2 / len(draws)) ** 0.5 + 0.01, atol=0.0)


def test_noise_after_blur_and_scatter_is_that_of_their_mean() -> None:
    photons, effects = 2e4, {"blur_mm": 3.0, "scatter": 0.4}
    mean = photons * intensity(**effects)
    draws = torch.stack(
        [
            photons
            * torch.exp(-scan(BALL, GRID, SCAN, generator=seeded(k), photons=photons, **effects).double())  # type: ignore[arg-type]
            for k in range(40)
        ]
    )
    normalised = (draws - mean) / torch.sqrt(mean)
    n = normalised.numel()
    assert abs(float(normalised.mean())) < 5 / n**0.5
    assert float(normalised.var()) == pytest.approx(1, abs=5 * (2 / n) ** 0.5)


@given(
    n_v=st.integers(1, 9),
    n_u=st.integers(1, 9),
    sigma_mm=st.floats(0.0, 30.0),
    pixel_mm=st.floats(0.1, 3.0),
    seed=st.integers(0, 99),
)
def test_blur_conserves_counts_flat_fields_and_signs(
    n_v: int, n_u: int, sigma_mm: float, pixel_mm: float, seed: int
) -> None:
    image = torch.rand((2, n_v, n_u), generator=seeded(seed), dtype=torch.float64)
    soft = blurred(image, (pixel_mm, pixel_mm / 2), sigma_mm)
    torch.testing.assert_close(soft.sum((1, 2)), image.sum((1, 2)))
    assert float(soft.min()) >= 0
    flat = torch.ones_like(image)
    torch.testing.assert_close(blurred(flat, (pixel_mm, pixel_mm / 2), sigma_mm), flat)


@pytest.mark.parametrize("sigma_mm", [0.05, 0.3, 1.0])
def test_blur_of_a_dot_has_the_variance_asked_for_along_both_axes(sigma_mm: float) -> None:
    dot = torch.zeros((1, 61, 81), dtype=torch.float64)
    dot[0, 30, 40] = 1.0
    spot = blurred(dot, (0.4, 0.2), sigma_mm)[0]
    v_mm, u_mm = 0.4 * (torch.arange(61).double() - 30), 0.2 * (torch.arange(81).double() - 40)
    assert float((spot.sum(1) * v_mm**2).sum()) == pytest.approx(sigma_mm**2, rel=1e-9)
    assert float((spot.sum(0) * u_mm**2).sum()) == pytest.approx(sigma_mm**2, rel=1e-9)


def test_blur_is_of_the_intensity_and_widens_an_edge_to_its_sigma() -> None:
    # The slope of a blurred edge is the blur itself; blurred line integrals would have another slope.
    wide = arc((3, 80), 0.1, n_views=1, degrees=0)
    seen = scan_analytic(Edge(2.0), wide, generator=seeded(), photons=ENDLESS, blur_mm=0.5)
    bright = torch.exp(-seen.double())[0, 1]
    assert float(bright[0]) == pytest.approx(1.0, rel=1e-5)
    assert float(bright[-1]) == pytest.approx(np.exp(-2.0), rel=1e-5)
    slope = -torch.diff(bright) / (1 - np.exp(-2.0))
    u_mm = 0.1 * (torch.arange(79) - 39)
    assert float((slope * u_mm**2).sum()) == pytest.approx(0.5**2, rel=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_scatter_behind_the_object_is_the_share_asked_for(share: float) -> None:
    primary, both = intensity(), intensity(scatter=share)
    weight = -torch.log(primary)
    measured = ((both - primary) * weight).sum((1, 2)) / (both * weight).sum((1, 2))
    assert measured.tolist() == pytest.approx([share] * SCAN.n_views, rel=1e-5)


def test_scatter_is_smooth_and_never_negative() -> None:
    integrals = torch.zeros((1, 60, 60), dtype=torch.float64)
    integrals[:, 20:40, 20:40] = 3.0
    scatter = scattered(integrals, (2.0, 2.0), share=0.4)
    assert float(scatter.min()) >= 0
    # A Gaussian of standard deviation s has slopes below its height / (s sqrt(e)).
    steepest = float(torch.diff(scatter, dim=-1).abs().max()) / 2.0
    assert steepest < float(scatter.max()) / 20.0


def test_nothing_in_the_beam_scatters_nothing() -> None:
    air = torch.zeros((2, 5, 6), dtype=torch.float64)
    assert torch.equal(scattered(air, (1.0, 1.0), share=0.5), air)


def test_scatter_lowers_line_integrals() -> None:
    clean, veiled = (
        scan(BALL, GRID, SCAN, generator=seeded(), photons=ENDLESS, scatter=share) for share in (0.0, 0.4)
    )
    behind = clean > 0.1
    assert bool((veiled[behind] < clean[behind]).all())
    # Where the share is 40 %, the line integral falls by -log(1 - 0.4), about.
    assert float((clean - veiled)[behind].mean()) == pytest.approx(-log(0.6), rel=0.2)


def test_analytic_scan_is_the_phantoms_own_integral() -> None:
    seen = scan_analytic(BALL, SCAN, generator=seeded(), photons=ENDLESS, oversample=2)
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.numpy(), BALL.line_integrals(SCAN, oversample=2), atol=2e-6)


def test_analytic_scan_and_grid_scan_agree_with_all_effects() -> None:
    effects = {"photons": ENDLESS, "blur_mm": 2.0, "scatter": 0.3}
    on_grid = scan(BALL, GRID, SCAN, generator=seeded(), finer=4, **effects)  # type: ignore[arg-type]
    analytic = scan_analytic(BALL, SCAN, generator=seeded(), **effects)  # type: ignore[arg-type]
    assert float((on_grid - analytic).abs().max()) < 0.02 * float(analytic.abs().max())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_effects_are_the_same_on_a_gpu() -> None:
    integrals = torch.rand((2, 13, 18), generator=seeded(), dtype=torch.float64) * 3
    on_gpu = integrals.to("cuda")
    torch.testing.assert_close(
        blurred(on_gpu, (0.4, 0.2), 0.7).to("cpu"), blurred(integrals, (0.4, 0.2), 0.7)
    )
    torch.testing.assert_close(
        scattered(on_gpu, (2.0, 2.0), share=0.3).to("cpu"), scattered(integrals, (2.0, 2.0), share=0.3)
    )


def test_a_phantom_of_voxels_has_no_analytic_scan() -> None:
    with pytest.raises(DuotomoError, match="expected a phantom with line_integrals; got Voxels"):
        scan_analytic(Voxels(), SCAN, generator=seeded())  # type: ignore[arg-type]


@pytest.mark.parametrize("analytic", [False, True])
def test_impossible_detectors_are_refused(analytic: bool) -> None:
    def ask(**wrong: Any) -> None:
        if analytic:
            scan_analytic(BALL, SCAN, generator=seeded(), **wrong)
        else:
            scan(BALL, GRID, SCAN, generator=seeded(), **wrong)

    for blur_mm in (-0.1, inf, nan):
        with pytest.raises(DuotomoError, match="expected blur_mm >= 0 and finite; got"):
            ask(blur_mm=blur_mm)
    for scatter in (-0.1, 1.0, nan):
        with pytest.raises(DuotomoError, match="expected 0 <= scatter < 1; got"):
            ask(scatter=scatter)
    with pytest.raises(DuotomoError, match="expected photons > 0; got -1"):
        ask(photons=-1)
