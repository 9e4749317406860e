"""Volumes survive DICOM up to half a level, and lie where their grid says."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError
from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.tomosynthesis import quantise, read_tomosynthesis, write_tomosynthesis

GRID = VolumeGrid(shape=(4, 6, 5), spacing_mm=(1.0, 0.3, 0.2), center_mm=(21.5, 12.1, -3.3))
VOLUME = 0.06 * torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0)) - 0.005
HOLOGIC = Path("../shared/data/hologic_header/hologic_bcsdbt_P00853_header.dcm")

SYNTAXES = {
    "explicit": "1.2.840.10008.1.2.1",
    "deflated": "1.2.840.10008.1.2.1.99",
    "RLE": "1.2.840.10008.1.2.5",
    "JPEG-LS": "1.2.840.10008.1.2.4.80",
    "JPEG 2000": "1.2.840.10008.1.2.4.90",
}


def changed(path: Path, change: Any) -> Path:
    """Rewrite a file after a change of its dataset."""
    dataset = pydicom.dcmread(path)
    change(dataset)
    dataset.save_as(path)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_tomosynthesis(tmp_path / "v.dcm", VOLUME, GRID, identity=Identity.anonymous("a"))
    return tmp_path / "v.dcm"


@pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES.keys())
def test_what_is_written_is_read(syntax: str, tmp_path: Path) -> None:
    # Encoders want frames that are not tiny, and not noise.
    grid = replace(GRID, shape=(3, 48, 40))
    volume = 0.03 * torch.linspace(-1, 7, grid.n_voxels).sin().reshape(grid.shape)
    write_tomosynthesis(tmp_path / "v.dcm", volume, grid, transfer_syntax=syntax)
    assert os.listdir(tmp_path) == ["v.dcm"]
    assert pydicom.dcmread(tmp_path / "v.dcm").file_meta.TransferSyntaxUID == syntax
    again, found = read_tomosynthesis(tmp_path / "v.dcm")
    half, off = float(volume.max() - volume.min()) / 131068, float((again - volume).abs().max())
    assert half / 10 < off <= half * (1 + 1e-3)
    assert again.dtype == torch.float32
    assert found.shape == grid.shape
    assert found.spacing_mm == grid.spacing_mm
    np.testing.assert_allclose(found.center_mm, grid.center_mm, atol=1e-9)


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 3),
    spacing_mm=st.tuples(*[st.floats(0.05, 3)] * 3),
    center_mm=st.tuples(*[st.floats(-300, 300)] * 3),
)
def test_every_grid_comes_back(
    shape: Any, spacing_mm: Any, center_mm: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    grid = VolumeGrid(shape=shape, spacing_mm=spacing_mm, center_mm=center_mm)
    path = tmp_path_factory.mktemp("grid") / "v.dcm"
    write_tomosynthesis(path, torch.ones(shape), grid)
    _, found = read_tomosynthesis(path)
    assert found.shape == grid.shape
    np.testing.assert_allclose(found.spacing_mm, grid.spacing_mm, rtol=1e-9)
    np.testing.assert_allclose(found.center_mm, grid.center_mm, atol=1e-7)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30))
def test_levels_are_half_a_step_off_at_most_and_zero_stays_zero(values: list[float]) -> None:
    volume = torch.tensor(values, dtype=torch.float64).reshape(1, 1, -1)
    levels, slope, intercept = quantise(volume)
    again = slope * levels.astype(np.float64) + intercept
    reach = max(abs(value) for value in values)
    step = (max(values) - min(values)) / 65534
    np.testing.assert_allclose(again, volume.numpy(), rtol=0, atol=0.5001 * step + 1e-12 * reach)
    assert (again[(volume == 0).numpy()] == 0).all() or min(values) > 0 or max(values) <= 0


def test_one_value_is_kept(tmp_path: Path) -> None:
    for value in (0.0, 0.05, -3.0):
        write_tomosynthesis(tmp_path / "v.dcm", torch.full(GRID.shape, value), GRID)
        assert (read_tomosynthesis(tmp_path / "v.dcm")[0] == value).all()


def test_programs_that_know_only_levels_see_the_whole_range(path: Path) -> None:
    found = pydicom.dcmread(path)
    assert found.pixel_array.min() <= 1
    assert found.pixel_array.max() >= 65534
    shared = found.SharedFunctionalGroupsSequence[0]
    assert shared.PixelValueTransformationSequence[0].RescaleSlope == 1
    window = shared.FrameVOILUTSequence[0]
    assert 1 <= window.WindowWidth <= 65535
    mapping = shared.RealWorldValueMappingSequence[0]
    values = mapping.RealWorldValueSlope * found.pixel_array + mapping.RealWorldValueIntercept
    np.testing.assert_allclose(values, VOLUME, atol=1e-6)


def test_an_older_file_is_replaced_and_its_place_is_kept_when_that_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(pydicom.Dataset, "save_as", full)
    with pytest.raises(
        FileError, match=r"write_tomosynthesis: expected to write .*v.dcm; got: No space left"
    ):
        write_tomosynthesis(path, 2 * VOLUME, GRID)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["v.dcm"]


def test_the_side_and_the_view_are_said(tmp_path: Path) -> None:
    def side(path: Path) -> tuple[str, str]:
        found = pydicom.dcmread(path)
        shared = found.SharedFunctionalGroupsSequence[0]
        return shared.FrameAnatomySequence[0].FrameLaterality, found.ViewCodeSequence[0].CodeMeaning

    path, breast = tmp_path / "v.dcm", BreastView(laterality="L", view="MLO")
    write_tomosynthesis(path, VOLUME, GRID)
    assert side(path) == ("U", "cranio-caudal")
    write_tomosynthesis(path, VOLUME, GRID, breast=breast)
    assert side(path) == ("L", "medio-lateral oblique")
    scan = pydicom.Dataset()
    scan.ImageLaterality, scan.ViewPosition = "R", "ML"
    write_tomosynthesis(path, VOLUME, GRID, identity=Identity.of(scan))
    assert side(path) == ("R", "medio-lateral")


def test_two_volumes_of_one_visit_share_study_and_frame_but_not_the_instance(tmp_path: Path) -> None:
    visit = Identity.anonymous("visit")
    for name in ("a", "b"):
        write_tomosynthesis(tmp_path / f"{name}.dcm", VOLUME, GRID, identity=visit, description=name)
    a, b = (pydicom.dcmread(tmp_path / f"{name}.dcm") for name in "ab")
    assert a.StudyInstanceUID == b.StudyInstanceUID == visit.study_uid
    assert a.FrameOfReferenceUID == b.FrameOfReferenceUID == visit.frame_of_reference_uid
    assert a.SOPInstanceUID != b.SOPInstanceUID
    assert a.SeriesInstanceUID != b.SeriesInstanceUID


def test_wrong_arguments_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "v.dcm"
    with pytest.raises(ShapeError, match=r"write_tomosynthesis: expected volume \(z, y, x\) = \(4, 6, 5\)"):
        write_tomosynthesis(path, VOLUME.permute(2, 1, 0), GRID)
    with pytest.raises(NonFiniteError, match=r"write_tomosynthesis: expected volume to be finite"):
        write_tomosynthesis(path, VOLUME / 0, GRID)
    with pytest.raises(FileError, match=r"expected a name that ends in .dcm; got 'v.nii'"):
        write_tomosynthesis(tmp_path / "v.nii", VOLUME, GRID)
    for description in ("", "x" * 65, "a\\b", "a\nb"):
        with pytest.raises(FileError, match="expected a description of 1 to 64 printable characters"):
            write_tomosynthesis(path, VOLUME, GRID, description=description)
    with pytest.raises(FileError, match=r"expected a transfer syntax that can be written here; got 1\.2\.3"):
        write_tomosynthesis(path, VOLUME, GRID, transfer_syntax="1.2.3")
    long = replace(GRID, shape=(1, 1, 65536))
    with pytest.raises(FileError, match=r"expected at most 65535 rows and columns, .* got .*65536"):
        write_tomosynthesis(path, torch.zeros(long.shape), long)
    assert os.listdir(tmp_path) == []


def test_frames_in_any_order_and_turned_axes_are_read(path: Path) -> None:
    def reverse(dataset: Any) -> None:
        frames = dataset.PerFrameFunctionalGroupsSequence
        dataset.PerFrameFunctionalGroupsSequence = list(frames)[::-1]
        dataset.PixelData = dataset.pixel_array[::-1].tobytes()

    expected, grid = read_tomosynthesis(path)
    volume, found = read_tomosynthesis(changed(path, reverse))
    assert torch.equal(volume, expected)
    assert found == grid

    def turn(dataset: Any) -> None:
        # Rows become columns; the first corner stays, and the frames now count the other way.
        cosines = dataset.SharedFunctionalGroupsSequence[0].PlaneOrientationSequence[0]
        cosines.ImageOrientationPatient = [0, -1, 0, -1, 0, 0]
        measures = dataset.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0]
        measures.PixelSpacing = list(measures.PixelSpacing)[::-1]
        dataset.PixelData = dataset.pixel_array.transpose(0, 2, 1).tobytes()
        dataset.Rows, dataset.Columns = dataset.Columns, dataset.Rows

    volume, found = read_tomosynthesis(changed(path, turn))
    assert torch.equal(volume, expected)
    np.testing.assert_allclose(found.center_mm, grid.center_mm, atol=1e-9)


def test_other_programs_levels_and_padding(path: Path) -> None:
    def rescaled(dataset: Any) -> None:
        shared = dataset.SharedFunctionalGroupsSequence[0]
        del shared.RealWorldValueMappingSequence
        shared.PixelValueTransformationSequence[0].RescaleSlope = 2
        shared.PixelValueTransformationSequence[0].RescaleIntercept = -1000

    levels = pydicom.dcmread(path).pixel_array.astype(np.float32)
    np.testing.assert_array_equal(read_tomosynthesis(changed(path, rescaled))[0], 2 * levels - 1000)

    def padded(dataset: Any) -> None:
        pixels = dataset.pixel_array.copy()
        pixels[0, 0] = 7
        dataset.add_new("PixelPaddingValue", "US", 7)
        dataset.PixelData = pixels.tobytes()

    volume = read_tomosynthesis(changed(path, padded))[0]
    assert (volume[0, 0] == volume.min()).all()
    assert volume.isfinite().all()
    assert volume.min() != 2 * 7 - 1000


def drop(group: str, keyword: str, *, per_frame: bool = False) -> Any:
    def change(dataset: Any) -> None:
        frames = dataset.PerFrameFunctionalGroupsSequence if per_frame else []
        for groups in frames or dataset.SharedFunctionalGroupsSequence:
            delattr(groups[group][0], keyword)

    return change


def place(*positions: Any) -> Any:
    def change(dataset: Any) -> None:
        for groups, position in zip(dataset.PerFrameFunctionalGroupsSequence, positions, strict=True):
            groups.PlanePositionSequence[0].ImagePositionPatient = list(position)

    return change


def orient(*cosines: float) -> Any:
    def change(dataset: Any) -> None:
        plane = dataset.SharedFunctionalGroupsSequence[0].PlaneOrientationSequence[0]
        plane.ImageOrientationPatient = list(cosines)

    return change


def differ(dataset: Any) -> None:
    measures = pydicom.Dataset()
    measures.PixelSpacing = [1, 1]
    dataset.PerFrameFunctionalGroupsSequence[2].PixelMeasuresSequence = [measures]


def as_another_class(dataset: Any) -> None:
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            drop("PixelMeasuresSequence", "PixelSpacing"),
            r"expected Pixel Spacing \(0028,0030\) in Pixel Meas",
        ),
        (
            drop("PlanePositionSequence", "ImagePositionPatient", per_frame=True),
            r"expected Image Position \(Patient\) \(0020,0032\) in .*; got none for frame 1",
        ),
        (
            drop("PlaneOrientationSequence", "ImageOrientationPatient"),
            r"expected Image Orientation \(Patient\) \(0020,0037\) in .*; got none",
        ),
        (place(*[(1, 2, 3)] * 4), r"to go up by equal steps from frame to frame; got steps of 0 mm"),
        (place((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 4)), r"equal steps .* got .* 0\.6667 mm off"),
        (place((0, 0, 0), (0, 5, 1), (0, 0, 2), (0, 0, 3)), r"equal steps .* got .* 5 mm off"),
        (orient(1, 0, 0, 1, 0, 0), r"as two directions at a right angle; got"),
        (orient(2, 0, 0, 0, 1, 0), r"as two directions at a right angle; got"),
        (differ, r"expected the same Pixel Spacing \(0028,0030\) for all frames; got .* for frame 3"),
        (as_another_class, r"expected a Breast Tomosynthesis Image, SOP Class UID .*; got 1\.2\.840"),
        (lambda dataset: setattr(dataset, "NumberOfFrames", 9), r"Number of Frames .*; got 4 and 9"),
        (lambda dataset: setattr(dataset, "Rows", 60000), r"expected \d+ bytes of numbers"),
    ],
)
def test_nothing_is_guessed(change: Any, message: str, path: Path) -> None:
    with pytest.raises(FileError, match=rf"read_tomosynthesis: .*v.dcm: .*{message}"):
        read_tomosynthesis(changed(path, change))


def test_oblique_frames_are_refused(path: Path) -> None:
    def change(dataset: Any) -> None:
        c, s = np.cos(0.3), np.sin(0.3)
        orient(-1, 0, 0, 0, -c, s)(dataset)
        place(*[(0, k * s, k * c) for k in range(4)])(dataset)

    with pytest.raises(FileError, match="expected frames along the machine's axes; got Image Orientation"):
        read_tomosynthesis(changed(path, change))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.6, 0.99])
def test_files_cut_short_are_refused(share: float, path: Path) -> None:
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(FileError, match=r"read_tomosynthesis: .*v.dcm: expected .*; got"):
        read_tomosynthesis(path)


def test_a_damaged_file_is_an_error_and_never_another(path: Path) -> None:
    data, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(data)
        for at in generator.integers(132, len(data) - GRID.n_voxels * 2, size=3):
            damaged[at] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        try:
            volume, _ = read_tomosynthesis(path)
        except FileError:
            continue
        assert volume.isfinite().all()


def test_what_pydicom_cannot_read_is_refused(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"1.2.840.10008.1.2.1\0", b"9.2.840.10008.1.2.1\0", 1))
    with pytest.raises(FileError, match=r"v\.dcm: expected a DICOM file that can be read; got: UID is not a"):
        read_tomosynthesis(path)


def test_values_beyond_float32_and_padding_alone_are_refused(path: Path) -> None:
    def beyond(dataset: Any) -> None:
        dataset.SharedFunctionalGroupsSequence[0].RealWorldValueMappingSequence[0].RealWorldValueSlope = 1e300

    def padding(dataset: Any) -> None:
        dataset.add_new("PixelPaddingValue", "US", 0)
        dataset.add_new("PixelPaddingRangeLimit", "US", 65535)

    for change in (beyond, padding):
        with pytest.raises(FileError, match=r"expected finite values; got some that Real World Value Slope"):
            read_tomosynthesis(changed(path, change))


def test_a_header_may_not_claim_more_than_is_allowed(path: Path) -> None:
    with pytest.raises(FileError, match=r"v.dcm to need at most the 100 bytes that are allowed"):
        read_tomosynthesis(path, max_bytes=100)


@pytest.mark.skipif(not HOLOGIC.is_file(), reason="the header of a real machine is not here")
def test_the_header_of_a_real_machine_is_refused_and_says_what_is_missing() -> None:
    with pytest.raises(FileError, match=r"read_tomosynthesis: .*expected .*(Pixel Spacing|Number of Frames)"):
        read_tomosynthesis(HOLOGIC)


def without_places(dataset: Any) -> None:
    """Leave out what some machines leave out: pixel spacing, and a place for each frame."""
    for groups in (dataset.SharedFunctionalGroupsSequence, dataset.PerFrameFunctionalGroupsSequence):
        for group in groups:
            for measures in group.get("PixelMeasuresSequence") or ():
                del measures.PixelSpacing
    frames = dataset.PerFrameFunctionalGroupsSequence
    for frame in frames:
        place = frames[0].PlanePositionSequence[0].ImagePositionPatient
        frame.PlanePositionSequence[0].ImagePositionPatient = place


def test_what_the_file_leaves_out_can_be_supplied(path: Path) -> None:
    expected, grid = read_tomosynthesis(path)
    changed(path, without_places)
    with pytest.raises(FileError, match=r"expected Pixel Spacing \(0028,0030\) .*give `voxel_mm`"):
        read_tomosynthesis(path)
    volume, found = read_tomosynthesis(path, voxel_mm=(1.0, 0.3, 0.2))
    assert torch.equal(volume, expected)
    assert found.spacing_mm == pytest.approx(grid.spacing_mm)
    assert found.center_mm == pytest.approx(grid.center_mm)


def test_what_is_supplied_must_agree_with_the_file(path: Path) -> None:
    assert read_tomosynthesis(path, voxel_mm=(1.0, 0.3, 0.2))[1] == read_tomosynthesis(path)[1]
    with pytest.raises(FileError, match=r"agree with Pixel Spacing .*; got \[0.3, 0.3\]"):
        read_tomosynthesis(path, voxel_mm=(1.0, 0.3, 0.3))
    with pytest.raises(FileError, match=r"agree with Image Position .* 1 mm apart; got 2 mm"):
        read_tomosynthesis(path, voxel_mm=(2.0, 0.3, 0.2))
    with pytest.raises(FileError, match=r"three positive lengths .*; got \(1.0, -0.3, 0.2\)"):
        read_tomosynthesis(path, voxel_mm=(1.0, -0.3, 0.2))
