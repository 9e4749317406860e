"""Scans in DICOM: what is written is read, the image lies as it lay, and nobody's name is told."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.io import FileError
from duotomo.io.dicom import Identity, read_dicom_scan, write_dicom_projections
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Supplied, Values
from tests.io.dicom.projections_helpers import LARGE, STAYS, TILTS, changed, counts, group, mammograms, off_mm

SYNTAXES = {
    "explicit": "1.2.840.10008.1.2.1",
    "deflated": "1.2.840.10008.1.2.1.99",
    "JPEG 2000": "1.2.840.10008.1.2.4.90",
    "JPEG-LS": "1.2.840.10008.1.2.4.80",
    "RLE": "1.2.840.10008.1.2.5",
}


@pytest.mark.parametrize("single_files", [False, True])
@pytest.mark.parametrize(("view", "side"), list(itertools.product(("CC", "MLO", "ML", "LMO"), "LR")))
def test_a_round_trip_gives_the_same_values_and_geometry(
    tmp_path: Path, view: str, side: str, single_files: bool
) -> None:
    scan = counts(TILTS, view=view, laterality=side)
    path = tmp_path / ("scan" if single_files else "scan.dcm")
    write_dicom_projections(path, scan, single_files=single_files)
    again = read_dicom_scan(path)
    assert torch.equal(again.projections, scan.projections)
    assert again.acquisition == scan.acquisition
    assert again.values is Values.COUNTS
    assert (again.facts["laterality"], again.facts["view"]) == (side, view)
    assert "For Processing" in again.format


@pytest.mark.parametrize("name", SYNTAXES)
def test_compressed_frames_are_read(tmp_path: Path, name: str) -> None:
    scan = counts(LARGE)
    write_dicom_projections(tmp_path / "scan.dcm", scan, transfer_syntax=SYNTAXES[name])
    assert pydicom.dcmread(tmp_path / "scan.dcm").file_meta.TransferSyntaxUID == SYNTAXES[name]
    assert torch.equal(read_dicom_scan(tmp_path / "scan.dcm").projections, scan.projections)


@settings(max_examples=25)
@given(low=st.floats(-2, 2), size=st.floats(1e-3, 20), seed=st.integers(0, 9))
def test_line_integrals_are_rounded_to_a_65534th_of_their_range(
    tmp_path_factory: pytest.TempPathFactory, low: float, size: float, seed: int
) -> None:
    path = tmp_path_factory.mktemp("scan") / "scan.dcm"
    values = low + size * torch.rand(STAYS.shape, generator=torch.Generator().manual_seed(seed))
    scan = Scan(projections=values, values=Values.LINE_INTEGRALS, acquisition=STAYS)
    write_dicom_projections(path, scan)
    again = read_dicom_scan(path)
    step = float(values.max() - values.min()) / 65534
    assert again.values is Values.LINE_INTEGRALS
    assert float((again.projections - values).abs().max()) <= step / 2 + 1e-6 * (abs(low) + size)


def test_counts_beyond_16_bits_and_dead_pixels_come_back(tmp_path: Path) -> None:
    values = counts(STAYS).projections * 10
    values[0, 0, 0], values[1, 2, 3] = float("nan"), float("inf")
    scan = Scan(projections=values, values=Values.COUNTS, acquisition=STAYS)
    write_dicom_projections(tmp_path / "scan.dcm", scan)
    again = read_dicom_scan(tmp_path / "scan.dcm").projections
    dead = ~torch.isfinite(values)
    assert torch.equal(torch.isnan(again), dead)
    assert float((again - values)[~dead].abs().max()) <= 600_000 / 65534 / 2 * 1.001


@pytest.mark.parametrize("shape", [(), STAYS.detector_shape, (STAYS.n_views, 1, 1), STAYS.shape])
@pytest.mark.parametrize("single_files", [False, True])
def test_the_flat_field_travels(tmp_path: Path, shape: tuple[int, ...], single_files: bool) -> None:
    flat = 1000 + torch.rand(shape)
    scan = Scan(projections=counts().projections, values=Values.COUNTS, acquisition=STAYS, flat_field=flat)
    write_dicom_projections(tmp_path / "scan.dcm", scan, single_files=single_files)
    again = read_dicom_scan(tmp_path / "scan.dcm").flat_field
    assert again is not None
    assert torch.equal(again, flat)


# Where a lesion beside the nipple is stored: (row, column) of 4 x 6, and how rows and columns then run.
@pytest.mark.parametrize(
    ("side", "view", "orientation", "transpose", "flip_v", "flip_u"),
    [
        ("L", "CC", ("A", "R"), True, False, False),
        ("L", "CC", ("P", "L"), True, True, True),
        ("R", "CC", ("P", "L"), True, True, True),
        ("R", "CC", ("R", "A"), False, False, False),
        ("L", "CC", ("L", "P"), False, True, True),
        ("L", "CC", ("A", "L"), True, False, True),
        ("L", "MLO", ("A", "FR"), True, False, False),
        ("R", "MLO", ("P", "FL"), True, True, True),
        ("R", "MLO", ("A", "HR"), True, False, False),
        ("L", "ML", ("A", "F"), True, False, False),
        ("R", "ML", ("A", "F"), True, False, True),
        ("L", "FB", ("A", "L"), True, False, False),
    ],
)
def test_a_landmark_is_where_the_patient_has_it(
    tmp_path: Path,
    side: str,
    view: str,
    orientation: tuple[str, str],
    transpose: bool,
    flip_v: bool,
    flip_u: bool,
) -> None:
    v, u = 3, 1
    image = np.zeros((4, 5), dtype="<u2")
    n_v, n_u = (5, 4) if transpose else (4, 5)
    stored_v, stored_u = (n_v - 1 - v if flip_v else v), (n_u - 1 - u if flip_u else u)
    image[(stored_u, stored_v) if transpose else (stored_v, stored_u)] = 7
    folder = mammograms(
        tmp_path / "scan", PatientOrientation=list(orientation), ImageLaterality=side, ViewPosition=view
    )
    for file in folder.iterdir():
        dataset = pydicom.dcmread(file)
        dataset.PixelData = image.tobytes()
        dataset.save_as(file)
    scan = read_dicom_scan(folder, Supplied(source_to_pivot_mm=620))
    assert scan.projections.shape == (3, n_v, n_u)
    assert (scan.projections[0] == 7).nonzero().tolist() == [[v, u]]
    assert scan.acquisition.pixel_spacing_mm == ((0.1, 0.2) if transpose else (0.2, 0.1))


def test_views_are_in_the_order_of_their_instance_numbers_or_names(tmp_path: Path) -> None:
    supplied = Supplied(source_to_pivot_mm=620, angles_deg=(-5, 0, 5))
    numbered = mammograms(tmp_path / "numbered", InstanceNumber=lambda view: view + 1)
    assert read_dicom_scan(numbered, supplied).projections[:, 0, 0].tolist() == [10, 20, 30]
    named = mammograms(tmp_path / "named")
    assert [file.name for file in sorted(named.iterdir())] == ["a1.dcm", "b2.dcm", "c0.dcm"]
    assert read_dicom_scan(named, supplied).projections[:, 0, 0].tolist() == [20, 30, 10]


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    folder = mammograms(tmp_path / "scan")
    (folder / "notes.txt").write_text("not DICOM")
    (folder / ".hidden").write_text("not DICOM")
    (folder / "more").mkdir()
    assert read_dicom_scan(folder, Supplied(source_to_pivot_mm=620)).acquisition.n_views == 3


def test_values_are_scaled_and_padding_is_not_a_value(tmp_path: Path) -> None:
    def change(dataset: Any) -> None:
        rescale = group(dataset, "PixelValueTransformationSequence")
        rescale.RescaleSlope, rescale.RescaleIntercept = "2", "5"
        dataset.add_new("PixelPaddingValue", "US", 0)
        dataset.add_new("PixelPaddingRangeLimit", "US", 9)
        dataset.PixelData = np.arange(np.prod(STAYS.shape), dtype="<u2").tobytes()

    values = read_dicom_scan(changed(tmp_path / "scan.dcm", change)).projections.sort()[0].flatten()
    assert int(values.isnan().sum()) == 10
    assert sorted(values[~values.isnan()].tolist()) == [2 * n + 5 for n in range(10, values.numel())]


def test_unused_bits_are_cleared(tmp_path: Path) -> None:
    stored = np.array([0xF001, 0x0002, 0x1FFF, 0x0800], dtype="<u2")

    def bits(dataset: Any, signed: int) -> None:
        dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 12, 11, signed
        dataset.PixelData = np.resize(stored, STAYS.shape).tobytes()

    plain = read_dicom_scan(changed(tmp_path / "plain.dcm", lambda dataset: bits(dataset, 0)))
    assert set(plain.projections.flatten().tolist()) == {1, 2, 4095, 2048}
    signed = read_dicom_scan(changed(tmp_path / "signed.dcm", lambda dataset: bits(dataset, 1)))
    assert set(signed.projections.flatten().tolist()) == {1, 2, -1, -2048}


def test_padded_line_integrals_are_air(tmp_path: Path) -> None:
    def change(dataset: Any) -> None:
        dataset.add_new("PixelPaddingValue", "US", 3)
        dataset.PixelData = np.full(STAYS.shape, 3, dtype="<u2").tobytes()

    path = changed(tmp_path / "scan.dcm", change)
    scan = read_dicom_scan(path, Supplied(values=Values.LINE_INTEGRALS))
    assert float(scan.projections.abs().max()) == 0
    assert f"{scan.projections.numel()} padded pixels" in scan.warnings[0]


def test_what_was_processed_or_compressed_with_loss_warns(tmp_path: Path) -> None:
    write_dicom_projections(tmp_path / "scan.dcm", counts(), presentation=True)
    scan = read_dicom_scan(tmp_path / "scan.dcm")
    assert "For Presentation" in scan.format
    assert "For Presentation" in scan.warnings[0]
    lossy = changed(tmp_path / "lossy.dcm", lambda dataset: setattr(dataset, "LossyImageCompression", "01"))
    assert "with loss" in read_dicom_scan(lossy).warnings[0]


def test_facts_are_told_and_names_are_not(tmp_path: Path) -> None:
    who = pydicom.Dataset()
    who.PatientName, who.PatientID, who.SOPInstanceUID = "Doe^Jane", "X17", "1.2.3"
    scan = Scan(
        projections=counts().projections,
        values=Values.COUNTS,
        acquisition=STAYS,
        thickness_mm=52.5,
        facts={"laterality": "R", "kVp": "28", "anode": "TUNGSTEN", "compression force (N)": "firm"},
        identity=Identity.of(who),
    )
    write_dicom_projections(tmp_path / "scan.dcm", scan)
    assert pydicom.dcmread(tmp_path / "scan.dcm").PatientName == "Doe^Jane"
    again = read_dicom_scan(tmp_path / "scan.dcm")
    assert again.thickness_mm == 52.5
    assert again.facts["kVp"] == "28.0"
    assert again.facts["anode"] == "TUNGSTEN"
    # Nobody knows these, and DICOM wants a number: zero.
    assert not {"exposure (mAs)", "compression force (N)"} & set(again.facts)
    told = repr(again) + repr(dict(again.facts)) + repr(again.warnings) + again.format + repr(again.identity)
    assert "Doe" not in told
    assert "X17" not in told
    assert again.identity is not None
    assert again.identity.agreement(Identity.of(who))["PatientID"]


def test_nobody_is_written_without_an_identity(tmp_path: Path) -> None:
    write_dicom_projections(tmp_path / "scan.dcm", counts())
    assert pydicom.dcmread(tmp_path / "scan.dcm").PatientID == "ANONYMOUS"


def test_text_in_a_header_cannot_reach_the_terminal(tmp_path: Path) -> None:
    path = changed(
        tmp_path / "scan.dcm", lambda dataset: setattr(dataset, "Manufacturer", "\x1b[31mred\x07 maker")
    )
    assert read_dicom_scan(path).facts["manufacturer"] == "[31mred maker"


def test_pydicom_does_not_tell_what_it_warns_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = mammograms(tmp_path / "scan")
    for file in folder.iterdir():
        data = file.read_bytes()
        assert b"Doe^Jane" in data
        # An escape to a character set that is not there, in a name.
        file.write_bytes(data.replace(b"Doe^Jane", b"Doe^\x1b$Zx").replace(b"X17 ", b"X\x1b17"))
    read_dicom_scan(folder, Supplied(source_to_pivot_mm=620))
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


def test_a_folder_that_lacks_a_view_is_not_a_scan(tmp_path: Path) -> None:
    write_dicom_projections(tmp_path / "scan", counts(), single_files=True)
    (tmp_path / "scan" / "view_001.dcm").unlink()
    with pytest.raises(FileError, match=f"expected {STAYS.n_views} views, as the private block"):
        read_dicom_scan(tmp_path / "scan")


def test_one_multi_frame_file_may_lie_in_a_folder(tmp_path: Path) -> None:
    scan = counts()
    write_dicom_projections(tmp_path / "scan.dcm", scan)
    assert torch.equal(read_dicom_scan(tmp_path).projections, scan.projections)


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize("flipped", [False, True])
def test_a_turned_and_flipped_field_of_view_is_the_same_scan(
    tmp_path: Path, turned: int, flipped: bool
) -> None:
    scan = counts(laterality="L")
    letters = {"A": "P", "P": "A", "R": "L", "L": "R"}

    def change(dataset: Any) -> None:
        frames = np.frombuffer(dataset.PixelData, "<u2").reshape(-1, dataset.Rows, dataset.Columns)
        row, column = dataset.PatientOrientation
        spacing = [
            str(value) for value in group(dataset, "FramePixelDataPropertiesSequence").ImagerPixelSpacing
        ]
        for _ in range(turned // 90):
            frames = np.rot90(frames, -1, axes=(1, 2))
            row, column = letters[column], row
            spacing = spacing[::-1]
        if flipped:
            frames, row = frames[:, :, ::-1], letters[row]
        dataset.Rows, dataset.Columns = frames.shape[1:]
        dataset.PixelData = np.ascontiguousarray(frames).tobytes()
        dataset.PatientOrientation = [row, column]
        group(dataset, "FramePixelDataPropertiesSequence").ImagerPixelSpacing = spacing
        view = group(dataset, "FieldOfViewSequence")
        view.FieldOfViewRotation, view.FieldOfViewHorizontalFlip = str(turned), "YES" if flipped else "NO"

    again = read_dicom_scan(changed(tmp_path / "scan.dcm", change, scan))
    assert torch.equal(again.projections, scan.projections)
    assert off_mm(again.acquisition, scan.acquisition) < 1e-6


def test_a_part_of_the_field_of_view_is_that_part_of_the_scan(tmp_path: Path) -> None:
    scan = counts(laterality="L")

    def change(dataset: Any) -> None:
        frames = np.frombuffer(dataset.PixelData, "<u2").reshape(-1, dataset.Rows, dataset.Columns)
        part = np.ascontiguousarray(frames[:, 1:, :])
        dataset.Rows, dataset.PixelData = part.shape[1], part.tobytes()
        dataset.DetectorBinning = ["2", "2"]
        group(dataset, "FieldOfViewSequence").FieldOfViewOrigin = ["2", "0"]

    again = read_dicom_scan(changed(tmp_path / "scan.dcm", change, scan))
    assert torch.equal(again.projections, scan.projections[:, :, 1:])
    centers_mm = scan.acquisition.detector_centers_mm
    shift_mm = again.acquisition.detector_centers_mm - centers_mm
    assert np.allclose(shift_mm, [scan.acquisition.pixel_spacing_mm[1] / 2, 0, 0], atol=1e-9)
    assert np.allclose(again.acquisition.sources_mm, scan.acquisition.sources_mm, atol=1e-4)


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dciodvfy, of dicom3tools, is not installed")
@pytest.mark.parametrize("presentation", [False, True])
@pytest.mark.parametrize(("single_files", "private"), [(False, False), (False, True), (True, True)])
def test_dciodvfy_finds_no_error(
    tmp_path: Path, presentation: bool, single_files: bool, private: bool
) -> None:
    write_dicom_projections(
        tmp_path / "scan.dcm",
        counts(TILTS, laterality="R", view="MLO", kVp="28"),
        presentation=presentation,
        single_files=single_files,
        private=private,
    )
    path = tmp_path / "scan.dcm"
    file = path / "view_000.dcm" if single_files else path
    done = subprocess.run(["dciodvfy", str(file)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert ("Mammography" if single_files else "BreastProjectionXRayImage") in said
    assert [line for line in said.splitlines() if line.startswith("Error")] == []
