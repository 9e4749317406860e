"""Stacks of every format give the same scan; what cannot be a scan is refused before memory is taken."""

from __future__ import annotations

import gzip
import logging
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import scipy.io
import tifffile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duotomo.errors import DuotomoError
from duotomo.io.paths import FileError
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_options import Supplied, Values
from duotomo.io.stacks import Request
from duotomo.io.stacks.stack import read_stack_image
from tests.io.itk_helpers import sitk
from tests.io.saved_helpers import SCAN, same
from tests.io.scan_helpers import ARRAY, WRITERS, put

COUNTS = Supplied(values=Values.COUNTS)
PACKED = [kind for kind in WRITERS if "packed" in kind or kind == "hdf5"]


def request(path: Path) -> Request:
    return Request(path=path, variable=None, max_bytes=10**9)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_scan(kind: str, tmp_path: Path) -> None:
    scan = read_scan(put(tmp_path, kind))
    assert same(scan.projections, torch.from_numpy(ARRAY))
    assert scan.projections.is_contiguous()
    assert (scan.values, scan.acquisition, scan.warnings) == (Values.LINE_INTEGRALS, SCAN, ())


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("dtype", ["u2", "f8", ">f4", "i2"])
def test_every_type_of_number_is_read(kind: str, dtype: str, tmp_path: Path) -> None:
    array = (100 * ARRAY).astype(dtype)
    if kind.startswith(("mha", "mhd", "nrrd", "mat")):
        array = array.astype(array.dtype.newbyteorder("="))
    scan = read_scan(put(tmp_path, kind, array), COUNTS)
    expected = torch.from_numpy(array.astype(np.float64 if dtype == "f8" else np.float32))
    assert same(scan.projections, expected)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.7, 0.95])
def test_a_truncated_file_is_refused(kind: str, share: float, tmp_path: Path) -> None:
    path = put(tmp_path, kind)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(FileError, match=r"read_scan: .*s\.\w+.*: expected "):
        read_scan(path)


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_flipped_bit_is_noticed_or_ends_in_another_scan(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = put(tmp_path_factory.mktemp("flipped"), kind)
    whole = bytearray(path.read_bytes())
    in_header = data.draw(st.booleans())
    at = data.draw(st.integers(0, min(400, len(whole) - 1) if in_header else len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    try:
        scan = read_scan(path)
    except DuotomoError:
        return
    assert scan.projections.shape == SCAN.shape
    if kind in ("nifti packed", "mha packed", "nrrd packed"):
        assert same(scan.projections, torch.from_numpy(ARRAY))


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "nifti 2"])
def test_views_may_be_one(kind: str, tmp_path: Path) -> None:
    scan = read_scan(put(tmp_path, kind, ARRAY[0], geometry=SCAN[0]))
    assert same(scan.projections, torch.from_numpy(ARRAY[:1]))


def test_axes_of_one_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(SCAN.to_json())
    np.save(tmp_path / "s.npy", ARRAY[None])
    assert same(read_scan(tmp_path / "s.npy").projections, torch.from_numpy(ARRAY))
    np.save(tmp_path / "s.npy", np.stack([ARRAY, ARRAY]))
    with pytest.raises(FileError, match=r"expected views of rows of pixels, three axes; got 4 of lengths"):
        read_scan(tmp_path / "s.npy")


@pytest.mark.parametrize("kind", WRITERS)
def test_other_numbers_are_refused(kind: str, tmp_path: Path) -> None:
    if kind.startswith(("nifti", "npy", "tiff", "hdf5")):
        with pytest.raises(FileError, match=r"(complex64|expected one array of views; got 0)"):
            read_scan(put(tmp_path, kind, ARRAY.astype(np.complex64)))
    elif kind.startswith("mat"):
        with pytest.raises(FileError, match=r"expected (one array of views|.* numbers)"):
            read_scan(put(tmp_path, kind, ARRAY > 1 if kind != "mat 7.3" else ARRAY.astype(np.complex64)))
    else:
        pixels = np.zeros((3, 6, 7, 3), dtype=np.uint8)
        image = sitk.GetImageFromArray(pixels, isVector=True)
        sitk.WriteImage(image, str(tmp_path / WRITERS[kind][0]))
        with pytest.raises(FileError, match=r"expected one number per pixel in s\.\w+; got \d"):
            read_scan(tmp_path / WRITERS[kind][0])


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(SCAN.to_json())
    np.save(tmp_path / "s.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match=r"expected a file that can be read; got: .*Python objects"):
        read_scan(tmp_path / "s.npy")


# What a header claims.


def huge_npy(path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000, 1000), }\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))


