"""What noise leaves open of a motion falls with photons and with the range of angles, and is not made up."""

from __future__ import annotations

import math
from functools import cache

import pytest

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition
from duotomo.geometry.sweep import range_rad, resweep
from duotomo.methods import MotionPrecision, observability
from duotomo.methods.motion_precision import Body, motion_precision
from tests.cases.scans import arc

PHOTONS = 2e6
SCAN = arc((14, 16), 5.0, n_views=3, degrees=25.0)
THICKNESS_MM = 24.0


@cache
def body() -> Body:
    return Body.over((SCAN, SCAN), thickness_mm=THICKNESS_MM, gap_mm=0.0)


@cache
def found(degrees: float, photons: float = PHOTONS, second_deg: float | None = None) -> MotionPrecision:
    pair = tuple(arc((14, 16), 5.0, n_views=3, degrees=one) for one in (degrees, second_deg or degrees))
    return motion_precision((pair[0], pair[1]), body(), photons_per_mm2=photons)


def test_deviations_fall_with_the_root_of_the_photons() -> None:
    few, many = found(25.0, PHOTONS), found(25.0, 9 * PHOTONS)
    assert [one / 3 for one in few.deviation_mm] == pytest.approx(many.deviation_mm, rel=1e-2)
    assert few.ratio == pytest.approx(many.ratio, rel=1e-2)


def test_a_wider_range_tells_more_of_depth() -> None:
    narrow, middle, wide = (found(degrees) for degrees in (6.0, 25.0, 50.0))
    assert narrow.depth_mm > 1.5 * middle.depth_mm > 1.5 * wide.depth_mm
    assert narrow.ratio > middle.ratio > wide.ratio
    assert narrow.shift_ratio > middle.shift_ratio > wide.shift_ratio > 1
    # In the plane a range of angles hardly matters.
    assert narrow.shift_in_plane_mm < 3 * wide.shift_in_plane_mm
    shares = [one.share for one in narrow.least_determined]
    assert shares == sorted(shares, reverse=True)


def test_a_second_visit_over_a_narrower_range_tells_less() -> None:
    assert found(25.0).depth_mm < found(25.0, second_deg=6.0).depth_mm < found(6.0).depth_mm


def test_all_parts_of_the_motion_are_told() -> None:
    told = found(25.0).to_dict()
    assert told["status"] == "determined"
    for name in ("deviation_mm", "shift_mm", "tilt_deg", "stretch_percent"):
        assert set(told[name]) == {"x", "y", "z"}
        assert all(0 < value < math.inf for value in told[name].values())
    assert set(told["shear_percent"]) == {"xy", "xz", "yz"}
    # A shift is one of the ways in which points go astray.
    assert all(told["shift_mm"][axis] < told["deviation_mm"][axis] for axis in "xyz")


@pytest.mark.parametrize(
    ("scan", "what"),
    [
        (SCAN[1], "visit 1 has one view"),
        (arc((14, 16), 5.0, degrees=0.0), "visit 1 has a range of less than"),
    ],
)
def test_views_from_one_place_give_a_reason_and_no_number(scan: Acquisition, what: str) -> None:
    result = observability([scan], thickness_mm=THICKNESS_MM)
    assert not result.given.is_determined
    assert "Depth is not determined" in result.given.reason
    assert what in result.given.reason
    assert all(map(math.isnan, (*result.given.deviation_mm, result.given.ratio, result.given.shift_ratio)))
    told = result.to_dict()
    assert told["status"] == "not determined"
    assert "deviation_mm" not in told["given"]
    assert result.by_views == ()


def test_a_singular_curvature_gives_a_reason_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duotomo.methods.motion_precision.covariance_of_few", lambda *_: None)
    result = motion_precision((SCAN, SCAN), body(), photons_per_mm2=PHOTONS)
    assert not result.is_determined
    assert "do not determine all parameters of an affine motion" in result.reason
    assert all(map(math.isnan, (*result.deviation_mm, result.ratio, result.shift_ratio)))


def test_the_given_protocol_stands_among_the_others() -> None:
    heard: list[tuple[int, int]] = []
    result = observability(
        [SCAN],
        thickness_mm=THICKNESS_MM,
        range_factors=(9.0,),
        n_views=(2,),
        on_precision=lambda one, done, n: heard.append((done, n)),
    )
    assert heard == [(1, 2), (2, 2)]
    # Nine times the range would lead the tube below the detector.
    assert [round(one.ranges_deg[0], 3) for one in result.by_range] == [25.0]
    assert [one.n_views[0] for one in result.by_views] == [2, 3]
    assert result.by_range[0] is result.given is result.by_views[1]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DuotomoError, match="expected one acquisition, or two; got 3"):
        observability([SCAN] * 3)
    with pytest.raises(DuotomoError, match="`n_views` of 2 or more; got 1"):
        observability([SCAN], n_views=(1,))
    with pytest.raises(DuotomoError, match="`photons_per_mm2` above 0; got 0"):
        observability([SCAN], photons_per_mm2=0)
    with pytest.raises(GeometryError, match="expected a thickness above 0"):
        observability([SCAN], thickness_mm=700.0)
    with pytest.raises(GeometryError, match="that all visits see; got"):
        observability([arc((2, 16), 5.0)])


def test_a_sweep_is_scaled_about_its_middle() -> None:
    tilted = arc((20, 24), 4.0, n_views=7, degrees=15.0, tilt_deg=4.2)
    wide = resweep(tilted, factor=2.0, n_views=9)
    assert (wide.n_views, wide.detector_shape) == (9, tilted.detector_shape)
    assert range_rad(wide) == pytest.approx(2 * range_rad(tilted), rel=0.01)
    assert wide.u_axes[-1, 2] == pytest.approx(2 * tilted.u_axes[-1, 2], rel=1e-2)
    assert resweep(tilted) is tilted
    for factor, words in ((0.0, "a factor above 0; got 0"), (20.0, "expected the tube above the detector")):
        with pytest.raises(GeometryError, match=words):
            resweep(tilted, factor=factor)
