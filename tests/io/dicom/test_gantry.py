"""How far a breast is turned between two views, from view, side and the angle of the gantry."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydicom
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.io import FileError, read_scan
from duotomo.io.dicom import BreastView, write_dicom_projections
from duotomo.io.dicom.gantry import roll_between_deg
from duotomo.io.dicom.orientation import VERTICAL, towards_source
from duotomo.io.scan_options import Supplied
from tests.io.dicom.projections_helpers import STAYS, TILTS, changed, counts, group, off_mm, without_isocentre

SIDES, ANGLES = st.sampled_from("LR"), st.floats(31, 59)


def seen(view: str, gantry_deg: float | None, laterality: str | None = "L") -> BreastView:
    return BreastView(laterality=laterality, view=view, gantry_deg=gantry_deg)


@given(side=SIDES, angle=ANGLES, stored=st.sampled_from([1, -1]), tilt=st.floats(-5, 5))
def test_an_oblique_angle_has_the_sign_of_its_side(side: str, angle: float, stored: int, tilt: float) -> None:
    roll = roll_between_deg(seen("CC", tilt, side), seen("MLO", stored * angle, side))
    # The source stands medially: of a left breast on its right, where the gantry's angle is positive.
    assert roll == pytest.approx(tilt - angle if side == "L" else tilt + angle)
    assert roll_between_deg(seen("MLO", angle, side), seen("CC", tilt, side)) == pytest.approx(-roll)


@given(side=SIDES, view=st.sampled_from(["MLO", "ML", "LM", "SIO"]))
def test_the_roll_takes_the_head_where_the_oblique_view_has_it(side: str, view: str) -> None:
    source = towards_source(view, side)
    assert source is not None
    usual = math.degrees(math.atan2(-source[0], source[2]))
    roll = math.radians(roll_between_deg(seen("CC", 0.0, side), seen(view, usual, side)))
    # In CC the head is along z; z' is towards the source, and x' = y x z' with y anterior.
    z = source / math.hypot(*source)
    x = torch.linalg.cross(torch.tensor([0.0, -1.0, 0.0], dtype=torch.float64), torch.from_numpy(z))
    assert (math.sin(roll), math.cos(roll)) == pytest.approx((float(x[2]), float(z[2])))


@pytest.mark.parametrize(
    ("reference", "moving", "said"),
    [
        (None, seen("MLO", 45), r"got no View Code Sequence \(0054,0220\) in visit 1. Give"),
        (seen("CC", 0), seen("MLO", None), r"got no Positioner Primary Angle \(0018,1510\) in visit 2. Give"),
        (seen("CC", 0), seen("MLO", 45, None), r"got no Image Laterality \(0020,0062\) in visit 2"),
        (seen("CC", 0), seen("MLO", 2), r"within 40 degrees of 45 in MLO; got 2 in visit 2"),
        (seen("CC", 60), seen("MLO", 45), r"within 40 degrees of 0 in CC; got 60 in visit 1"),
        (seen("CC", 0), seen("LMO", 130), r"expected views at most 90 degrees apart; got 130 from visit 1"),
    ],
)
def test_what_a_header_lacks_or_contradicts_is_named(
    reference: BreastView | None, moving: BreastView, said: str
) -> None:
    with pytest.raises(FileError, match=said):
        roll_between_deg(reference, moving)


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("gantry_deg", [0.0, -47.5, 90.0, 135.0, -172.5, 180.0])
@pytest.mark.parametrize("acquisition", [STAYS, TILTS])
def test_a_scan_from_a_turned_gantry_is_that_of_an_upright_one(
    tmp_path: Path, private: bool, gantry_deg: float, acquisition: Any
) -> None:
    scan = replace(counts(acquisition, laterality="R", view="MLO"), gantry_deg=gantry_deg)
    path = tmp_path / "scan.dcm"
    write_dicom_projections(path, scan, private=private)
    again = read_scan(path)
    assert again.gantry_deg == pytest.approx(gantry_deg, abs=1e-6)
    assert off_mm(again.acquisition, acquisition) < 1e-3
    angle = pydicom.dcmread(path).PerFrameFunctionalGroupsSequence[0].PositionerPositionSequence[0]
    assert abs(float(angle.PositionerPrimaryAngle) - gantry_deg) > 5


def test_the_angle_may_be_in_single_files_or_that_of_the_support_or_nowhere(tmp_path: Path) -> None:
    scan = replace(counts(laterality="L", view="MLO"), gantry_deg=50.0)
    write_dicom_projections(tmp_path / "views", scan, single_files=True)
    assert read_scan(tmp_path / "views").gantry_deg == pytest.approx(50.0, abs=1e-6)

    def without(dataset: Any, keep_support: bool = True) -> None:
        for frame in range(len(dataset.PerFrameFunctionalGroupsSequence)):
            del group(dataset, "PositionerPositionSequence", frame).PositionerPrimaryAngle
            if not keep_support:
                del group(
                    dataset, "IsocenterReferenceSystemSequence", frame
                ).BreastSupportIsocenterPrimaryAngle

    assert read_scan(changed(tmp_path / "a.dcm", without, scan)).gantry_deg == pytest.approx(50.0)
    upright = replace(scan, gantry_deg=None)
    nowhere = changed(tmp_path / "b.dcm", lambda dataset: without(dataset, False), upright)
    assert read_scan(nowhere).gantry_deg is None


def test_counter_clockwise_is_towards_the_left_and_a_damaged_angle_is_none(tmp_path: Path) -> None:
    def turned(dataset: Any) -> None:
        for frame in range(len(dataset.PerFrameFunctionalGroupsSequence)):
            position = group(dataset, "PositionerPositionSequence", frame)
            position.PositionerPrimaryAngle = 40 + frame
            position.PositionerPrimaryAngleDirection = "CC"

    def damaged(dataset: Any) -> None:
        turned(dataset)
        group(dataset, "PositionerPositionSequence", 0).PositionerPrimaryAngle = [1, 2]

    n_views = STAYS.n_views
    assert read_scan(changed(tmp_path / "a.dcm", turned)).gantry_deg == -40 - (n_views - 1) / 2
    assert read_scan(changed(tmp_path / "b.dcm", damaged)).gantry_deg is None


def test_a_support_that_is_turned_by_itself_is_refused(tmp_path: Path) -> None:
    def turned(dataset: Any) -> None:
        for frame in range(len(dataset.PerFrameFunctionalGroupsSequence)):
            placed = group(dataset, "IsocenterReferenceSystemSequence", frame)
            placed.BreastSupportIsocenterPrimaryAngle = 45.0

    # Nobody can say which of both is meant: source and detector in the room, or in a frame that turns.
    path = changed(tmp_path / "scan.dcm", turned, counts(laterality="L", view="MLO"))
    with pytest.raises(FileError, match=r"on the breast support; got .* 45 degrees or more from .* of 45"):
        read_scan(path)


def support_angles(path: Path, *angles: float | None) -> Path:
    """Write a scan whose gantry is turned by 47.5 degrees.

    angles: what its views say, those that are left the last one.
    """

    def said(dataset: Any) -> None:
        for frame in range(len(dataset.PerFrameFunctionalGroupsSequence)):
            placed = group(dataset, "IsocenterReferenceSystemSequence", frame)
            placed.BreastSupportIsocenterPrimaryAngle = angles[min(frame, len(angles) - 1)]
            if placed.BreastSupportIsocenterPrimaryAngle is None:
                del placed.BreastSupportIsocenterPrimaryAngle

    return changed(path, said, replace(counts(laterality="L", view="MLO"), gantry_deg=47.5))


@pytest.mark.parametrize("angles", [(47.0, 48.0), (47.51, 47.49, 47.5)])
def test_angles_of_the_support_may_differ_by_rounding(tmp_path: Path, angles: tuple[float, ...]) -> None:
    again = read_scan(support_angles(tmp_path / "scan.dcm", *angles))
    assert again.gantry_deg == pytest.approx(47.5, abs=0.01)
    assert off_mm(again.acquisition, STAYS) < 0.2


@pytest.mark.parametrize(
    ("angles", "said"),
    [
        (
            (47.5, 46.0, 47.5),
            r"to 1 degree; got 46 in view 1 and 47\.5 in view 0\. Choose the views of one scan",
        ),
        (
            (0.0, 47.5),
            r"expected Breast Support Isocenter .* got 0 in view 0 and 47\.5 in view 1\. .*`geometry`",
        ),
        ((47.5, None), r"got 0 in view 1 and 47\.5 in view 0"),
    ],
)
def test_a_support_that_turns_between_the_views_is_refused(
    tmp_path: Path, angles: tuple[float | None, ...], said: str
) -> None:
    path = support_angles(tmp_path / "scan.dcm", *angles)
    with pytest.raises(FileError, match=said):
        read_scan(path)
    geometry = tmp_path / "geometry.json"
    geometry.write_text(STAYS.to_json())
    # With a geometry from elsewhere the file is read, and its gantry is where the tube's angles say.
    again = read_scan(path, Supplied(geometry=geometry))
    assert again.gantry_deg == pytest.approx(47.5, abs=1e-6)


def test_angles_of_the_gantry_are_not_taken_for_those_of_the_tube(tmp_path: Path) -> None:
    def oblique(dataset: Any) -> None:
        without_isocentre(dataset)
        for frame in range(len(dataset.PerFrameFunctionalGroupsSequence)):
            group(dataset, "PositionerPositionSequence", frame).PositionerPrimaryAngle = 25 + frame

    path = changed(tmp_path / "scan.dcm", oblique, counts(laterality="L", view="MLO"))
    with pytest.raises(FileError, match=r"in the middle of an oblique view: with the gantry's own\?"):
        read_scan(path, Supplied(source_to_pivot_mm=620.0))
    assert "MLO" not in VERTICAL


def test_a_gantry_angle_is_one_that_there_can_be() -> None:
    with pytest.raises(GeometryError, match="Scan: expected gantry_deg within 180 degrees; got 200"):
        replace(counts(), gantry_deg=200.0)
