"""Findings as DICOM: segments lie where they are, reports say what was measured, and whose they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import highdicom
import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray

from duotomo.change import Change, Finding
from duotomo.change.change import RESEARCH
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, ResultFormat, read_result, write_result
from duotomo.io.dicom import (
    BreastView,
    Identity,
    Pseudonyms,
    write_findings_report,
    write_findings_segmentation,
    write_tomosynthesis,
)
from duotomo.io.dicom.findings_segmentation import labels
from tests.cli.patients import SECRETS, WHO, patient
from tests.io.change_helpers import GONE, NEW, a_change
from tests.io.dicom.test_dciodvfy import a_patient, complaints
from tests.io.saved_helpers import GRID as SMALL
from tests.io.saved_helpers import SEEN, draw, result

GRID = VolumeGrid(shape=(9, 30, 28), spacing_mm=(1.0, 0.3, 0.25), center_mm=(21.5, 12.1, -3.3))
BALL = replace(NEW, place_mm=(-3.05, 12.4, 21.4), size_mm=3.0, size_interval_mm=(2.5, 3.6))
SPECK = replace(GONE, place_mm=(-1.1, 9.2, 18.6), size_mm=0.1, size_interval_mm=(0.05, 0.2))
CHANGE = a_change(GRID, findings=(BALL, SPECK))

SEGMENTATION, REPORT = "1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.88.34"


def written(folder: Path, change: Change = CHANGE, identity: Identity | None = None) -> tuple[Any, Any, Any]:
    """Return the volume, the segmentation, if there are findings, and the report."""
    identity = identity or a_patient()
    volume, segments, report = (folder / f"{name}.dcm" for name in ("volume", "segments", "report"))
    write_tomosynthesis(volume, change.volume, change.grid, identity=identity)
    if change.findings:
        write_findings_segmentation(segments, change, volume, identity=identity)
    beside = segments if change.findings else None
    write_findings_report(report, change, volume, segmentation=beside, identity=identity)
    return tuple(pydicom.dcmread(one) if one.exists() else None for one in (volume, segments, report))


def points_of(segments: Any, number: int) -> NDArray[np.float64]:
    """Return the places of the voxels of a segment in patient coordinates, by the attributes alone."""
    shared = segments.SharedFunctionalGroupsSequence[0]
    d_row, d_column = map(float, shared.PixelMeasuresSequence[0].PixelSpacing)
    axes = np.array(shared.PlaneOrientationSequence[0].ImageOrientationPatient, dtype=float).reshape(2, 3)
    bits = np.unpackbits(np.frombuffer(segments.PixelData, np.uint8), bitorder="little")
    n = segments.Rows * segments.Columns
    points = []
    for index, frame in enumerate(segments.PerFrameFunctionalGroupsSequence):
        if frame.SegmentIdentificationSequence[0].ReferencedSegmentNumber == number:
            first = np.array(frame.PlanePositionSequence[0].ImagePositionPatient, dtype=float)
            mask = bits[index * n : (index + 1) * n].reshape(segments.Rows, segments.Columns)
            rows, columns = np.nonzero(mask)
            points.append(first + np.outer(columns * d_column, axes[0]) + np.outer(rows * d_row, axes[1]))
    return np.concatenate(points)


def test_a_segment_is_where_its_finding_is(tmp_path: Path) -> None:
    _, segments, _ = written(tmp_path)
    for number, finding in enumerate((BALL, SPECK), start=1):
        x, y, z = finding.place_mm
        centroid = points_of(segments, number).mean(axis=0)
        assert np.abs(centroid - (-x, -y, z)).max() < 0.5, number
        assert (np.abs(centroid - (-x, -y, z)) <= np.array([0.125, 0.15, 0.5]) + 1e-6).all()
    (speck,) = points_of(segments, 2)
    away_mm = np.linalg.norm(points_of(segments, 1) - (3.05, -12.4, 21.4), axis=1)
    assert away_mm.max() <= 1.5
    volume_mm3 = len(away_mm) * 0.3 * 0.25
    assert volume_mm3 == pytest.approx(np.pi / 6 * 27, rel=0.1)
    assert speck.tolist() == pytest.approx([1.05, -9.25, 18.5], abs=0.2)


def test_others_read_the_segments(tmp_path: Path) -> None:
    volume, segments, _ = written(tmp_path)
    read = highdicom.seg.segread(tmp_path / "segments.dcm")
    assert (read.segmentation_type.value, read.number_of_segments) == ("BINARY", 2)
    found = read.get_volume(combine_segments=True)
    # By the affine of highdicom, in patient coordinates.
    expected = labels(CHANGE.findings, GRID)
    for number in (1, 2):
        index = np.argwhere(found.array == number)
        assert len(index) == (expected == number).sum()
        places = found.map_indices_to_reference(index)
        np.testing.assert_allclose(places.mean(axis=0), points_of(segments, number).mean(axis=0), atol=1e-6)
    assert segments.SOPClassUID == SEGMENTATION
    assert segments.FrameOfReferenceUID == volume.FrameOfReferenceUID
    (series,) = segments.ReferencedSeriesSequence
    assert series.SeriesInstanceUID == volume.SeriesInstanceUID
    assert {one.ReferencedSOPInstanceUID for one in series.ReferencedInstanceSequence} == {
        volume.SOPInstanceUID
    }
    assert [one.SegmentLabel for one in segments.SegmentSequence] == [
        "1: new, sphere of 1.2 mm",
        "2: gone, sphere of 1.2 mm",
    ]


def test_where_findings_overlap_the_surer_one_has_the_voxels() -> None:
    near = replace(BALL, number=2, place_mm=(-3.05, 13.0, 21.4), size_mm=0.4)
    found = labels((BALL, near), GRID)
    alone = labels((BALL,), GRID)
    assert (found == 2).sum() == 1
    assert ((found > 0) == (alone > 0)).all()


def groups_of(folder: Path) -> list[Any]:
    report = highdicom.sr.srread(folder / "report.dcm")
    return list(report.content.get_volumetric_roi_measurement_groups())


def value_of(group: Any, meaning: str) -> Any:
    (found,) = [one for one in group.get_measurements() if one.name.meaning == meaning]
    return found


@pytest.mark.parametrize("side", ["L", "R", None])
def test_a_report_has_the_measurements_of_every_finding(side: str | None, tmp_path: Path) -> None:
    who = patient(ImageLaterality=side or "")
    volume, segments, _ = written(tmp_path, identity=who)
    for number, (group, finding) in enumerate(
        zip(groups_of(tmp_path), CHANGE.findings, strict=True), start=1
    ):
        measured: dict[str, tuple[float, str]] = {
            "Diameter": (finding.size_mm, "mm"),
            "Change of the linear attenuation coefficient": (finding.contrast_per_mm, "/mm"),
            "Z-score": (finding.z, "1"),
            "Probability of such a score at one place that did not change": (finding.p_value, "1"),
            "Findings as sure that an unchanged breast would have": (finding.false_findings, "1"),
            "False discovery rate up to this finding": (finding.false_discovery_rate, "1"),
        }
        for meaning, (value, unit) in measured.items():
            found = value_of(group, meaning)
            assert found.value == pytest.approx(value, rel=1e-9)
            assert found.unit.value == unit
        assert group.tracking_identifier == f"Finding {finding.number}"
        assert group.tracking_uid == segments.SegmentSequence[number - 1].TrackingUID
        (site,) = group.finding_sites
        assert (site.topographical_modifier, site.value.meaning) == (None, "Breast")
        assert (site.laterality.meaning if side else site.laterality) == {
            "L": "Left",
            "R": "Right",
            None: None,
        }[side]
        (kind,) = group.get_qualitative_evaluations()
        assert kind.value.meaning == {"new": "New finding", "gone": "No longer seen"}[finding.kind]
        segment = group.referenced_segment
        assert segment.referenced_sop_instance_uid == segments.SOPInstanceUID
        assert segment.referenced_segment_numbers == [number]
        assert _center(group, volume.FrameOfReferenceUID) == pytest.approx(
            [-finding.place_mm[0], -finding.place_mm[1], finding.place_mm[2]], abs=1e-5
        )
        lower, upper = finding.size_interval_mm
        assert _around(value_of(group, "Diameter")) == pytest.approx(
            [finding.size_mm - lower, upper - finding.size_mm]
        )


def _center(group: Any, frame_uid: str) -> list[float]:
    (found,) = [one for one in group[0].ContentSequence if one.ValueType == "SCOORD3D"]
    assert (found.GraphicType, found.ReferencedFrameOfReferenceUID) == ("POINT", frame_uid)
    return list(found.GraphicData)


def _around(measurement: Any) -> list[float]:
    """Return how far the interval reaches below and above a value, in the unit of the value."""
    for one in measurement[0].ContentSequence:
        assert (
            one.MeasuredValueSequence[0].MeasurementUnitsCodeSequence[0].CodeValue == measurement.unit.value
        )
    return [
        float(one.MeasuredValueSequence[0].NumericValue)
        for sign in ("-", "+")
        for one in measurement[0].ContentSequence
        if one.ConceptNameCodeSequence[0].CodeMeaning.startswith(f"{sign}, range of ")
    ]


def texts_of(report: Any) -> list[str]:
    return [element.value for element in report.iterall() if element.keyword == "TextValue"]


@pytest.mark.parametrize("reason", ["", "The visits show different sides."])
def test_without_findings_there_is_a_report_that_says_so(reason: str, tmp_path: Path) -> None:
    change = Change.none(GRID, CHANGE.volume, reason) if reason else a_change(GRID, findings=())
    volume, segments, report = written(tmp_path, change)
    assert segments is None
    assert report.SOPClassUID == REPORT
    texts = texts_of(report)
    assert RESEARCH in texts
    expected = (
        f"The visits were not compared. {reason}" if reason else "No findings with |z| of 4.75 or more."
    )
    assert expected in texts
    (group,) = highdicom.sr.srread(tmp_path / "report.dcm").content.get_image_measurement_groups()
    (number,) = group.get_measurements()
    assert (number.name.meaning, number.value) == ("Number of findings", 0)
    (series,) = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
    assert series.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == volume.SOPInstanceUID
    with pytest.raises(DuotomoError, match="write_findings_segmentation: expected findings; got none"):
        write_findings_segmentation(tmp_path / "s.dcm", change, tmp_path / "volume.dcm")


def test_patient_and_study_are_those_of_the_scan(tmp_path: Path) -> None:
    volume, segments, report = written(tmp_path, identity=patient())
    for found in (segments, report):
        for name in WHO:
            assert found.get(name) == volume.get(name), name
        assert found.StudyInstanceUID == WHO["StudyInstanceUID"]
        assert found.Manufacturer == "duotomo"
        assert found.ContentQualification == "RESEARCH"
        assert "research use only" in found.SeriesDescription
    assert "Research use only" in segments.ContentDescription
    assert sum(RESEARCH in text for text in texts_of(report)) == 3


def test_what_others_wrote_against_the_rules_is_handed_on(tmp_path: Path) -> None:
    who = patient(PatientName="no carets", PatientSex="W")
    volume, segments, report = written(tmp_path, identity=who)
    assert {str(one.PatientName) for one in (volume, segments, report)} == {"no carets"}


def test_pseudonyms_stand_for_the_patient(tmp_path: Path) -> None:
    who = patient().deidentified(Pseudonyms())
    _, segments, report = written(tmp_path, identity=who)
    for found in (segments, report):
        assert found.PatientIdentityRemoved == "YES"
        assert not any(secret in str(found) for secret in SECRETS if secret != "4711")


def test_a_remark_is_said(tmp_path: Path) -> None:
    _, segments, report = written(tmp_path, identity=patient().remarked("DIFFERENT SIDES"))
    assert segments.ContentDescription.startswith("DIFFERENT SIDES: ")
    assert report.SeriesDescription.startswith("DIFFERENT SIDES: ")
    assert any(text.startswith("DIFFERENT SIDES. ") for text in texts_of(report))
    assert "ImageComments" not in report


def test_without_an_identity_it_is_that_of_the_volume(tmp_path: Path) -> None:
    volume, *_ = written(tmp_path, identity=patient())
    write_findings_segmentation(tmp_path / "s.dcm", CHANGE, tmp_path / "volume.dcm")
    write_findings_report(
        tmp_path / "r.dcm", CHANGE, tmp_path / "volume.dcm", segmentation=tmp_path / "s.dcm"
    )
    for name in ("s.dcm", "r.dcm"):
        found = pydicom.dcmread(tmp_path / name)
        assert (found.PatientID, found.StudyInstanceUID) == (volume.PatientID, volume.StudyInstanceUID)
    assert pydicom.dcmread(tmp_path / "s.dcm").FrameOfReferenceUID == volume.FrameOfReferenceUID


def test_other_files_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    volume, segments = tmp_path / "volume.dcm", tmp_path / "segments.dcm"
    other = a_change(SMALL)
    with pytest.raises(
        FileError, match=r"expected the volume of the change .* = \(4, 6, 5\); got .* = \(9, 30"
    ):
        write_findings_segmentation(tmp_path / "s.dcm", other, volume)
    with pytest.raises(
        FileError, match="expected the volume of the same visit; got another Frame of Reference"
    ):
        write_findings_segmentation(tmp_path / "s.dcm", CHANGE, volume, identity=patient())
    with pytest.raises(DuotomoError, match="write_findings_report: expected the segmentation of 2 findings"):
        write_findings_report(tmp_path / "r.dcm", CHANGE, volume)
    fewer = a_change(GRID, findings=(BALL,))
    with pytest.raises(FileError, match="expected the segmentation of these 1 findings; got another one"):
        write_findings_report(tmp_path / "r.dcm", fewer, volume, segmentation=segments, identity=a_patient())


def many(n: int) -> tuple[Finding, ...]:
    return tuple(
        replace(NEW, number=k + 1, place_mm=(-6.0 + 0.2 * k, 9.0 + 0.2 * k, 18.0 + 0.2 * k)) for k in range(n)
    )


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dciodvfy, of dicom3tools, is not installed")
@pytest.mark.parametrize(
    "identity",
    [a_patient, lambda: Identity.anonymous("a"), lambda: patient().deidentified(Pseudonyms())],
    ids=["a patient's", "nobody's", "a pseudonym's"],
)
@pytest.mark.parametrize("n", [0, 1, 20])
def test_the_standards_checker_finds_no_error(
    identity: Callable[[], Identity], n: int, tmp_path: Path
) -> None:
    who = identity()
    written(tmp_path, a_change(GRID, findings=many(n)), who)
    for name in ("segments", "report") if n else ("report",):
        found = complaints(tmp_path / f"{name}.dcm")
        # Of the scheme of codes, which is our own.
        found = [line for line in found if "<99DUOTOMO>" not in line]
        assert all(line.startswith("Warning") and "DICOMDIR - Study" in line for line in found), found
        assert identity is not a_patient or found == []


def test_a_result_folder_has_them(tmp_path: Path) -> None:
    def write(change: Change | None) -> set[str]:
        write_result(
            tmp_path,
            result(),
            moving_grids=(SMALL, SEEN),
            settings={},
            change=change,
            formats=[ResultFormat.DICOM],
            identities=[patient(ImageLaterality="L"), None, None],
        )
        read_result(tmp_path)
        return set(os.listdir(tmp_path))

    files = {"current.dcm", "findings_segmentation.dcm", "findings_report.dcm"}
    assert files <= write(a_change())
    segments, current, volume = (
        pydicom.dcmread(tmp_path / f"{name}.dcm") for name in ("findings_segmentation", "current", "volume")
    )
    assert segments.FrameOfReferenceUID == current.FrameOfReferenceUID == volume.FrameOfReferenceUID
    assert BreastView.of(current).laterality == "L"
    none = Change.none(SMALL, draw(*SMALL.shape, seed=1), "There is one visit only.")
    assert files & write(none) == {"current.dcm", "findings_report.dcm"}
    assert not files & write(None)