def huge_nifti(path: Path) -> None:
    header = nibabel.Nifti1Header()
    header.set_data_shape((30000, 30000, 1000))
    header.set_data_dtype(np.float32)
    header["magic"], header["vox_offset"] = b"n+1", 352
    data = header.binaryblock + bytes(104)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def huge_mha(
    path: Path, *, packed: bool = False, sides: str = "30000 30000 1000", data: bytes = bytes(1000)
) -> None:
    extra = "CompressedData = True\n" if packed else ""
    text = f"NDims = 3\n{extra}DimSize = {sides}\nElementType = MET_FLOAT\nElementDataFile = LOCAL\n"
    path.write_bytes(text.encode() + zlib.compress(data))


def huge_nrrd(path: Path) -> None:
    text = "NRRD0004\ntype: float\ndimension: 3\nsizes: 30000 30000 1000\nendian: little\nencoding: raw\n\n"
    path.write_bytes(text.encode() + bytes(100))


def huge_tiff(path: Path) -> None:
    entries = [
        (256, 4, 2**31 - 1),
        (257, 4, 2**31 - 1),
        (258, 3, 32),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 200),
    ]
    entries += [(277, 3, 1), (278, 4, 2**31 - 1), (279, 4, 100), (339, 3, 3)]
    ifd = struct.pack("<H", len(entries))
    ifd += b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    path.write_bytes(b"II*\0" + struct.pack("<I", 8) + ifd + struct.pack("<I", 0) + bytes(200))


def huge_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("g", shape=(10**6, 1000, 1000), chunks=(1, 100, 100), dtype="f4")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("s.npy", huge_npy),
        ("s.nii", huge_nifti),
        ("s.nii.gz", huge_nifti),
        ("s.mha", huge_mha),
        ("s.nrrd", huge_nrrd),
        ("s.tif", huge_tiff),
        ("s.h5", huge_hdf5),
    ],
)
def test_a_header_that_claims_too_much_is_refused(name: str, write: Any, tmp_path: Path) -> None:
    write(tmp_path / name)
    with pytest.raises(FileError, match=r"(that are allowed|of memory that are free|file that can be read)"):
        read_scan(tmp_path / name)


@pytest.mark.parametrize("kind", WRITERS)
def test_the_limit_is_the_callers(kind: str, tmp_path: Path) -> None:
    path = put(tmp_path, kind)
    read_scan(path, max_bytes=ARRAY.nbytes)
    with pytest.raises(FileError, match=r"expected .* to need at most the 503 bytes that are allowed; got a"):
        read_scan(path, max_bytes=ARRAY.nbytes - 1)


def test_little_that_claims_to_hold_much_is_refused(tmp_path: Path) -> None:
    huge_mha(tmp_path / "s.mha", packed=True, sides="100 100 1000")
    with pytest.raises(FileError, match=r"expected 40000000 bytes .*; got \d+ compressed, which cannot hold"):
        read_scan(tmp_path / "s.mha")
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("g", shape=(1000, 100, 100), chunks=(1, 100, 100), dtype="f4")
    with pytest.raises(FileError, match=r"expected 40000000 bytes .*; got 0 compressed, which cannot hold"):
        read_scan(tmp_path / "s.h5")


def test_bombs_are_not_unpacked(tmp_path: Path) -> None:
    bomb = np.zeros((3, 6, 7), dtype=np.float32)
    path = put(tmp_path, "nifti packed", bomb)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(2**26)))
    with pytest.raises(FileError, match=r"expected s\.nii\.gz to end after its 504 bytes; got more"):
        read_scan(path)
    huge_mha(tmp_path / "s.mha", packed=True, sides="7 6 3", data=bytes(2**26))
    with pytest.raises(FileError, match=r"expected at most 504 bytes packed in s\.mha; got more"):
        read_scan(tmp_path / "s.mha")
    tifffile.imwrite(tmp_path / "s.tif", bomb, photometric="minisblack", compression="zlib")
    with (tmp_path / "s.tif").open("ab") as file:
        file.write(bytes(2**22))
    with pytest.raises(FileError, match=r"expected at most the 504 bytes of its pixels in s\.tif; got a "):
        read_scan(tmp_path / "s.tif")


