"""Headers that claim more than their file holds, and files that unfold to more than their header says."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pydicom
import scipy.io
import tifffile

from tests.fuzz.changes import Change, attribute, case, dicom, edited, json_edited
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import VIEWS

HUGE = 1 << 40
"""Numbers of which no machine holds so many."""


ZEROS = 200 * 2**20
"""Bytes that a bomb unfolds to: more than a command may take."""


def _nifti_shape(*shape: int) -> Change:
    def change(path: Path) -> None:
        data = bytearray(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        struct.pack_into("<8h", data, 40, len(shape), *shape, *[1] * (7 - len(shape)))
        path.write_bytes(gzip.compress(bytes(data)) if path.suffix == ".gz" else bytes(data))

    return change


def _hdf5_unwritten(name: str, *shape: int, dtype: str = "f4") -> Change:
    """Claim an array that was never written: a kilobyte of file for any size."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            if name in file:
                del file[name]
            file.create_dataset(name, shape=shape, dtype=dtype, chunks=(1,) * (len(shape) - 1) + (1024,))

    return change


def _hdf5_chunk(name: str) -> Change:
    """Keep a few numbers in a chunk that unfolds to much more."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            del file[name]
            side = ZEROS // 4
            data = file.create_dataset(
                name,
                shape=(3, 6, 7),
                maxshape=(None,) * 3,
                dtype="f4",
                chunks=(1, 1, side),
                compression="gzip",
            )
            for view in range(3):
                for row in range(6):
                    data.id.write_direct_chunk((view, row, 0), _zeros())

    return change


def _npy_shape(*shape: int) -> Change:
    def change(path: Path) -> None:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + bytes(504))

    return change


def _mat_shape(path: Path) -> None:
    """Change the sizes of the array in its header, level 5: three int32 after the flags."""
    data = bytearray(path.read_bytes())
    at = data.find(struct.pack("<3i", 7, 6, 3))
    assert at > 0
    struct.pack_into("<3i", data, at, 2**30, 2**30, 3)
    path.write_bytes(data)


def _tiff_side(path: Path) -> None:
    """Change the first page's width, tag 256."""
    with tifffile.TiffFile(path, mode="r+b") as file:
        for page in file.pages:
            page.tags[256].overwrite(2**31 - 1)


