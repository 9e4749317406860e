"""The field of view is what rays reach, and the grid in it lies where the breast does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, world_to_pixel
from duotomo.geometry.field_of_view import grid_in_view, seen_box_mm
from tests.geometry.test_acquisition import ARC


def arc(**changes: object) -> Acquisition:
    wide = {
        "n_views": 7,
        "pivot_height_mm": 0.0,
        "detector_shape": (100, 120),
        "pixel_spacing_mm": (1.0, 1.0),
    }
    return Acquisition.arc(**{**ARC, **wide, **changes})  # type: ignore[arg-type]


def n_seeing(scan: Acquisition, point: tuple[float, float, float], margin: float = 1e-6) -> int:
    """Return how many views see a point, pixels' edges and a little more included."""
    v, u = np.moveaxis(world_to_pixel(scan, point), -1, 0)
    n_v, n_u = scan.detector_shape
    low, high = -0.5 - margin, -0.5 + margin
    inside = (v >= low) & (v <= n_v + high) & (u >= low) & (u <= n_u + high)
    return int(inside.sum())


@given(
    height_mm=st.floats(0, 100),
    share=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    tilt=st.sampled_from([0.0, 0.1]),
    source_y_mm=st.floats(-30, 30),
)
def test_corners_of_the_box_are_seen_by_enough_views(
    height_mm: float, share: float, tilt: float, source_y_mm: float
) -> None:
    scan = arc(detector_tilt_range_rad=tilt, source_y_mm=source_y_mm)
    (y_low, y_high), (x_low, x_high) = seen_box_mm(scan, height_mm, share=share)
    needed = math.ceil(share * scan.n_views)
    middle = (x_low + x_high) / 2
    for y in (y_low, y_high):
        assert n_seeing(scan, (middle, y, height_mm)) >= needed
    for x in (x_low, x_high):
        assert n_seeing(scan, (x, (y_low + y_high) / 2, height_mm)) >= needed
    if tilt == 0:
        beyond = 0.01
        assert n_seeing(scan, (x_low - beyond, (y_low + y_high) / 2, height_mm)) < needed
        assert n_seeing(scan, (middle, y_high + beyond, height_mm)) < needed


def test_on_the_detector_all_of_it_is_seen() -> None:
    assert seen_box_mm(arc(), 0.0, share=1.0) == ((0.0, 100.0), (-60.0, 60.0))


def test_more_views_see_less() -> None:
    widths = []
    for share in (0.1, 0.5, 1.0):
        _, (low, high) = seen_box_mm(arc(), 60.0, share=share)
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1] + 10


def test_the_grid_holds_the_breast_and_starts_at_the_chest_wall() -> None:
    grid = grid_in_view(arc(), thickness_mm=50.3, gap_mm=7.0, spacing_mm=(1.0, 0.7, 0.9))
    assert grid.spacing_mm == (1.0, 0.7, 0.9)
    assert grid.low_mm[0] == pytest.approx(7.0)
    assert 0 <= grid.high_mm[0] - 57.3 < 1.0
    (y_low, y_high), (x_low, x_high) = seen_box_mm(arc(), 7.0 + 50.3 / 2)
    assert grid.low_mm[1] == pytest.approx(y_low)
    assert 0 <= y_high - grid.high_mm[1] < 0.7
    assert grid.low_mm[2] >= x_low - 1e-9
    assert grid.high_mm[2] <= x_high + 1e-9
    assert (x_high - x_low) - grid.size_mm[2] < 0.9


def test_a_whole_number_of_voxels_loses_none() -> None:
    flat = arc(n_views=1, angle_range_rad=0.0, source_to_detector_mm=1e9)
    grid = grid_in_view(flat, thickness_mm=3 * 0.1, spacing_mm=(0.1, 0.1, 0.1))
    assert grid.shape == (3, 1000, 1200)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thickness_mm": 0.0}, "grid_in_view: expected a thickness above 0"),
        ({"thickness_mm": math.nan}, "grid_in_view: expected a thickness above 0"),
        ({"gap_mm": -1.0}, "grid_in_view: expected a thickness above 0 and a gap"),
        ({"gap_mm": 640.0}, "grid_in_view: expected the top of the breast below the source"),
        ({"spacing_mm": (1.0, 500.0, 1.0)}, "grid_in_view: expected voxels smaller than what is seen"),
        ({"spacing_mm": (1.0, -1.0, 1.0)}, "grid_in_view: expected"),
    ],
)
def test_grids_that_cannot_be_are_explained(changes: dict[str, object], message: str) -> None:
    options = {"thickness_mm": 50.0, "gap_mm": 0.0, "spacing_mm": (1.0, 1.0, 1.0), **changes}
    with pytest.raises(GeometryError, match=message):
        grid_in_view(arc(), **options)  # type: ignore[arg-type]


def test_views_that_see_nothing_in_common_are_explained() -> None:
    scan = Acquisition(
        source_mm=[(-500, 0, 660), (500, 0, 660)],
        detector_center_mm=[(0, 5, 0), (0, 5, 0)],
        u_axis=[(1, 0, 0)] * 2,
        v_axis=[(0, 1, 0)] * 2,
        pixel_spacing_mm=(1, 1),
        detector_shape=(10, 10),
    )
    with pytest.raises(
        GeometryError, match=r"seen_box_mm: expected a part of the plane z = 100 mm that 2 of 2"
    ):
        seen_box_mm(scan, 100.0, share=1.0)
