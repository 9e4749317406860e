"""What the hostile inputs are refused with, said once for each reason."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, read_displacement, read_result, read_study, read_transform, read_volume
from duotomo.io.description import describe
from duotomo.io.dicom.header import read_dataset
from duotomo.io.durable import durable
from duotomo.io.result_index import checked, read_index
from duotomo.io.scan_file import read_scan
from duotomo.transforms import BSpline
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.fuzz.crafted import crafted
from tests.fuzz.samples import GRID, SAMPLES
from tests.io.itk_helpers import sitk
from tests.io.saved_helpers import reseal


def put(name: str, folder: Path) -> None:
    """Make one of the inputs made by hand."""
    next(one for one in crafted() if one.name == name).make(folder)


def test_chunks_larger_than_their_array_are_refused(tmp_path: Path) -> None:
    put("scan/chunk", tmp_path)
    with pytest.raises(
        FileError, match=r"chunks of projections no larger than itself, 504 bytes; got 209715200"
    ):
        read_scan(tmp_path / "s.h5")


@pytest.mark.parametrize("name", ["visits", "visits/1", "visits/0/projections"])
def test_links_to_other_files_are_refused(name: str, tmp_path: Path) -> None:
    put(f"study/external link {name}", tmp_path)
    with pytest.raises(FileError, match=rf"expected /{name} in the file; got a link to another file"):
        read_study(tmp_path / "study.h5")


FEWER = r"expected a deflated file of at most .*; got one that is larger"
PACKED = r"504 bytes of its pixels in s\.tiff; got \d+ of them compressed"
NEVER = r"to need at most .*; got a header that asks for"


@pytest.mark.parametrize(
    ("name", "file", "read", "message"),
    [
        ("study/visits/0/projections never written", "study.h5", read_study, NEVER),
        ("transform hdf5/parameters never written", "t.h5", partial(read_transform, grid=GRID), NEVER),
        (
            "mat packed/goes on",
            "s.mat",
            read_scan,
            r"expected 504 bytes in the array g; got 504, and no end",
        ),
        (
            "tiff packed/page",
            "s.tiff",
            read_scan,
            r"504 bytes of its pixels in s\.tiff; got \d+ of them compr",
        ),
        (
            "dicom/deflated",
            "s.dcm",
            partial(read_dataset, pixels=False),
            FEWER,
        ),
    ],
)
def test_what_takes_more_memory_than_the_file_holds_is_refused(
    name: str, file: str, read: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    put(name, tmp_path)
    with pytest.raises(FileError, match=message):
        read(tmp_path / file)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("strip deflate", r"expected at most 131072 bytes packed in a part of a page of s\.tif; got more"),
        ("strip lzma", r"expected at most 131072 bytes packed in a part of a page of s\.tif; got more"),
        ("strip packbits", r"expected at most 131072 bytes packed in a part of a page of s\.tif; got more"),
        (
            "strip lzw",
            r"expected s\.tif without compression, or by deflate, LZMA or PackBits; got .* number 5",
        ),
        ("tile", r"expected tiles of s\.tif no larger than its pixels, 393216 bytes; got 33554432"),
    ],
)
def test_parts_of_pages_unfold_to_no_more_than_they_are(name: str, message: str, tmp_path: Path) -> None:
    put(f"tiff/{name}", tmp_path)
    with pytest.raises(FileError, match=message):
        read_scan(tmp_path / "s.tif")


def test_messages_do_not_speak_to_the_terminal(tmp_path: Path) -> None:
    put("settings joint/escape", tmp_path)
    ran = duotomo(
        "joint", *[tmp_path / "s.h5"] * 2, "--settings", tmp_path / "s.toml", "--out", tmp_path / "out"
    )
    assert ran.code == 2
    assert "\\x1b]0;gone\\x07\\x9b31m" in ran.err.replace("\n", "")


def test_what_is_said_of_a_file_does_not_speak_to_the_terminal(tmp_path: Path) -> None:
    whole = SAMPLES["result"].put(tmp_path)
    whole.write_text(whole.read_text().replace('"method": "', '"method": "\\u001b[31m\\u202e', 1))
    reseal(whole)
    ran = duotomo("info", tmp_path / "result")
    assert "method: \\x1b[31m\\u202e" in ran.out


def test_archives_are_not_arrays(tmp_path: Path) -> None:
    put("npy/npz", tmp_path)
    with pytest.raises(
        FileError, match=r"expected one array in s\.npy, as np.save writes it; got other bytes"
    ):
        read_scan(tmp_path / "s.npy")


def test_displacements_lie_in_their_own_file(tmp_path: Path) -> None:
    put("displacement mha/data in /etc/passwd", tmp_path)
    with pytest.raises(FileError, match=r"expected header and voxels in one file; got the name of another"):
        read_displacement(tmp_path / "d.mha")


def test_a_result_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    put("result's volume/volume", tmp_path)
    with pytest.raises(FileError, match=r"expected volume\.nii\.gz in the folder; got a link out of it"):
        checked(tmp_path / "result", read_index("test", tmp_path / "result"), "volume.nii.gz")
    with pytest.raises(FileError, match=r"got a link out of it"):
        read_result(tmp_path / "result")


def test_an_index_beyond_all_measure_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SAMPLES["result"].put(tmp_path)
    monkeypatch.setattr("duotomo.io.result_index.MOST_BYTES", 100)
    with pytest.raises(FileError, match=r"got: a file of more than 100 bytes"):
        read_index("test", tmp_path / "result")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / ".unfinished-new.txt").symlink_to(tmp_path / "kept.txt")
    with durable("test", tmp_path / "new.txt") as fresh:
        fresh.write_text("new")
    assert (tmp_path / "kept.txt").read_text() == "kept"
    assert (tmp_path / "new.txt").read_text() == "new"


@pytest.mark.parametrize("spacing", [1e300, 1e-300])
def test_lengths_that_no_unit_explains_are_refused(spacing: float) -> None:
    with pytest.raises(GeometryError, match=r"from 1e-06 to 1e\+09 mm; got .* Check the unit"):
        VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, spacing))


def test_sources_beyond_all_measure_are_refused(tmp_path: Path) -> None:
    put("geometry/source_mm/4", tmp_path)
    with pytest.raises(FileError, match=r"s\.json: .* expected source_mm within 1e\+09 mm; got .* in view 0"):
        read_scan(tmp_path / "s.npy")


def test_lattices_beyond_all_measure_are_refused() -> None:
    with pytest.raises(DuotomoError, match=r"expected at most 10000000 control points; got 1000,1000,1000"):
        BSpline.shaped((1000, 1000, 1000))


def test_volumes_are_of_finite_numbers(tmp_path: Path) -> None:
    put("volume nifti/complex", tmp_path)
    with pytest.raises(FileError, match=r"v\.nii\.gz of whole or floating-point numbers .*; got complex64"):
        read_volume(tmp_path / "v.nii.gz")
    put("volume nifti/nan", tmp_path)
    ran = duotomo("register", *[tmp_path / "v.nii.gz"] * 2, "--out", tmp_path / "out")
    assert "v.nii.gz: expected finite voxels; got NaN or infinity among them" in ran.err


def test_damaged_transforms_in_hdf5_are_named(tmp_path: Path) -> None:
    path = SAMPLES["transform hdf5"].put(tmp_path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(FileError, match=r"expected HDF5 that can be read; got: .*truncated"):
        read_transform(path, GRID)


def test_volumes_of_dicom_are_registered(tmp_path: Path) -> None:
    path = SAMPLES["volume dicom"].put(tmp_path)
    options = ("--transform", "translation", "--steps", "1", "--allow-same-scan")
    ran = duotomo("register", path, path, *options, "--out", tmp_path / "out")
    assert ran.code in (0, NOT_TRUSTED), ran.err
    assert torch.isfinite(read_result(tmp_path / "out").volume).all()


@pytest.mark.parametrize("name", ["volume mha packed", "nrrd packed", "mha packed"])
def test_packed_numbers_are_as_they_were_written(name: str, tmp_path: Path) -> None:
    """ITK would take damaged data for whole; the checksum of zlib or gzip, at the end, is looked at."""
    path = SAMPLES[name].put(tmp_path)
    data = bytearray(path.read_bytes())
    # Before the length that gzip has after its checksum.
    data[-6 if path.suffix == ".nrrd" else -2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"expected packed data in .*; got: .*incorrect data check"):
        (read_volume if name.startswith("volume") else read_scan)(path)


def test_packed_volumes_of_nrrd_are_checked(tmp_path: Path) -> None:
    image = sitk.GetImageFromArray(np.random.default_rng(3).random(GRID.shape, dtype=np.float32))
    sitk.WriteImage(image, str(tmp_path / "v.nrrd"), True)
    read_volume(tmp_path / "v.nrrd")
    data = bytearray((tmp_path / "v.nrrd").read_bytes())
    data[-6] ^= 1
    (tmp_path / "v.nrrd").write_bytes(data)
    with pytest.raises(FileError, match=r"got: .*incorrect data check"):
        read_volume(tmp_path / "v.nrrd")


@pytest.mark.parametrize("value", [-1e7, 1e300])
def test_displacements_without_measure_are_refused(value: float, tmp_path: Path) -> None:
    vectors = np.zeros((*GRID.shape, 3))
    vectors[0, 0, 0, 0] = value
    sitk.WriteImage(sitk.GetImageFromArray(vectors, isVector=True), str(tmp_path / "d.mha"))
    with pytest.raises(FileError, match=r"expected displacements of at most 1e\+06 mm; got more"):
        read_displacement(tmp_path / "d.mha")


def test_values_of_a_wrong_length_are_refused_by_info(tmp_path: Path) -> None:
    """Found by coverage: pydicom looks at a value when it is asked for, not when it reads the file."""
    path = SAMPLES["dicom"].put(tmp_path)
    rows = b"\x28\x00\x10\x00US"
    data = path.read_bytes()
    assert rows + b"\x02\x00" in data
    path.write_bytes(data.replace(rows + b"\x02\x00", rows + b"\x03\x00\x00"))
    with pytest.raises(FileError, match=r"s\.dcm: expected a DICOM file that can be read; got: BytesLength"):
        describe(path)


def test_bytes_that_are_no_text_are_no_transform(tmp_path: Path) -> None:
    path = tmp_path / "t.tfm"
    text = (
        b"#Insight Transform File V1.0\nTransform: Aff\xd4ine_double_3_3\nParameters: 1\nFixedParameters: 0\n"
    )
    path.write_bytes(text)
    with pytest.raises(FileError, match=r"expected the name of a transform"):
        read_transform(path, GRID)


def test_gzip_and_numpy_are_what_they_say() -> None:
    """The inputs made by hand rely on this."""
    assert gzip.decompress(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    assert np.lib.format.MAGIC_PREFIX == b"\x93NUMPY"
