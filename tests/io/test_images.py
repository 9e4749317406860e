"""What is wrong with the header of an image is said, whatever the image is read as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotomo.io import FileError, read_displacement, read_volume, recognise
from duotomo.io.images import n_components, read_image
from tests.io.itk_helpers import sitk

VECTORS = np.zeros((2, 3, 4, 3))


@pytest.mark.parametrize("channels", [b"0", b"1.5", b"many"])
def test_a_number_of_channels_that_cannot_be(channels: bytes, tmp_path: Path) -> None:
    path = tmp_path / "u.mha"
    sitk.WriteImage(sitk.GetImageFromArray(VECTORS, isVector=True), str(path))
    data = path.read_bytes()
    changed = data.replace(b"ElementNumberOfChannels = 3", b"ElementNumberOfChannels = " + channels)
    assert changed != data
    path.write_bytes(changed)
    for read in (read_displacement, recognise):
        with pytest.raises(
            FileError, match=r"expected (ElementNumberOfChannels of 1|1 whole number in Elem)"
        ):
            read(path)


def test_numbers_of_other_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.nrrd"
    sitk.WriteImage(sitk.GetImageFromArray(VECTORS[..., 0].astype(np.complex64)), str(path))
    with pytest.raises(FileError, match=r"v\.nrrd of whole or floating-point numbers; got the type .complex"):
        read_volume(path)


@pytest.mark.parametrize("name", ["v.nrrd", "v.nii", "v.mha"])
def test_other_bytes_are_no_image(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"something else")
    for read in (read_volume, recognise):
        with pytest.raises(FileError, match=rf"(read_volume|recognise): .*{name}: expected .* complete"):
            read(tmp_path / name)


DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
SHAPES = {
    "volume": (4, 5, 6),
    "plane": (5, 6),
    "series": (2, 4, 5, 6),
    "vectors": (4, 5, 6, 3),
    "colours": (5, 6, 2),
}
ORDERS = {
    ".mha": (b"BinaryDataByteOrderMSB = False", b"BinaryDataByteOrderMSB = True"),
    ".mhd": (b"BinaryDataByteOrderMSB = False", b"BinaryDataByteOrderMSB = True"),
    ".nrrd": (b"endian: little", b"endian: big"),
}


def random_image(dtype: str, what: str, seed: int) -> Any:
    """Return an image somewhere, turned, with axes of any length."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 100, SHAPES[what]).astype(dtype)
    image = sitk.GetImageFromArray(values, isVector=what in ("vectors", "colours"))
    n = image.GetDimension()
    image.SetDirection(np.linalg.qr(rng.normal(size=(n, n)))[0].ravel().tolist())
    image.SetOrigin(rng.normal(size=n).tolist())
    image.SetSpacing(rng.uniform(0.1, 3, n).tolist())
    return image