def sizes() -> Iterator[Hostile]:
    """Give claimed sizes."""
    kind = Category.SIZE
    for name in ("nifti", "nifti packed", "volume nifti", "displacement nifti"):
        for shape in ((32767,) * 5, (32767, 32767, 1), (-1, 6, 3), (0, 6, 3), (7, 6, 32767)):
            yield case(name, kind, f"shape {shape}", _nifti_shape(*shape), command=1)
    for name in ("mha", "mha packed", "mhd"):
        for size in (f"{HUGE} {HUGE} 3", "-7 6 3", "0 6 3", "7 6 3000000", "1e300 6 3", "nan 6 3", "7 6"):
            yield case(
                name,
                kind,
                f"DimSize {size}",
                edited("DimSize = 7 6 3", f"DimSize = {size}"),
                command=1 + len(size) % 2,
            )
    for name in ("volume mha", "displacement mha"):
        for size in ("1000000 1000000 1000000", "6 5 4000", "-6 5 4", "0 5 4"):
            yield case(name, kind, f"DimSize {size}", edited("DimSize = 6 5 4", f"DimSize = {size}"))
    for name, old in (
        ("nrrd", "sizes: 7 6 3"),
        ("nrrd packed", "sizes: 7 6 3"),
        ("volume nrrd", "sizes: 6 5 4"),
    ):
        for size in ("1000000 1000000 1000000", "-7 6 3", "0 6 3", "99999999999999999999 6 3"):
            yield case(name, kind, f"sizes {size}", edited(old, f"sizes: {size}"), command=0)
    for shape in ([10**9] * 3, [2**16] * 3, [-1, 6, 5], [4, 6, 6]):
        yield case(
            "result",
            kind,
            f"grid {shape}",
            json_edited(lambda content, shape=shape: content["grid"].update(shape=shape)),
            command=0,
        )
    for shape in ((HUGE, 6, 7), (-3, 6, 7), (3, 0, 7), (2**62, 2**62, 2**62), (3, 6, 8)):
        yield case("npy", kind, f"shape {shape}", _npy_shape(*shape))
    for name, array in (
        ("scan", "projections"),
        ("study", "visits/0/projections"),
        ("hdf5", "views/g"),
        ("scan", "source_mm"),
        ("scan", "flat_field"),
        ("checkpoint", "volumes/0"),
    ):
        yield case(name, kind, f"{array} never written", _hdf5_unwritten(array, 1 << 20, 1 << 20, 1 << 20))
    yield case(
        "transform hdf5",
        kind,
        "parameters never written",
        _hdf5_unwritten("TransformGroup/0/TransformParameters", 1 << 38, dtype="f8"),
    )
    yield case("mat", kind, "sizes", _mat_shape)
    yield case("tiff", kind, "width", _tiff_side)
    yield case("tiff packed", kind, "width", _tiff_side)
    for keyword, value in (
        ("Rows", 65535),
        ("Columns", 65535),
        ("NumberOfFrames", 2**31 - 1),
        ("NumberOfFrames", 0),
        ("BitsAllocated", 64),
        ("BitsAllocated", 0),
    ):
        yield case("dicom", kind, f"{keyword} {value}", dicom(attribute(keyword, value)))
    for keyword, value in (("Rows", 65535), ("NumberOfFrames", 2**31 - 1)):
        yield case("volume dicom", kind, f"{keyword} {value}", dicom(attribute(keyword, value)), command=1)
    grown = {
        "kind": "VolumeGrid",
        "shape": [10**6] * 3,
        "spacing_mm": [6.0] * 3,
        "center_mm": [15.0, 15.0, 0.0],
    }
    yield case("study", kind, "grid", _study_grid(grown), command=2)


def _study_grid(content: dict[str, Any]) -> Change:
    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            file["grid"].attrs["json"] = json.dumps(content)

    return change


@cache
def _zeros() -> bytes:
    return zlib.compress(bytes(ZEROS), 6)


@cache
def _gzip_zeros() -> bytes:
    return gzip.compress(bytes(ZEROS), 6)


def _append_packed(path: Path) -> None:
    """Let a gzip file go on for long after its numbers."""
    path.write_bytes(path.read_bytes() + _gzip_zeros())


def _mha_bomb(path: Path) -> None:
    head, mark, _ = path.read_bytes().partition(b"ElementDataFile = LOCAL\n")
    path.write_bytes(head + mark + _zeros())


def _nrrd_bomb(path: Path) -> None:
    head, _, data = path.read_bytes().partition(b"\n\n")
    path.write_bytes(head + b"\n\n" + data + _gzip_zeros())


def _tiff_bomb(path: Path) -> None:
    with tifffile.TiffFile(path, mode="r+b") as file:
        tag = file.pages[0].tags
        packed = _zeros()
        end = path.stat().st_size
        counts, offsets = tag[279], tag[273]
        counts.overwrite(len(packed))
        offsets.overwrite(end)
    with path.open("ab") as raw:
        raw.write(packed)


_WIDE = 256
"""Pixels along a side, so that what is packed is shorter than a page."""


def _packed_page(packed: bytes, compression: int, *, tile: int | None = None) -> Change:
    """Put a page in place of the views, whose strip, or first tile, unfolds to something else."""

    def change(path: Path) -> None:
        pages = np.zeros((3, _WIDE, _WIDE), "u2")
        sides = None if tile is None else (tile, tile)
        tifffile.imwrite(path, pages, photometric="minisblack", compression="zlib", tile=sides, metadata=None)
        with tifffile.TiffFile(path, mode="r+b") as file:
            end, n_strips = path.stat().st_size, len(file.pages[0].dataoffsets)
            for page in file.pages:
                counts, offsets = (325, 324) if tile else (279, 273)
                page.tags[259].overwrite(compression)
                page.tags[counts].overwrite([len(packed)] * n_strips)
                page.tags[offsets].overwrite([end] * n_strips)
        with path.open("ab") as raw:
            raw.write(packed)

    return change