# MetaImage, which is read without ITK.


@settings(max_examples=20)
@given(data=st.data())
def test_metaimages_lie_where_itk_has_them(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("itk") / data.draw(st.sampled_from(["s.mha", "s.mhd", "s.nrrd"]))
    image = sitk.GetImageFromArray(ARRAY)
    positive = st.floats(0.01, 10.0)
    image.SetSpacing(data.draw(st.tuples(positive, positive, positive)))
    image.SetOrigin(data.draw(st.tuples(*[st.floats(-500, 500)] * 3)))
    angle = data.draw(st.floats(-3.0, 3.0))
    cos, sin = np.cos(angle), np.sin(angle)
    image.SetDirection([cos, -sin, 0, sin, cos, 0, 0, 0, 1])
    sitk.WriteImage(image, str(path), data.draw(st.booleans()))
    stack = read_stack_image(request(path))
    assert stack.place is not None
    assert (stack.array == ARRAY).all()
    for index in ((0, 0), (6, 5), (3, 1)):
        found = stack.place.first_mm + stack.place.axes @ (stack.place.spacing_mm * index)
        np.testing.assert_allclose(found, image.TransformIndexToPhysicalPoint((*index, 0))[:2], atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NDims = 3", "NDims = 7", r"expected NDims = 3 in s\.mha; got 7"),
        ("NDims = 3", "NDims = x", r"expected 1 whole number in NDims of the header; got 'x'"),
        ("DimSize = 7 6 3", "DimSize = 7 6", r"expected 3 whole numbers in DimSize of the header; got"),
        ("DimSize = 7 6 3", "DimSize = 7 6 -3", r"expected an array with something in it in s\.mha; got"),
        ("DimSize = 7 6 3", "DimSize = 7 6 4", r"expected 672 bytes of numbers, .* says: \(4, 6, 7\) of 4"),
        ("MET_FLOAT", "MET_ODD", r"expected ElementType in s\.mha as one of MET_CHAR, .*; got MET_ODD"),
        ("BinaryData = True", "BinaryData = False", r"expected BinaryData = True in s\.mha; got False"),
        *(
            ("= LOCAL", f"= {name}", rf"expected the data of s\.mha in one file beside it; got '{name}'")
            for name in ("../other.raw", "/dev/zero", "LIST")
        ),
        ("ElementSpacing = 1 1 1", "ElementSpacing = nan 1 1", r"expected 3 finite numbers in ElementSp"),
        (
            "NDims = 3",
            "NDims 3",
            r"expected lines name = value, each name once, up to ElementDataFile = \.\.\., in s\.mha",
        ),
    ],
)
def test_wrong_metaimage_headers_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, "mha")
    whole = path.read_bytes()
    assert old.encode() in whole
    path.write_bytes(whole.replace(old.encode(), new.encode(), 1))
    with pytest.raises(FileError, match=message):
        read_scan(path)


def test_damage_that_itk_overlooks_is_noticed(tmp_path: Path) -> None:
    path = put(tmp_path, "mha packed")
    whole = bytearray(path.read_bytes())
    whole[-60] ^= 0x10
    path.write_bytes(whole)
    with pytest.raises(FileError, match=r"expected (packed data|504 bytes packed) in s\.mha"):
        read_scan(path)


def test_nrrd_data_elsewhere_are_refused(tmp_path: Path) -> None:
    text = (
        "NRRD0004\ntype: float\ndimension: 3\nsizes: 7 6 3\nendian: little\nencoding: raw\n"
        "data file: ../s.raw\n\n"
    )
    (tmp_path / "s.nrrd").write_text(text)
    with pytest.raises(FileError, match=r"expected the data of s\.nrrd in one file beside it; got '\.\./s"):
        read_scan(tmp_path / "s.nrrd")


# NIfTI.


