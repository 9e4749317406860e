"""Geometry in DICOM attributes: the standard carries it; what is missing or contradictory is named."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, siemens_inspiration, victre, world_to_pixel
from duotomo.io import FileError
from duotomo.io.dicom import read_dicom_scan, write_dicom_projections
from duotomo.io.scan_options import Supplied, Values
from tests.io.dicom.projections_helpers import (
    STAYS,
    TILTS,
    changed,
    counts,
    group,
    mammograms,
    off_mm,
    without_isocentre,
)

DATA = Path(os.environ.get("DUOTOMO_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
HOLOGIC = DATA / "hologic_header" / "hologic_bcsdbt_P00853_header.dcm"
PROJECTIONS = "1.2.840.10008.5.1.4.1.1.13.1.5"
PIVOT = Supplied(source_to_pivot_mm=620.0)


@settings(max_examples=25)
@given(
    n_views=st.integers(1, 5),
    angles=st.tuples(st.floats(0.05, 0.8), st.floats(0, 0.2)),
    lengths=st.tuples(st.floats(500, 800), st.floats(0, 80), st.floats(-5, 30)),
    side=st.sampled_from("LR"),
)
def test_the_standards_attributes_carry_every_tilting_arc(
    tmp_path_factory: pytest.TempPathFactory,
    n_views: int,
    angles: tuple[float, float],
    lengths: tuple[float, float, float],
    side: str,
) -> None:
    (angle, tilt), (distance, pivot, source_y) = angles, lengths
    path = tmp_path_factory.mktemp("scan") / "scan.dcm"
    scan = Acquisition.arc(
        n_views=n_views,
        angle_range_rad=angle,
        detector_tilt_range_rad=tilt if n_views > 2 and n_views % 2 else 0.0,
        source_to_detector_mm=distance,
        pivot_height_mm=pivot,
        detector_shape=(3, 4),
        pixel_spacing_mm=(2.5, 1.5),
        source_y_mm=source_y,
    )
    write_dicom_projections(path, counts(scan, laterality=side), private=False)
    # The standard has the distance from source to isocentre in float32.
    assert off_mm(read_dicom_scan(path).acquisition, scan) < 2e-4


@settings(max_examples=25)
@given(data=st.data())
def test_the_private_block_carries_anything(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("scan") / "scan.dcm"
    seed = data.draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    turns = [np.linalg.qr(np.eye(3) + 0.2 * random.normal(size=(3, 3)))[0] for _ in range(3)]
    turns = [turn * np.sign(np.diag(turn)) for turn in turns]
    scan = Acquisition(
        source_mm=[(0, 0, 600)] + 30 * random.normal(size=(3, 3)),
        detector_center_mm=5 * random.normal(size=(3, 3)),
        u_axis=[turn[:, 0] for turn in turns],
        v_axis=[turn[:, 1] for turn in turns],
        pixel_spacing_mm=(0.1 + random.random(), 1 / 3),
        detector_shape=(2, 3),
    )
    write_dicom_projections(path, counts(scan))
    assert read_dicom_scan(path).acquisition == scan


def test_a_landmark_meets_its_pixel_from_standard_attributes(tmp_path: Path) -> None:
    write_dicom_projections(tmp_path / "scan.dcm", counts(TILTS, laterality="R"), private=False)
    dataset = pydicom.dcmread(tmp_path / "scan.dcm")
    point = np.array([12.0, 40.0, 25.0])
    for frame, expected in enumerate(world_to_pixel(TILTS, point)):
        place, geometry = (
            group(dataset, name, frame)
            for name in ("IsocenterReferenceSystemSequence", "XRayGeometrySequence")
        )
        # Written out as the standard does: everything from the isocentre, which is at the machine's origin.
        primary = math.radians(place.XRaySourceIsocenterPrimaryAngle)
        source = geometry.DistanceSourceToIsocenter * np.array([math.sin(primary), 0, math.cos(primary)])
        tilt = math.radians(place.DetectorIsocenterPrimaryAngle)
        x_d, y_d, z_d = (
            np.array([math.cos(tilt), 0, -math.sin(tilt)]),
            np.array([0.0, 1, 0]),
            np.array([math.sin(tilt), 0, math.cos(tilt)]),
        )
        origin = np.array([getattr(place, f"Detector{axis}PositionToIsocenter") for axis in "XYZ"])
        share = ((origin - source) @ z_d) / ((point - source) @ z_d)
        hit = source + share * (point - source) - origin
        in_plane = np.array([hit @ x_d, hit @ y_d, 0]) - place.DetectorActiveAreaTLHCPosition
        row, column = np.array(place.DetectorActiveAreaOrientation).reshape(2, 3)
        spacing = [float(v) for v in group(dataset, "FramePixelDataPropertiesSequence").ImagerPixelSpacing]
        index_column, index_row = in_plane @ row / spacing[1], in_plane @ column / spacing[0]
        # A right breast is stored with its chest wall to the right: columns against v, rows against u.
        n_v, n_u = TILTS.detector_shape
        assert np.allclose([n_v - 1 - index_column, n_u - 1 - index_row], expected, atol=1e-6)


def test_arcs_numbers_make_the_arc(tmp_path: Path) -> None:
    def change(dataset: Any) -> None:
        without_isocentre(dataset)

    path = changed(tmp_path / "scan.dcm", change)
    again = read_dicom_scan(path).acquisition
    assert off_mm(again, STAYS) < 2e-4

    def counter_clockwise(dataset: Any) -> None:
        without_isocentre(dataset)
        for item in dataset.PerFrameFunctionalGroupsSequence:
            item.PositionerPositionSequence[0].PositionerPrimaryAngleDirection = "CC"

    mirrored = read_dicom_scan(changed(tmp_path / "other.dcm", counter_clockwise)).acquisition
    assert np.allclose(mirrored.sources_mm, STAYS.sources_mm * [-1, 1, 1], atol=2e-4)


def test_supplied_numbers_go_before_the_files(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan")
    supplied = Supplied(
        source_to_detector_mm=700,
        source_to_pivot_mm=650,
        angles_deg=(-20, 5, 20),
        pixel_spacing_mm=(0.3, 0.4),
    )
    scan = read_dicom_scan(folder, supplied).acquisition
    assert scan.pixel_spacing_mm == (0.3, 0.4)
    assert scan.source_mm[1] == (650 * math.sin(math.radians(5)), 0.0, 50 + 650 * math.cos(math.radians(5)))


def test_supplied_spacing_replaces_that_of_the_isocentres_scan(tmp_path: Path) -> None:
    def change(dataset: Any) -> None:
        del group(dataset, "FramePixelDataPropertiesSequence").ImagerPixelSpacing

    path = changed(tmp_path / "scan.dcm", change)
    with pytest.raises(
        FileError, match=r"Imager Pixel Spacing \(0018,1164\); got no such.*`pixel_spacing_mm`"
    ):
        read_dicom_scan(path)
    again = read_dicom_scan(path, Supplied(pixel_spacing_mm=STAYS.pixel_spacing_mm)).acquisition
    assert off_mm(again, STAYS) < 2e-4


@pytest.mark.parametrize("orientation", [None, ["A", "FR"]])
def test_the_isocentres_scan_needs_no_view(tmp_path: Path, orientation: list[str] | None) -> None:
    scan = counts(laterality="L")

    def change(dataset: Any) -> None:
        del dataset.ViewCodeSequence
        dataset.ViewPosition, dataset.PatientOrientation = "AT", orientation

    again = read_dicom_scan(changed(tmp_path / "scan.dcm", change, scan))
    assert torch.equal(again.projections, scan.projections)
    assert off_mm(again.acquisition, STAYS) < 2e-4


def test_a_geometry_file_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan")
    geometry = siemens_inspiration().bin(512)[:3]
    for shape, ok in (((5, 4), True), ((4, 5), False)):
        fitting = Acquisition(
            source_mm=geometry.source_mm,
            detector_center_mm=geometry.detector_center_mm,
            u_axis=geometry.u_axis,
            v_axis=geometry.v_axis,
            pixel_spacing_mm=(1, 1),
            detector_shape=shape,
        )
        (tmp_path / "geometry.json").write_text(fitting.to_json())
        supplied = Supplied(geometry=tmp_path / "geometry.json")
        if ok:
            assert read_dicom_scan(folder, supplied).acquisition == fitting
            continue
        with pytest.raises(FileError, match=r"\(3, 5, 4\), as Number of Frames .* got \(3, 4, 5\)"):
            read_dicom_scan(folder, supplied)


def test_a_machine_has_the_files_pixels(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan", n_views=25)
    scan = read_dicom_scan(folder, Supplied(machine="victre")).acquisition
    assert scan.source_mm == victre().source_mm
    assert scan.pixel_spacing_mm == (0.1, 0.2)
    assert np.allclose(scan.detector_centers_mm, [0, 0.25, 0])
    bare = mammograms(tmp_path / "bare", n_views=25, ImagerPixelSpacing=None, PatientOrientation=None)
    read = read_dicom_scan(bare, Supplied(machine="victre"))
    assert read.acquisition.pixel_spacing_mm == victre().pixel_spacing_mm
    assert read.acquisition.detector_shape == (4, 5)
    assert "rows are taken as v" in read.warnings[0]
    with pytest.raises(FileError, match=r"expected the 15 views of hologic_dimensions; got 25"):
        read_dicom_scan(folder, Supplied(machine="hologic_dimensions"))
    with pytest.raises(FileError, match=r"expected a machine of paper, .* got 'xray'"):
        read_dicom_scan(folder, Supplied(machine="xray"))


@pytest.mark.parametrize(
    ("attributes", "supplied", "match"),
    [
        ({"ImagerPixelSpacing": None}, PIVOT, r"Imager Pixel Spacing \(0018,1164\); .* `pixel_spacing_mm`;"),
        ({}, Supplied(), r"Distance Source to Isocenter \(0018,9402\); .* Give `source_to_pivot_mm`; or `m"),
        ({"DistanceSourceToDetector": None}, PIVOT, r"to Detector \(0018,1110\); .* `source_to_detector_mm`"),
        ({"PositionerPrimaryAngle": None}, PIVOT, r"Primary Angle \(0018,1510\); .* `angles_deg`"),
        ({"PositionerPrimaryAngleDirection": None}, PIVOT, r"Angle Direction \(0018,9559\); .* `angles_deg`"),
        ({"PositionerPrimaryAngleDirection": "UP"}, PIVOT, r"\(0018,9559\) CW or CC; got 'UP' in view 0"),
        ({"PositionerPrimaryAngle": "0"}, PIVOT, r"\(0018,1510\) to differ between views; got 0.0 in all"),
        ({"PositionerPrimaryAngle": "60"}, PIVOT, r"within 45 degrees; got 60.0 in view 0: of the whole"),
        ({"PositionerPrimaryAngle": "up"}, PIVOT, r"as 1 finite number; got \['up'\]"),
        ({"PatientOrientation": None}, PIVOT, r"Patient Orientation \(0020,0020\); .* `geometry`"),
        ({"PatientOrientation": ["A"]}, PIVOT, r"as two directions out of .* got 'A'"),
        ({"PatientOrientation": ["X", "Y"]}, PIVOT, r"as two directions out of .* got 'X Y'"),
        ({"PatientOrientation": ["L", "F"]}, PIVOT, r"along A or P, chest wall to nipple; got 'L F'"),
        ({"PatientOrientation": ["A", "F"]}, PIVOT, r"which way the tube travels .* view 'CC', side 'L'"),
        ({"ViewPosition": None}, PIVOT, r"which way the tube travels .* view '', side 'L'"),
        ({"Laterality": "R"}, PIVOT, r"one breast; got L and R"),
        (
            {"PixelSpacing": ["0.3", "0.3"]},
            PIVOT,
            r"\(0018,1164\) and \(0.3, 0.3\) mm in Pixel Spacing \(0028",
        ),
        (
            {"DetectorElementSpacing": ["1", "1"]},
            PIVOT,
            r"Detector Element Spacing \(0018,7022\), with binning",
        ),
        ({"ImagerPixelSpacing": ["0", "1"]}, PIVOT, r"Imager Pixel Spacing \(0018,1164\) above zero"),
        ({"ImagerPixelSpacing": ["0.1"]}, PIVOT, r"as 2 finite numbers; got"),
        ({"DistanceSourceToPatient": "661"}, PIVOT, r"\(0018,1111\) below .* \(0018,1110\); got 66[01]"),
        ({"DistanceSourceToDetector": "-1"}, PIVOT, r"\(0018,1110\) above zero; got -1.0 mm in view 0"),
        ({}, Supplied(source_to_pivot_mm=900), r"above zero and up to that .* got 900 and 660.0 mm"),
        ({}, Supplied(source_to_pivot_mm=math.nan), r"above zero and up to that"),
        (
            {},
            Supplied(source_to_pivot_mm=620, angles_deg=(1, 2)),
            r"expected 3 angles.* got 2 from `angles_deg`",
        ),
        ({}, Supplied(machine="victre", geometry=Path("x")), r"one way; got `geometry` and `machine`"),
        ({}, Supplied(pixel_spacing_mm=(1, 1), geometry=Path("x")), r"got `geometry` and `pixel_spacing_mm`"),
        ({}, Supplied(geometry=Path("nowhere.json")), r"a geometry at nowhere.json; got nothing"),
        ({"PatientID": str}, PIVOT, r"another Patient ID \(0010,0020\)"),
        ({"ImageLaterality": lambda view: "LLR"[view]}, PIVOT, r"views of one breast"),
        (
            {"DistanceSourceToDetector": lambda view: str(600 + view)},
            PIVOT,
            r"the same Distance Source to Det",
        ),
        (
            {"PixelIntensityRelationship": None},
            PIVOT,
            r"\(0028,1040\); .* `values=Values.COUNTS`.*LINE_INTEGRALS",
        ),
        ({"PixelIntensityRelationshipSign": None}, PIVOT, r"\(0028,1041\); .* `values=Values.COUNTS`"),
        ({"PixelIntensityRelationshipSign": -1}, PIVOT, r"which are counts; got LIN and -1"),
        (
            {"PixelIntensityRelationship": "LOG"},
            PIVOT,
            r"\(0028,1040\) LIN and .* got LOG and 1. Give `values",
        ),
        ({"PixelIntensityRelationship": lambda view: ["LIN", "LOG", "LIN"][view]}, PIVOT, r"got LIN, LOG"),
    ],
)
def test_what_is_missing_or_contradictory_is_named(
    tmp_path: Path, attributes: dict[str, Any], supplied: Supplied, match: str
) -> None:
    folder = mammograms(tmp_path / "scan")
    for number, file in enumerate(sorted(folder.iterdir(), key=lambda file: file.name[1:])):
        dataset = pydicom.dcmread(file)
        for keyword, value in attributes.items():
            value = value(number) if callable(value) else value
            if value is None:
                delattr(dataset, keyword)
            else:
                element = dataset.get_item(keyword) and dataset[keyword]
                if keyword == "PositionerPrimaryAngle" and not value.lstrip("-").isdigit():
                    dataset.add_new(keyword, "LO", value)
                elif element is not None:
                    element.value = value
                else:
                    setattr(dataset, keyword, value)
        dataset.save_as(file)
    with pytest.raises(FileError, match=match):
        read_dicom_scan(folder, supplied)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    folder = mammograms(
        tmp_path / "scan", ImagerPixelSpacing=None, DistanceSourceToDetector=None, PositionerPrimaryAngle=None
    )
    with pytest.raises(FileError, match=r"0018,1164.*0018,1110.*0018,9402.*0018,1510") as caught:
        read_dicom_scan(folder)
    for option in (
        "`pixel_spacing_mm`",
        "`source_to_detector_mm`",
        "`source_to_pivot_mm`",
        "`angles_deg`",
        "`machine`",
    ):
        assert option in str(caught.value)


def test_values_can_be_told(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan", PixelIntensityRelationship=None)
    told = Supplied(source_to_pivot_mm=620, values=Values.COUNTS)
    assert read_dicom_scan(folder, told).values is Values.COUNTS
    write_dicom_projections(tmp_path / "own.dcm", counts())
    with pytest.raises(
        FileError, match=r"expected counts, as the private block .* got `values=Values.LINE_INTEGRALS`"
    ):
        read_dicom_scan(tmp_path / "own.dcm", Supplied(values=Values.LINE_INTEGRALS))


def test_views_of_different_shape_are_refused(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan")
    file = next(folder.iterdir())
    dataset = pydicom.dcmread(file)
    dataset.Rows, dataset.Columns = dataset.Columns, dataset.Rows
    dataset.save_as(file)
    with pytest.raises(
        FileError, match=r"the same Rows \(0028,0010\) and Columns .* got \[\(4, 5\), \(5, 4\)\]"
    ):
        read_dicom_scan(folder, PIVOT)


def _place(name: str, value: Any, frame: int = 0) -> Any:
    def change(dataset: Any) -> None:
        setattr(group(dataset, "IsocenterReferenceSystemSequence", frame), name, value)

    return change


def _geometry(name: str, value: Any) -> Any:
    return lambda dataset: setattr(group(dataset, "XRayGeometrySequence", 0), name, value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_place("DetectorIsocenterSecondaryAngle", 1.0), r"\(0018,9551\) zero, .* got 1.0 degrees in view 0"),
        (_place("XRaySourceIsocenterPrimaryAngle", 95.0), r"\(0018,9543\) and .* below 90 degrees"),
        (_geometry("DistanceSourceToIsocenter", -5.0), r"\(0018,9402\) above zero; got"),
        (_geometry("DistanceSourceToIsocenter", 5000.0), r"\(0018,9402\) below .* \(0018,1110\); got 5000.0"),
        (_place("DetectorActiveAreaOrientation", [1.0, 0, 0, 1, 0, 0]), r"two unit vectors at right angles"),
        (_place("DetectorActiveAreaOrientation", [1.0, 0, 0, 0, 0, 1]), r"in the detector's plane"),
        (_place("DetectorActiveAreaOrientation", [0, -1.0, 0, 1, 0, 0]), r"\(0018,9558\) alike in all views"),
        (_place("DetectorActiveAreaTLHCPosition", [1.0, 0]), r"as 3 finite numbers; got"),
        (_place("DetectorXPositionToIsocenter", math.nan), r"as 1 finite number; got \[nan\]"),
        (
            lambda dataset: delattr(
                group(dataset, "IsocenterReferenceSystemSequence", 1), "DetectorZPositionToIsocenter"
            ),
            r"Detector Z Position to Isocenter \(0018,9554\); .* `geometry`, or `machine`",
        ),
        (
            lambda dataset: setattr(group(dataset, "FieldOfViewSequence"), "FieldOfViewRotation", "45"),
            r"\(0018,7032\) 0, 90, 180 or 270; got 45 in view 0",
        ),
        (
            lambda dataset: setattr(dataset, "PatientOrientation", ["P", "L"]),
            r"\(0020,0020\) and .* \(0018,9558\) to agree",
        ),
        (
            lambda dataset: setattr(dataset, "ViewPosition", "MLO"),
            r"one view; got CC in View Code Sequence \(0054,0220\) and MLO in View Position",
        ),
    ],
)
def test_an_isocentre_that_cannot_be_is_refused(tmp_path: Path, change: Any, match: str) -> None:
    path = changed(tmp_path / "scan.dcm", change)
    with pytest.raises(FileError, match=match):
        read_dicom_scan(path)


def test_what_the_standard_cannot_carry_is_not_written_without_the_block(tmp_path: Path) -> None:
    tipped = Acquisition(
        source_mm=[(0, 0, 600)],
        detector_center_mm=[(0, 5, 0)],
        u_axis=[(1, 0, 0)],
        v_axis=[(0, math.cos(0.1), math.sin(0.1))],
        pixel_spacing_mm=(1, 1),
        detector_shape=(10, 10),
    )
    with pytest.raises(GeometryError, match=r"write_dicom_projections: expected .* turns about y only"):
        write_dicom_projections(tmp_path / "scan.dcm", counts(tipped), private=False)
    with pytest.raises(GeometryError, match=r"files of one view.* got private=False"):
        write_dicom_projections(tmp_path / "scan", counts(), private=False, single_files=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    not HOLOGIC.is_file(),
    reason=f"needs {HOLOGIC.name} in {DATA}; set DUOTOMO_DATA to the folder that holds it",
)
def test_a_real_volume_is_not_taken_for_projections() -> None:
    with pytest.raises(
        FileError, match=r"a reconstructed volume: SOP Class UID \(0008,0016\) is Breast Tomo"
    ):
        read_dicom_scan(HOLOGIC)


@pytest.mark.skipif(
    not HOLOGIC.is_file(),
    reason=f"needs {HOLOGIC.name} in {DATA}; set DUOTOMO_DATA to the folder that holds it",
)
def test_a_real_header_without_geometry_names_what_it_lacks(tmp_path: Path) -> None:
    dataset = pydicom.dcmread(HOLOGIC)
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = PROJECTIONS
    dataset.save_as(tmp_path / "scan.dcm")
    with pytest.raises(
        FileError, match=r"\(5200,9230\) as Number of Frames \(0028,0008\) says; got 45 and 4"
    ):
        read_dicom_scan(tmp_path / "scan.dcm")
    dataset.PerFrameFunctionalGroupsSequence = dataset.PerFrameFunctionalGroupsSequence[:4]
    dataset.save_as(tmp_path / "scan.dcm")
    with pytest.raises(FileError, match=r"Imager Pixel Spacing \(0018,1164\)") as caught:
        read_dicom_scan(tmp_path / "scan.dcm")
    for option in (
        "`pixel_spacing_mm`",
        "`source_to_detector_mm`",
        "`source_to_pivot_mm`",
        "`angles_deg`",
        "`geometry`",
    ):
        assert option in str(caught.value)
    assert "P00853" not in str(caught.value).replace(str(tmp_path), "")
    supplied = Supplied(
        pixel_spacing_mm=(0.14, 0.14),
        source_to_detector_mm=700,
        source_to_pivot_mm=700,
        angles_deg=(-6, -2, 2, 6),
        values=Values.COUNTS,
    )
    assert read_dicom_scan(tmp_path / "scan.dcm", supplied).acquisition.shape == (4, 128, 128)
