"""The filter of the detector: it smooths projections as the spline smooths the volume."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods.detector_filter import change_over, spline_filtered, voxel_shadow
from duotomo.operators import Projector, SplineBasis
from tests.cases.scans import arc, one_view
from tests.cases.transforms import centers_mm, normal

DOUBLE = torch.float64


def test_the_shadow_of_a_voxel_below_a_source() -> None:
    # 600 mm above the detector, and 500 mm above the middle of the grid: enlarged by 600 / 500.
    scan = one_view((0.0, 30.0, 600.0), (0.0, 20.0, 0.0), pixel_mm=0.5, n=8)
    grid = VolumeGrid(shape=(10, 8, 6), spacing_mm=(4.0, 2.0, 3.0), center_mm=(100.0, 30.0, 5.0))
    assert voxel_shadow(scan, grid) == pytest.approx((1.2 * 2.0 / 0.5, 1.2 * 3.0 / 0.5), rel=1e-12)


def test_the_shadow_on_a_tilted_detector() -> None:
    """Distances are those along the normal of the detector, not along z."""
    tilt = math.radians(20.0)
    source, center, middle = (60.0, 20.0, 600.0), (10.0, 0.0, 5.0), (7.0, 30.0, 80.0)
    scan = Acquisition(
        source_mm=[source],
        detector_center_mm=[center],
        u_axis=[(math.cos(tilt), 0.0, -math.sin(tilt))],
        v_axis=[(0.0, 1.0, 0.0)],
        pixel_spacing_mm=(0.5, 0.25),
        detector_shape=(8, 8),
    )
    x, y, z = middle
    grid = VolumeGrid(shape=(4, 5, 6), spacing_mm=(1.0, 2.0, 3.0), center_mm=(z, y, x))
    # With the normal (sin 20, 0, cos 20): 50 sin + 595 cos to the detector, 53 sin + 520 cos to the middle.
    sin, cos = math.sin(tilt), math.cos(tilt)
    magnification = (50 * sin + 595 * cos) / (53 * sin + 520 * cos)
    assert magnification == pytest.approx(1.13705, abs=1e-5)
    expected = (magnification * 2.0 / 0.5, magnification * 3.0 / 0.25)
    assert voxel_shadow(scan, grid) == pytest.approx(expected, rel=1e-12)


def test_the_shadow_is_a_mean_over_the_views() -> None:
    grid = VolumeGrid.on_detector((10, 10, 10), (3.0, 3.0, 3.0))
    high, low = (one_view((0.0, 0.0, h), (0.0, 0.0, 0.0), pixel_mm=1.0, n=4) for h in (600.0, 150.0))
    both = Acquisition(
        source_mm=(*high.source_mm, *low.source_mm),
        detector_center_mm=(*high.detector_center_mm, *low.detector_center_mm),
        u_axis=(*high.u_axis, *low.u_axis),
        v_axis=(*high.v_axis, *low.v_axis),
        pixel_spacing_mm=high.pixel_spacing_mm,
        detector_shape=high.detector_shape,
    )
    each = [voxel_shadow(scan, grid)[0] for scan in (high, low)]
    # The middle is 15 mm above the detector.
    assert each == pytest.approx([3.0 * 600 / 585, 3.0 * 150 / 135], rel=1e-12)
    assert voxel_shadow(both, grid)[0] == pytest.approx(sum(each) / 2, rel=1e-12)


@pytest.mark.parametrize("widths", [(1.0, 1.0), (1.3, 2.7), (0.4, 1.9), (3.0, 0.5)])
def test_constants_stay(widths: tuple[float, float]) -> None:
    constant = torch.full((2, 9, 11), 0.7, dtype=DOUBLE)
    torch.testing.assert_close(spline_filtered(constant, widths), constant, rtol=1e-14, atol=0)
    used = normal((2, 9, 11), seed=1) > 0
    kept = spline_filtered(constant, widths, used)
    reached = spline_filtered(used.to(DOUBLE), widths) > 0
    torch.testing.assert_close(kept[reached], constant[reached], rtol=1e-13, atol=0)


def test_a_width_of_one_pixel_gives_the_weights_of_the_spline() -> None:
    dot = torch.zeros(1, 7, 7, dtype=DOUBLE)
    dot[0, 3, 3] = 36.0
    weights = torch.tensor([0.0, 0.0, 1.0, 4.0, 1.0, 0.0, 0.0], dtype=DOUBLE)
    torch.testing.assert_close(spline_filtered(dot, (1.0, 1.0))[0], torch.outer(weights, weights))
    along_v = spline_filtered(dot, (1.0, 0.3))[0]
    torch.testing.assert_close(along_v[:, 3], 6 * weights)
    assert float(along_v.sum()) == pytest.approx(36.0)


def test_the_variance_of_the_weights_is_that_of_the_spline() -> None:
    # A cubic B-spline of width w has the variance w^2 / 3; sampled at pixels that is exact from 1 on.
    at = torch.arange(-30, 31, dtype=DOUBLE)
    for width in (1.0, 2.0, 3.0, 5.0):
        line = torch.zeros(1, 1, 61, dtype=DOUBLE)
        line[0, 0, 30] = 1.0
        weights = spline_filtered(line, (0.1, width))[0, 0]
        assert float((weights * at.square()).sum()) == pytest.approx(width**2 / 3, rel=1e-12)


@pytest.mark.parametrize("junk", [1e6, -1e6])
def test_pixels_that_are_not_used_hold_anything(junk: float) -> None:
    views = normal((2, 9, 11), seed=2)
    used = normal((2, 9, 11), seed=3) > -0.5
    dirty = torch.where(used, views, torch.full_like(views, junk))
    clean = spline_filtered(views, (1.0, 1.4), used)
    torch.testing.assert_close(spline_filtered(dirty, (1.0, 1.4), used), clean, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(
        spline_filtered(views, (1.0, 1.4), torch.ones_like(used)), spline_filtered(views, (1.0, 1.4))
    )


@pytest.mark.parametrize(("tilt_deg", "most"), [(0.0, 0.035), (10.0, 0.02)])
def test_a_projection_of_the_smoothed_volume_is_the_smoothed_projection(tilt_deg: float, most: float) -> None:
    """With pixels of the size of a voxel's shadow, as a level has them.

    The filter leaves out what the spline does along z, which leaning rays see: less of it where the detector
    leans with them.
    """
    grid = VolumeGrid.on_detector((16, 24, 24), (2.0, 2.0, 2.0))
    scan = arc((30, 32), 2.0, n_views=5, degrees=30.0, tilt_deg=tilt_deg)
    z, y, x = grid.center_mm
    offsets = centers_mm(grid) - torch.tensor([x, y, z], dtype=DOUBLE)
    volume = torch.exp(-(offsets / torch.tensor([4.0, 4.0, 3.0], dtype=DOUBLE)).square().sum(dim=-1) / 2)
    projector = Projector(grid=grid, acquisition=scan)
    views, expected = projector(volume), projector(SplineBasis(grid)(volume))
    filtered = spline_filtered(views, voxel_shadow(scan, grid))
    # Of 5 % that the spline changes, 3 % and 2 % are left: 0.031 and 0.018.
    assert float((filtered - expected).norm()) < most * float((expected - views).norm())
    assert float((expected - views).norm()) > 0.05 * float(views.norm())


slopes = st.floats(-2.0, 2.0)
widths = st.floats(0.3, 8.0)


@given(slopes, slopes, widths, widths, st.tuples(st.integers(1, 3), st.integers(2, 9), st.integers(2, 9)))
@settings(max_examples=50)
def test_a_ramp_changes_by_its_slope_times_the_width(
    along_v: float, along_u: float, width_v: float, width_u: float, shape: tuple[int, int, int]
) -> None:
    """Everywhere, also at the edges of the detector, where differences are one-sided."""
    v, u = (torch.arange(n, dtype=DOUBLE) for n in shape[1:])
    ramp = (along_v * v[:, None] + along_u * u).expand(shape)
    expected = math.hypot(along_v * width_v, along_u * width_u)
    torch.testing.assert_close(
        change_over(ramp, (width_v, width_u)), torch.full(shape, expected, dtype=DOUBLE), atol=1e-9, rtol=1e-9
    )


def test_one_row_of_pixels_does_not_change_across() -> None:
    row = normal((2, 1, 5), seed=0)
    torch.testing.assert_close(change_over(row, (9.0, 1.0)), change_over(row, (1.0, 1.0)))


@given(st.integers(0, 99))
@settings(max_examples=20)
def test_pixels_that_are_not_used_change_nothing(seed: int) -> None:
    views, other, drawn = (normal((2, 6, 7), seed=seed + more) for more in (0, 100, 200))
    used = drawn > -0.5
    changes = [change_over(torch.where(used, views, 1e3 * junk), (2.0, 3.0), used) for junk in (views, other)]
    assert torch.equal(*changes)
    # Where all neighbours are used, nothing is left out.
    around = torch.nn.functional.pad(used.double(), (1, 1, 1, 1), value=1.0)
    whole = torch.nn.functional.avg_pool2d(around, 3, stride=1) == 1
    torch.testing.assert_close(changes[0][whole], change_over(views, (2.0, 3.0))[whole])