def test_nifti_scales_count(tmp_path: Path) -> None:
    path = put(tmp_path, "nifti", (1000 * ARRAY).astype(np.int16))
    image = nibabel.load(path)
    raw = bytearray(path.read_bytes())
    raw[112:120] = struct.pack("<2f", 0.5, 2.0)
    path.write_bytes(raw)
    scan = read_scan(path, COUNTS)
    np.testing.assert_allclose(scan.projections.numpy(), np.asarray(image.dataobj).T * 0.5 + 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"\1\2\3\4", r"expected a NIfTI header at the start of s\.nii; got other bytes"),
        (344, b"ni1\0", r"expected a NIfTI image in one file; got the mark b'ni1'"),
        (108, struct.pack("<f", 1e9), r"expected the numbers of s\.nii after its header; got them at 1000"),
        (40, struct.pack("<2h", 1, 7), r"expected views of pixels; got an image of shape \(7,\)"),
        (70, struct.pack("<h", 4096), r"expected a file that can be read; got: .*4096"),
    ],
)
def test_wrong_nifti_headers_are_named(at: int, value: bytes, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, "nifti")
    raw = bytearray(path.read_bytes())
    raw[at : at + len(value)] = value
    path.write_bytes(raw)
    with pytest.raises(FileError, match=message):
        read_scan(path)


def test_packed_nifti_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "nifti packed")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-4]))
    with pytest.raises(FileError, match=r"expected 504 bytes of numbers in s\.nii\.gz; got 500"):
        read_scan(path)


# TIFF.


def test_tiffs_of_other_kinds_are_refused(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "s.tif", np.zeros((6, 7, 3), dtype=np.uint8), photometric="rgb")
    with pytest.raises(FileError, match=r"expected one number per pixel in s\.tif; got 3"):
        read_scan(tmp_path / "s.tif")
    with tifffile.TiffWriter(tmp_path / "s.tif") as file:
        file.write(ARRAY[0])
        file.write(ARRAY[0, :3])
    with pytest.raises(FileError, match=r"expected pages of one shape and type in s\.tif; got 2 kinds"):
        read_scan(tmp_path / "s.tif")


def test_what_tifffile_only_logs_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(tmp_path, "tiff packed")
    path.write_bytes(path.read_bytes()[:-150])
    with pytest.raises(FileError, match=r"s\.tiff: expected "):
        read_scan(path)
    assert caplog.records == []
    assert logging.getLogger("tifffile").handlers == []


# MATLAB and HDF5, which hold many arrays.


@pytest.mark.parametrize("kind", ["mat", "mat 7.3", "hdf5"])
def test_the_array_is_named_where_there_are_many(kind: str, tmp_path: Path) -> None:
    path = put(tmp_path, kind)
    if kind == "mat":
        scipy.io.savemat(path, {"g": ARRAY.T, "other": 2 * ARRAY.T, "label": "text"})
    else:
        with h5py.File(path, "a") as file:
            file["other"] = 2 * ARRAY
    with pytest.raises(FileError, match=r"expected one array of views; got 2 among .*`variable`"):
        read_scan(path)
    assert same(read_scan(path, Supplied(variable="other")).projections, torch.from_numpy(2 * ARRAY))
    with pytest.raises(FileError, match=r"expected the variable 'none' with views of pixels; got .*other"):
        read_scan(path, Supplied(variable="none"))


def test_sparse_and_text_are_no_views(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "s.mat", {"label": "text", "dose": 3.0})
    with pytest.raises(FileError, match=r"expected one array of views; got 0 among label .*, dose"):
        read_scan(tmp_path / "s.mat")


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    path = put(tmp_path, "hdf5")
    path.rename(tmp_path / "target.h5")
    with h5py.File(path, "w") as file:
        file["g"] = h5py.ExternalLink("target.h5", "views/g")
    with pytest.raises(FileError, match=r"expected one array of views; got 0 among nothing"):
        read_scan(path)
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout(shape=ARRAY.shape, dtype="f4")
        layout[...] = h5py.VirtualSource(tmp_path / "target.h5", "views/g", shape=ARRAY.shape)
        file.create_virtual_dataset("g", layout)
    with pytest.raises(FileError, match=r"expected the numbers of g in the file; got a link"):
        read_scan(path)
