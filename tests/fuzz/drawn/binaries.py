"""Headers that are bytes: NIfTI, NPY, MATLAB's files and TIFF, field by field, and what is packed in them."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from random import Random

import nibabel
import numpy as np
import tifffile

from tests.fuzz.drawn import tokens
from tests.fuzz.drawn.streams import flipped, stream

_WHOLE = (0, 1, -1, 2, 3, 7, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
_REAL = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e-308, 0.0, -1.0, 3.4e38, 1e-45, 352.0)


def _extreme(dtype: np.dtype[np.void], random: Random) -> bytes:
    """Return a value of a type of numbers that nobody expects."""
    if dtype.kind in "iu":
        value = random.choice(_WHOLE) & (256**dtype.itemsize - 1)
        return value.to_bytes(dtype.itemsize, "little")
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(random.choice(_REAL)).astype(dtype.newbyteorder("<")).tobytes()
    return random.randbytes(dtype.itemsize)


def nifti(path: Path, random: Random) -> None:
    """Put extreme values into fields of a header of NIfTI, packed anew; or damage the packing."""
    data = path.read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    if packed and random.random() < 0.2:
        path.write_bytes(stream(data, random))
        return
    plain = bytearray(gzip.decompress(data) if packed else data)
    header = nibabel.Nifti2Header() if plain[0] == 0x1C and plain[1] == 2 else nibabel.Nifti1Header()
    dtype = header.structarr.dtype
    for _ in range(random.randint(1, 3)):
        name = random.choice(("dim", "dim", "pixdim", "vox_offset", "datatype", "bitpix", *dtype.names))
        field, start = dtype.fields[name][:2]
        base = field.base
        n = max(1, field.itemsize // base.itemsize)
        at = start + base.itemsize * random.randrange(n)
        plain[at : at + base.itemsize] = _extreme(base, random)
    path.write_bytes(gzip.compress(bytes(plain)) if packed else bytes(plain))


def npy(path: Path, random: Random) -> None:
    """Change the words of NumPy's header, with the length that it then has; or that length."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<H", data, 8)
    header, body = data[10 : 10 + n], data[10 + n :]
    if random.random() < 0.85:
        header = tokens.changed(header, random)[:60_000]
    version = random.choice((1, 1, 1, 1, 2, 3, 9))
    length = len(header) if random.random() < 0.85 else random.choice((0, 1, 65535, 118))
    size = struct.pack("<H", min(length, 65535)) if version == 1 else struct.pack("<I", length)
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + size + header + body)


def mat(path: Path, random: Random) -> None:
    """Put extreme values into the parts of MATLAB's level 5, packed anew; or damage the packing."""
    data = path.read_bytes()
    head, body, out, at = data[:128], data[128:], b"", 0
    if random.random() < 0.1:
        head = flipped(head, random)
    while at + 8 <= len(body):
        code, n = struct.unpack_from("<2I", body, at)
        element = body[at + 8 : at + 8 + n]
        at += 8 + n
        if code == 15:
            change = random.random() < 0.7
            packed = (
                zlib.compress(_parts(zlib.decompress(element), random)) if change else stream(element, random)
            )
            out += struct.pack("<2I", 15, random.choice((len(packed),) * 5 + _BOUNDS)) + packed
        else:
            whole = struct.pack("<2I", code, n) + element
            out += _parts(whole, random) if random.random() < 0.8 else whole
    path.write_bytes(head + out)


_BOUNDS = (0, 1, 7, 2**31 - 1, 2**32 - 1)


def _parts(element: bytes, random: Random) -> bytes:
    """Return an array's element in which one of the first words of 4 bytes, or any byte, is another."""
    values = bytearray(element)
    for _ in range(random.randint(1, 2)):
        at = 4 * random.randrange(min(20, len(values) // 4))
        struct.pack_into("<I", values, at, random.choice((*_BOUNDS, 2, 5, 6, 9, 14, 15, 16, 0x0800, 0x10001)))
    return bytes(values)


def words(path: Path, random: Random) -> None:
    """Put extreme values into words of 4 bytes, as in the headers of MATLAB's level 4, or cut the file."""
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        at = 4 * random.randrange(len(data) // 4)
        at = random.choice((at, 4 * random.randrange(5)))
        struct.pack_into("<I", data, at, random.choice((*_BOUNDS, 2, 10, 12, 100, 0x80000000, 0x7FF00000)))
    if random.random() < 0.2:
        data = data[: random.randrange(len(data))]
    path.write_bytes(data)


def tiff(path: Path, random: Random) -> None:
    """Put extreme types, counts and values into the entries of pages, or damage a strip."""
    with tifffile.TiffFile(path) as file:
        pages = [[(tag.offset, tag.code) for tag in page.tags] for page in file.pages]
        strips = [
            pair for page in file.pages for pair in zip(page.dataoffsets, page.databytecounts, strict=True)
        ]
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        what = random.randrange(8)
        if what == 0:
            offset, count = random.choice(strips)
            data[offset : offset + count] = flipped(bytes(data[offset : offset + count]), random)
            continue
        if what == 1:
            place = random.randrange(4, 8)
            data[place] = random.randrange(256)
            continue
        at, code = random.choice(random.choice(pages))
        where = random.choice((0, 2, 4, 8, 8, 8))
        if where == 0:
            struct.pack_into(
                "<H", data, at, random.choice((256, 257, 258, 259, 273, 277, 279, 322, 324, 330, 34665))
            )
        elif where == 2:
            struct.pack_into("<H", data, at + 2, random.choice((0, 1, 2, 3, 4, 5, 11, 12, 13, 16, 99)))
        else:
            struct.pack_into(
                "<I", data, at + where, random.choice((*_BOUNDS, 2, 5, 8, 16, 32773, 34925, code))
            )
    path.write_bytes(data)