def chunk_of(data: bytes, **options: Any) -> Change:
    """Put a chunk into an HDF5 file that unfolds to other than its shape."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            name = "projections" if "projections" in file else "views/g"
            del file[name]
            array = file.create_dataset(name, shape=(3, 6, 7), dtype="f4", chunks=(3, 6, 7), **options)
            array.id.write_direct_chunk((0, 0, 0), data)

    return change


def _mat_data(path: Path) -> None:
    """Keep the shape of a packed array, with data that go on."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"g": VIEWS.T})
    head, body = stream.getvalue()[:128], bytearray(stream.getvalue()[128:])
    at = body.find(struct.pack("<2I", 7, 504))
    assert at > 0
    struct.pack_into("<2I", body, at, 7, 504 + ZEROS)
    struct.pack_into("<2I", body, 0, 14, len(body) - 8 + ZEROS)
    packed = zlib.compress(bytes(body) + bytes(ZEROS), 6)
    path.write_bytes(head + struct.pack("<2I", 15, len(packed)) + packed)


def _mat_bomb(path: Path) -> None:
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"g": VIEWS.T})
    plain = stream.getvalue()
    head, body = plain[:128], plain[128:]
    packed = zlib.compress(body + bytes(ZEROS), 6)
    path.write_bytes(head + struct.pack("<2I", 15, len(packed)) + packed)


def _dicom_bomb(path: Path) -> None:
    dataset = pydicom.dcmread(path)
    dataset.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1.99"
    dataset.add_new(0x00420011, "OB", bytes(ZEROS))
    dataset.save_as(path)


def bombs() -> Iterator[Hostile]:
    """Give files that unfold to much."""
    kind = Category.BOMB
    for name in ("nifti packed", "volume nifti", "displacement nifti"):
        yield case(name, kind, "goes on", _append_packed, command=1)
    yield case("mha packed", kind, "goes on", _mha_bomb)
    yield case("volume mha packed", kind, "goes on", _mha_bomb, command=0)
    yield case("nrrd packed", kind, "goes on", _nrrd_bomb, fate=Fate.EITHER, command=1)
    yield case("tiff packed", kind, "page", _tiff_bomb)
    for name, data, compression in (
        ("deflate", _zeros(), 8),
        ("old deflate", _zeros(), 32946),
        ("lzma", lzma.compress(bytes(ZEROS), preset=1), 34925),
        ("packbits", b"\x81\x00" * 100_000, 32773),
        ("lzw", bytes(100), 5),
    ):
        yield case(
            "tiff", kind, f"strip {name}", _packed_page(data, compression), command=0, fate=Fate.REFUSED
        )
    tile = _packed_page(zlib.compress(bytes(100)), 8, tile=4096)
    yield case("tiff", kind, "tile", tile, command=1, fate=Fate.REFUSED)
    many, few = zlib.compress(bytes(2**25)), zlib.compress(bytes(10))
    for name in ("scan", "hdf5"):
        for what, data, options in (
            ("many", many, {"compression": "gzip"}),
            ("few", few, {"compression": "gzip"}),
            ("checked", many + bytes(4), {"compression": "gzip", "fletcher32": True}),
            ("lzf", b"\x00\x00" + b"\xe0\xff\x00" * 20_000, {"compression": "lzf"}),
            ("lzf few", b"\x00\x00", {"compression": "lzf"}),
            ("scaled", bytes(100), {"scaleoffset": 3}),
            ("plain", bytes(10), {"fletcher32": True}),
        ):
            yield case(name, kind, f"chunk {what}", chunk_of(data, **options), fate=Fate.REFUSED)
    yield case("mat packed", kind, "goes on", _mat_bomb, command=1)
    yield case("mat packed", kind, "data", _mat_data, command=1)
    yield case("scan", kind, "chunk", _hdf5_chunk("projections"))
    yield case("study", kind, "chunk", _hdf5_chunk("visits/0/projections"))
    yield case("dicom", kind, "deflated", _dicom_bomb)
    yield case("volume dicom", kind, "deflated", _dicom_bomb, command=1)
