"""Files that lie about their size, stop in the middle, or are something else: each is a clear error."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from pydicom.encaps import encapsulate

from duotomo.io import FileError
from duotomo.io.dicom import read_dicom_scan, write_dicom_projections
from duotomo.io.dicom.elements import MOST_ELEMENTS
from duotomo.io.dicom.frames import coded_size, read_frames
from duotomo.io.dicom.header import read_dataset
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Supplied, Values
from tests.io.dicom.projections_helpers import LARGE, STAYS, changed, counts, group, mammograms

DEFLATED, JPEG_2000, JPEG_LS = "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.80"
RLE = "1.2.840.10008.1.2.5"


def _set(keyword: str, value: Any) -> Callable[[Any], None]:
    return lambda dataset: setattr(dataset, keyword, value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_set("Rows", 60000), r"bytes of numbers, as the header of scan.dcm says"),
        (_set("NumberOfFrames", 3), r"items in Per-Frame .* got 4 and 3"),
        (_set("NumberOfFrames", 0), r"\(0028,0008\) as a positive integer; got 0.0"),
        (_set("SamplesPerPixel", 3), r"Samples per Pixel \(0028,0002\) = 1, grey values; got 3"),
        (_set("BitsAllocated", 1), r"\(0028,0100\) 8, 16 or 32, .* got 1, 16 and 15"),
        (_set("BitsStored", 17), r"got 16, 17 and 15"),
        (_set("HighBit", 11), r"got 16, 16 and 11"),
        (_set("BitsAllocated", 8), r"got 8, 16 and 15"),
        (lambda dataset: delattr(dataset, "Rows"), r"Rows \(0028,0010\); .* has no image"),
        (lambda dataset: delattr(dataset, "PixelData"), r"expected Pixel Data \(7FE0,0010\); got none"),
        (_set("PixelData", bytes(20)), r"expected \d+ bytes in Pixel Data \(7FE0,0010\), .* got 20"),
        (
            lambda dataset: setattr(group(dataset, "PixelValueTransformationSequence"), "RescaleSlope", "0"),
            r"\(0028,1053\) other than zero",
        ),
        (
            lambda dataset: setattr(dataset, "ModalityLUTSequence", [pydicom.Dataset()]),
            r"got a Modality LUT Sequence \(0028,3000\)",
        ),
    ],
)
def test_a_header_that_lies_is_found_out(tmp_path: Path, change: Callable[[Any], None], match: str) -> None:
    path = changed(tmp_path / "scan.dcm", change)
    with path.open("ab") as file:
        file.write(bytes(1000) if "60000" not in match else b"")
    with pytest.raises(FileError, match=match):
        read_dicom_scan(path)


def _compressed(path: Path, syntax: str, frames: list[bytes], **attributes: Any) -> Path:
    dataset = pydicom.dcmread(changed(path, lambda dataset: None))
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate(frames)
    dataset["PixelData"].is_undefined_length = True
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    dataset.save_as(path)
    return path


def _j2k(*corners: int, samples: int = 1) -> bytes:
    sides = np.array([*corners, 1, 1, 0, 0], ">u4").tobytes()
    return b"\xff\x4f\xff\x51" + bytes([0, 41, 0, 0]) + sides + np.array(samples, ">u2").tobytes()


def _jls(rows: int, columns: int, *, samples: int = 1) -> bytes:
    size = np.array([rows, columns], ">u2").tobytes() + bytes([samples])
    return b"\xff\xd8\xff\xe0\x00\x04\x01\x02\xff\xf7\x00\x0b\x10" + size


@pytest.mark.parametrize(
    ("syntax", "frame", "found"),
    [
        (JPEG_2000, _j2k(60000, 60000, 0, 0), r"\(60000, 60000, 1\)"),
        (JPEG_2000, _j2k(5, 7, 0, 0, samples=16384), r"\(7, 5, 16384\)"),
        (JPEG_2000, b"\x0d\x0a\x87\x0a" + _j2k(5, 7, 0, 0), "None"),
        (JPEG_LS, _jls(60000, 60000), r"\(60000, 60000, 1\)"),
        (JPEG_LS, _jls(7, 5, samples=200), r"\(7, 5, 200\)"),
    ],
)
def test_frames_that_unfold_to_another_size_are_not_decoded(
    tmp_path: Path, syntax: str, frame: bytes, found: str
) -> None:
    path = _compressed(tmp_path / "scan.dcm", syntax, [frame + bytes(20)] * STAYS.n_views)
    with pytest.raises(FileError, match=rf"got {found} in frame 0 itself"):
        read_dicom_scan(path)


def test_runs_of_more_pixels_than_a_frame_has_are_not_decoded(tmp_path: Path) -> None:
    header = np.array([2, 64, 64, *[0] * 13], "<u4").tobytes()
    path = _compressed(tmp_path / "scan.dcm", RLE, [header + b"\x81\x07" * 2000] * STAYS.n_views)
    with pytest.raises(FileError, match=r"expected 35 pixels in frame 0, .*; got more in it"):
        read_dicom_scan(path)


def test_more_frames_than_there_can_be_are_refused(tmp_path: Path) -> None:
    path = _compressed(tmp_path / "scan.dcm", JPEG_LS, [_jls(7, 5)], NumberOfFrames=40_000_000)
    dataset = pydicom.dcmread(path)
    del dataset.PerFrameFunctionalGroupsSequence
    dataset.save_as(path)
    with pytest.raises(FileError, match=r"expected 40000000 frames, .*; got \d+ bytes in Pixel Data"):
        read_frames(path)


def test_the_size_of_a_frame_is_in_the_frame() -> None:
    j2k = _j2k(7, 5, 1, 2)
    boxes = b"\0\0\0\x0cjP  \x0d\x0a\x87\x0a"
    decoy = _j2k(9, 9, 0, 0)
    hidden = np.array(8 + len(decoy), ">u4").tobytes() + b"free" + decoy
    assert coded_size(j2k) == coded_size(boxes + hidden + b"\0\0\0\0jp2c" + j2k) == (3, 6, 1)
    assert coded_size(b"run lengths") is None
    for damaged in (b"\xff\xd8\xff\xf7\x00", b"\xff\xd8\xff\xff" + _jls(7, 5), boxes):
        with pytest.raises(FileError, match="a JPEG frame with its size in it"):
            coded_size(damaged)
    with pytest.raises(FileError, match="JPEG 2000 in boxes of known length"):
        coded_size(boxes + b"\0\0\0\0free" + j2k)


@pytest.mark.parametrize("frames", [[np.zeros((1, 1))], [np.zeros((7, 5), dtype=np.uint16)] * 9])
def test_decoders_cannot_add_to_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: list[Any]
) -> None:
    path = changed(tmp_path / "scan.dcm", lambda dataset: None)
    assert STAYS.detector_shape == (5, 7)
    monkeypatch.setattr("duotomo.io.dicom.frames._decoded", lambda dataset: iter(frames))
    with pytest.raises(FileError, match=r"expected 4 frames of \(7, 5\) pixels, .* got more, or one of"):
        read_dicom_scan(path)


def test_frames_that_are_not_there_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "scan.dcm"
    write_dicom_projections(path, counts(LARGE), transfer_syntax=JPEG_LS)
    dataset = pydicom.dcmread(path)
    first, second = pydicom.encaps.generate_frames(dataset.PixelData, number_of_frames=2)
    dataset.PixelData = encapsulate([first])
    dataset.save_as(path)
    with pytest.raises(
        FileError, match=r"expected 2 frames, as Number of Frames .* says; got 1 in Pixel Data"
    ):
        read_dicom_scan(path)
    dataset.PixelData = encapsulate([first, second[:40] + b"\xff\xd9"])
    dataset.save_as(path)
    with pytest.raises(FileError, match="expected pixels that can be decoded from JPEG-LS Lossless"):
        read_dicom_scan(path)


@pytest.mark.parametrize("n_kept", [40, -2, -8])
def test_frames_that_were_cut_off_are_not_decoded(tmp_path: Path, n_kept: int) -> None:
    """CharLS would wait for ever for the end of some of them."""
    path = tmp_path / "scan.dcm"
    write_dicom_projections(path, counts(LARGE), transfer_syntax=JPEG_LS)
    dataset = pydicom.dcmread(path)
    first, second = pydicom.encaps.generate_frames(dataset.PixelData, number_of_frames=2)
    dataset.PixelData = encapsulate([first, second.rstrip(b"\0")[:n_kept]])
    dataset.save_as(path)
    with pytest.raises(FileError, match="expected the marker ffd9 at the end of frame 1; got"):
        read_dicom_scan(path)


def test_a_compression_nobody_knows_is_named(tmp_path: Path) -> None:
    path = _compressed(tmp_path / "scan.dcm", "1.2.840.10008.1.2.4.102", [bytes(20)] * STAYS.n_views)
    with pytest.raises(FileError, match=r"a compression that can be read; got .* MPEG-4"):
        read_dicom_scan(path)


def test_a_missing_decoder_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dicom_projections(tmp_path / "scan.dcm", counts(LARGE), transfer_syntax=JPEG_LS)
    decoder = pydicom.pixels.get_decoder(JPEG_LS)
    monkeypatch.setattr(decoder, "_available", {})
    monkeypatch.setattr(decoder, "_unavailable", {"pyjpegls": ("pyjpegls",)})
    with pytest.raises(FileError, match=r"decompresses JPEG-LS .* none of .*pyjpegls.*pip install pylibjpeg"):
        read_dicom_scan(tmp_path / "scan.dcm")


def test_more_frames_than_any_scan_has_are_refused(tmp_path: Path) -> None:
    path = _compressed(tmp_path / "scan.dcm", JPEG_LS, [bytes(20)], NumberOfFrames=10**6, Rows=1, Columns=1)
    dataset = pydicom.dcmread(path)
    del dataset.PerFrameFunctionalGroupsSequence
    dataset.save_as(path)
    with pytest.raises(FileError, match=r"\(0028,0008\) of at most 4096; got 1000000"):
        read_dicom_scan(path)


def test_sizes_beyond_the_limit_are_refused_before_decoding(tmp_path: Path) -> None:
    write_dicom_projections(tmp_path / "scan.dcm", counts(LARGE), transfer_syntax=JPEG_LS)
    with pytest.raises(FileError, match=r"to need at most .*100 bytes"):
        read_dicom_scan(tmp_path / "scan.dcm", max_bytes=100)


def test_a_deflated_file_may_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "scan.dcm"
    write_dicom_projections(path, counts(), transfer_syntax=DEFLATED)
    meta = path.read_bytes()[: 144 + int(pydicom.dcmread(path).file_meta.FileMetaInformationGroupLength)]
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    path.write_bytes(meta + packer.compress(bytes(50_000_000)) + packer.flush())
    with pytest.raises(
        FileError, match=r"expected a deflated file of at most 10.0 MB; got one that is larger"
    ):
        read_dicom_scan(path, max_bytes=10_000_000)


@pytest.mark.parametrize("syntax", [DEFLATED, "1.2.840.10008.1.2", "1.2.840.10008.1.2.1"])
def test_elements_without_number_are_refused(tmp_path: Path, syntax: str) -> None:
    """pydicom would read them for minutes; those in sequences count too."""
    path = changed(tmp_path / "scan.dcm", lambda dataset: None)
    dataset = pydicom.dcmread(path)
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.ReferencedImageSequence = [pydicom.Dataset() for _ in range(1000)]
    dataset.save_as(path, implicit_vr=syntax.endswith("1.2"), little_endian=True, enforce_file_format=True)
    whole = path.read_bytes()
    read_dataset(path, pixels=True)
    many = bytes(8 * MOST_ELEMENTS)
    if syntax == DEFLATED:
        start = 144 + struct.unpack_from("<I", whole, 140)[0]
        packer = zlib.compressobj(wbits=-15)
        many = packer.compress(zlib.decompress(whole[start:], -15) + many) + packer.flush()
        whole = whole[:start]
    path.write_bytes(whole + many)
    with pytest.raises(FileError, match=f"expected at most {MOST_ELEMENTS} elements; got more"):
        read_dataset(path, pixels=True)


def test_what_is_not_dicom_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scan.dcm").write_bytes(b"no DICOM at all")
    with pytest.raises(FileError, match="expected a DICOM file; got one without DICM at byte 128"):
        read_dicom_scan(tmp_path / "scan.dcm")
    with pytest.raises(FileError, match="expected DICOM files in the folder; got none"):
        read_dicom_scan(tmp_path)
    with pytest.raises(FileError, match="expected a file or a folder; got nothing there"):
        read_dicom_scan(tmp_path / "nowhere")


def test_folders_that_are_not_one_scan_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        write_dicom_projections(tmp_path / f"{name}.dcm", counts())
    with pytest.raises(FileError, match="got 2 files with up to 4 frames"):
        read_dicom_scan(tmp_path)
    monkeypatch.setattr("duotomo.io.dicom.projections.MOST_VIEWS", 2)
    with pytest.raises(FileError, match="expected at most 2 files; got 3"):
        read_dicom_scan(mammograms(tmp_path / "many"))


def _private(element: int, value: Any) -> Callable[[Any], None]:
    def change(dataset: Any) -> None:
        block = dataset.private_block(0x0051, "DUOTOMO")
        if value is None:
            del block[element]
        else:
            block[element].value = value

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_private(0x02, [1.0, 2.0, 3.0]), r"expected 12 numbers in each vector .* got \[3, 12, 12, 12\]"),
        (_private(0x03, None), "expected element 03 in the private block DUOTOMO"),
        (_private(0x07, 5), "expected 5 views, as the private block DUOTOMO says; got 4"),
        (_private(0x10, "apples"), "expected counts or line integrals .* got 'apples' and 1.0"),
        (_private(0x11, -1.0), "with a positive step"),
        (_private(0x13, [7]), r"a flat field of shape \(7,\) .* got 1 numbers"),
        (_private(0x04, [0.5, 0.0, 0.0] * 4), "expected u_axis of length 1"),
    ],
)
def test_a_private_block_that_is_wrong_is_refused(
    tmp_path: Path, change: Callable[[Any], None], match: str
) -> None:
    scan = Scan(
        projections=counts().projections,
        values=Values.COUNTS,
        acquisition=STAYS,
        flat_field=torch.tensor(1000.0),
    )
    write_dicom_projections(tmp_path / "scan.dcm", scan)
    dataset = pydicom.dcmread(tmp_path / "scan.dcm")
    change(dataset)
    dataset.save_as(tmp_path / "scan.dcm")
    with pytest.raises(FileError, match=match):
        read_dicom_scan(tmp_path / "scan.dcm")


def test_a_block_without_value_representations_is_read(tmp_path: Path) -> None:
    scan = counts()
    write_dicom_projections(tmp_path / "scan.dcm", scan)
    dataset = pydicom.dcmread(tmp_path / "scan.dcm")
    dataset.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    dataset.save_as(tmp_path / "scan.dcm", implicit_vr=True)
    again = read_dicom_scan(tmp_path / "scan.dcm")
    assert again.acquisition == scan.acquisition
    assert torch.equal(again.projections, scan.projections)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_bytes_are_an_error_or_another_scan_but_never_a_crash(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "scan.dcm"
    private = seed % 2 == 0
    syntax = [JPEG_LS, DEFLATED, "1.2.840.10008.1.2.1"][seed % 3]
    write_dicom_projections(path, counts(LARGE, laterality="L"), private=private, transfer_syntax=syntax)
    random = np.random.default_rng(seed)
    data = bytearray(path.read_bytes())
    if seed % 4 == 0:
        data = data[: random.integers(1, len(data))]
    for place in random.integers(0, len(data), 20):
        data[place] = random.integers(256)
    path.write_bytes(data)
    try:
        read_dicom_scan(path, max_bytes=10**7)
    except FileError as error:
        assert str(error).startswith(f"read_dicom_scan: {path}: ")  # noqa: PT017
        assert "expected" in str(error)  # noqa: PT017


@pytest.mark.parametrize("keyword", ["PatientName", "PatientID", "StudyDate"])
def test_errors_do_not_tell_whose_file_it_is(tmp_path: Path, keyword: str) -> None:
    folder = mammograms(tmp_path / "scan", InstanceNumber=lambda view: view)
    for file in folder.iterdir():
        dataset = pydicom.dcmread(file)
        dataset.add_new(keyword, "LO", "Secret^Name")
        dataset.PatientBirthDate = "19500101"
        dataset.save_as(file)
    with pytest.raises(FileError) as caught:
        read_dicom_scan(folder, Supplied())
    assert "Secret" not in str(caught.value)
    assert "1950" not in str(caught.value)


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    negative = Scan(projections=-torch.ones(STAYS.shape), values=Values.COUNTS, acquisition=STAYS)
    with pytest.raises(FileError, match="write_dicom_projections: expected counts of at least zero; got -1"):
        write_dicom_projections(tmp_path / "scan.dcm", negative)
    lines = Scan(projections=torch.rand(STAYS.shape), values=Values.LINE_INTEGRALS, acquisition=STAYS)
    with pytest.raises(FileError, match="expected counts up to 65534 for a file without the private block"):
        write_dicom_projections(tmp_path / "scan.dcm", lines, private=False)
    with pytest.raises(FileError, match=r"a name that ends in .dcm"):
        write_dicom_projections(tmp_path / "scan.txt", counts())
    with pytest.raises(FileError, match=r"expected a view of .* got 'MLO' and ''. Set the facts"):
        write_dicom_projections(tmp_path / "scan.dcm", counts(view="MLO"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "view_007.dcm").write_text("of another scan")
    with pytest.raises(FileError, match=r"expected an empty folder, .* got 'view_007.dcm' in it"):
        write_dicom_projections(tmp_path / "folder", counts(), single_files=True)
    monkeypatch.setattr("duotomo.io.dicom.projections_writer.MOST_BYTES", 10)
    with pytest.raises(FileError, match=r"at most 10 bytes of pixels in one file; .* single_files=True"):
        write_dicom_projections(tmp_path / "scan.dcm", counts())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder"]