def assert_as_simpleitk(path: Path) -> None:
    """Raise unless a file is to us what it is to SimpleITK."""
    ours, theirs = read_image(path), sitk.ReadImage(str(path))
    np.testing.assert_array_equal(ours.array, sitk.GetArrayFromImage(theirs))
    assert ours.array.dtype.newbyteorder("=") == sitk.GetArrayFromImage(theirs).dtype
    assert ours.n_components == n_components(path) == theirs.GetNumberOfComponentsPerPixel()
    np.testing.assert_allclose(ours.spacing_mm, theirs.GetSpacing(), rtol=1e-15)
    np.testing.assert_allclose(ours.first_mm, theirs.GetOrigin(), rtol=1e-15)
    np.testing.assert_allclose(np.ravel(ours.axes), theirs.GetDirection(), rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("suffix", ORDERS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("what", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_files_are_what_they_are_to_simpleitk(
    dtype: str, what: str, packed: bool, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"i{suffix}"
    sitk.WriteImage(random_image(dtype, what, seed=len(what)), str(path), packed)
    assert_as_simpleitk(path)


@pytest.mark.parametrize("suffix", ORDERS)
@pytest.mark.parametrize("dtype", ["i2", "u4", "f8"])
def test_the_other_byte_order(dtype: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"i{suffix}"
    sitk.WriteImage(random_image(dtype, "volume", seed=1), str(path))
    data = path.with_suffix(".raw") if suffix == ".mhd" else path
    whole = data.read_bytes()
    size = np.dtype(dtype).itemsize
    numbers = np.frombuffer(whole[-120 * size :], f"<{dtype}")
    data.write_bytes(whole[: -120 * size] + numbers.astype(f">{dtype}").tobytes())
    old, new = ORDERS[suffix]
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    assert_as_simpleitk(path)


@pytest.mark.parametrize(
    "space", ["left-posterior-superior", "LPS", "right-anterior-superior", "RAS", "left-anterior-superior"]
)
@pytest.mark.parametrize("place", ["directions", "spacings", "none", "last"])
def test_nrrd_of_other_programs(place: str, space: str, tmp_path: Path) -> None:
    directions = {
        "directions": f"space: {space}\nspace directions: (0,2,0) (-1.5,0,0) (0,0,3)\n"
        "space origin: (1,-2.5,3)\n",
        "spacings": "spacings: 2 1.5 3\n",
        "none": "",
        "last": f"space: {space}\nspace directions: (2,0,0) (0,1.5,0) (0,0,3) none\n"
        "kinds: space space space vector\n",
    }[place]
    sizes = "2 3 4 3" if place == "last" else "2 3 4"
    header = f"NRRD0005\r\n# made by hand\r\nType: int16_t\nDimension: {len(sizes.split())}\nSizes: {sizes}\n"
    header += f"Endian: little\nencoding: raw\n{directions}key:=value: any\n\n"
    (tmp_path / "i.nrrd").write_bytes(header.encode() + np.arange(72, dtype="<i2").tobytes())
    assert_as_simpleitk(tmp_path / "i.nrrd")


HEADER = "NRRD0004\ntype: float\ndimension: 3\nsizes: 2 3 4\nendian: little\nencoding: raw\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: float", f"type: {'f' * 5000}", "of whole or floating-point numbers; got the type 'fff"),
        ("type: float", "type: block", "got the type 'block'"),
        ("dimension: 3", "dimension: 16", "expected dimension: 3 in i.nrrd; got 16"),
        (
            "dimension: 3",
            "dimension: 5\nkinds: domain domain domain domain domain",
            "5 whole numbers in sizes",
        ),
        ("sizes: 2 3 4", "sizes: 2 3", "expected 3 whole numbers in sizes"),
        ("sizes: 2 3 4", "sizes: 2 3 4.0", "expected 3 whole numbers in sizes"),
        ("encoding: raw", "encoding: hex", "expected encoding: raw or gzip in i.nrrd; got 'hex'"),
        ("endian: little", "endian: middle", "expected endian: little or big in i.nrrd; got 'middle'"),
        ("endian: little\n", "", "expected endian: little or big in i.nrrd; got ''"),
        ("encoding: raw", "encoding: raw\nbyte skip: 4", "expected byteskip: 0 in i.nrrd; got '4'"),
        ("encoding: raw", "encoding: raw\nline skip: 4", "expected lineskip: 0 in i.nrrd; got '4'"),
        (
            "encoding: raw",
            "encoding: raw\nEncoding: raw",
            "each once, in the header of i.nrrd; got 'Encoding: raw'",
        ),
        ("encoding: raw", "encoding: raw\naxis mins: 1 2 3", "got 'axis mins: 1 2 3'"),
        ("encoding: raw", "encoding: raw\nspacings: 1 1 0", "spacings of the header above 0"),
        ("encoding: raw", "encoding: raw\nspacings: 1 1 1e300", r"numbers up to 1e\+09 in spacings"),
        ("encoding: raw", "encoding: raw\nspace: scanner-xyz", "expected space: left-posterior-superior"),
        (
            "encoding: raw",
            "encoding: raw\nspace directions: (1,0,0) (0,1,0)",
            "expected 3 vectors in space dir",
        ),
        ("encoding: raw", "encoding: raw\nspace origin: 1,2,3", "3 finite numbers in space origin"),
        ("encoding: raw", "encoding: raw\nspace origin: (nan,2,3)", "3 finite numbers in space origin"),
        ("encoding: raw", "encoding: raw\nkinds: domain vector domain", "along the first or the last axis"),
        ("encoding: raw", "encoding: raw\nkinds: domain domain", "got the type 'domain domain' in kinds"),
        ("encoding: raw\n", "encoding: raw\ncontent: \x01", "expected lines of text in the header of i.nrrd"),
        ("encoding: raw\n\n", "encoding: raw", "empty line after the header of i.nrrd"),
        ("sizes: 2 3 4", "sizes: 1 2 3 4 1", "expected 3 whole numbers in sizes"),
    ],
)
def test_wrong_nrrd_headers_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = f"{HEADER}\n"
    assert old in text
    data = b"" if new == "encoding: raw" else np.ones(24, "<f4").tobytes()
    (tmp_path / "i.nrrd").write_bytes(text.replace(old, new).encode() + data)
    with pytest.raises(FileError, match=message):
        read_image(tmp_path / "i.nrrd")


def test_data_beside_a_nrrd_header(tmp_path: Path) -> None:
    (tmp_path / "i.nrrd").write_text(f"{HEADER}data file: i.raw\n")
    np.arange(24, dtype="<f4").tofile(tmp_path / "i.raw")
    assert_as_simpleitk(tmp_path / "i.nrrd")


@pytest.mark.parametrize("name", ["LIST", "list 2", "../i.raw", "away.raw"])
def test_data_are_in_one_file_beside_the_header(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for path in (tmp_path / "i.raw", folder / "LIST", folder / "list 2"):
        np.arange(24, dtype="<f4").tofile(path)
    (folder / "away.raw").symlink_to(tmp_path / "i.raw")
    (folder / "i.nrrd").write_text(f"{HEADER}data file: {name}\n")
    with pytest.raises(FileError, match=f"in one file beside it; got '{name}'"):
        read_image(folder / "i.nrrd")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CompressedData = False", "CompressedData = maybe", "expected CompressedData as True or False"),
        (
            "ElementSpacing = 1 1 1",
            "ElementSpacing = 1 1 -1",
            "expected ElementSpacing of the header above 0",
        ),
        ("Offset = 0 0 0", "Offset = 0 0 1e300", r"expected numbers up to 1e\+09 in Offset"),
        ("Matrix = 1 0", "Matrix = 1e308 0", r"expected numbers up to 1\.001 in TransformMatrix"),
        ("Offset = 0 0 0", "Offset = 0 0 0\nOffset = 1 1 1", "each name once, .*; got 'Offset = 1 1 1'"),
        ("NDims = 3", "NDims = 1_0", "expected 1 whole number in NDims"),
    ],
)
def test_wrong_metaimage_values_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "i.mha"
    sitk.WriteImage(sitk.GetImageFromArray(VECTORS[..., 0]), str(path))
    data = path.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode()))
    with pytest.raises(FileError, match=message):
        read_image(path)


def test_what_its_name_calls_no_image_is_refused(tmp_path: Path) -> None:
    for read in (read_image, n_components):
        with pytest.raises(
            FileError, match=r"read_image: expected a name that ends in \.nii\.gz, .*'README\.txt'"
        ):
            read(tmp_path / "README.txt")
