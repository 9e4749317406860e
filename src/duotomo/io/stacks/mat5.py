"""Arrays of MATLAB's files of level 5, packed or not: elements with type, length and data."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from duotomo.io.paths import FileError
from duotomo.io.size_check import FileRequest
from duotomo.io.unpacking import Bytes, Deflate, Unpacked

_ORDERS = {b"IM": "<", b"MI": ">"}
_N_HEADER = 128
_MATRIX, _PACKED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_MOST_ARRAYS, _MOST_SIDES, _MOST_NAME = 10_000, 128, 4096


@dataclass(frozen=True, kw_only=True)
class MatArray:
    """An array of a file. dtype: None unless it is of real numbers. offset: of its element in the file."""

    name: str
    shape: tuple[int, ...]
    kind: str
    dtype: str | None
    offset: int


def is_level_5(path: Path) -> bool:
    """Return whether a file starts as those of level 5 do."""
    with path.open("rb") as file:
        return file.read(_N_HEADER)[126:] in _ORDERS


def mat_arrays(path: Path) -> list[MatArray]:
    """Return the arrays of a file, by their headers alone."""
    with path.open("rb") as file:
        order = _ORDERS[file.read(_N_HEADER)[126:]]
        found = [_header(_content(file, offset, order), order, offset) for offset in _offsets(file, order)]
    if len({array.name for array in found}) < len(found):
        raise FileError("expected one array of each name; got several of one name. Save them anew.")
    return found


def read_mat_array(request: FileRequest, array: MatArray) -> NDArray[Any]:
    """Return the numbers of an array, with axes as MATLAB counts them."""
    dtype = np.dtype(array.dtype)
    request.check_size(array.shape, 1, compressed=True, what=array.name)
    with request.path.open("rb") as file:
        order = _ORDERS[file.read(_N_HEADER)[126:]]
        content = _content(file, array.offset, order)
        _header(content, order, array.offset)
        code, n_bytes, small = _tag(content, order)
        # MATLAB keeps whole numbers in as few bytes as they need.
        stored = np.dtype(order + _TYPES.get(code, "V1"))
        if code not in _TYPES or n_bytes != math.prod(array.shape) * stored.itemsize:
            raise FileError(
                f"expected {math.prod(array.shape)} numbers in the array {array.name[:80]}; got {n_bytes} "
                f"bytes of type {code}. Save it anew."
            )
        request.check_size(array.shape, dtype.itemsize, compressed=True, what=array.name)
        data = small[:n_bytes] if small else content.read(n_bytes)
        # The rest is at most what makes the length a multiple of 8; then comes the checksum.
        whole = not isinstance(content, Unpacked) or (len(content.read(16)) <= 8 and content.ended)
    if len(data) < n_bytes or not whole:
        raise FileError(
            f"expected {n_bytes} bytes in the array {array.name[:80]}; got {len(data)}, and "
            f"{'an end' if whole else 'no end'}. Check that the file is complete."
        )
    return np.frombuffer(data, stored).reshape(array.shape, order="F").astype(dtype)


def _offsets(file: BinaryIO, order: str) -> Iterator[int]:
    """Give where the elements of a file start."""
    offset, end = _N_HEADER, file.seek(0, io.SEEK_END)
    for _ in range(_MOST_ARRAYS):
        if offset >= end:
            return
        yield offset
        file.seek(offset)
        offset += 8 + _tag(file, order)[1]
    raise FileError(f"expected at most {_MOST_ARRAYS} arrays; got more. Save fewer.")


def _content(file: BinaryIO, offset: int, order: str) -> Bytes:
    """Return what is in an element that is an array."""
    file.seek(offset)
    code, n_bytes, _ = _tag(file, order)
    end = file.seek(0, io.SEEK_END)
    file.seek(offset + 8)
    if offset + 8 + n_bytes > end or code not in (_MATRIX, _PACKED):
        raise FileError(
            f"expected arrays that end in the file; got one of {n_bytes} bytes, type {code}. "
            f"Check that the file is complete."
        )
    if code == _MATRIX:
        return file
    content = Unpacked(Deflate(), file, n_bytes)
    if _tag(content, order)[0] != _MATRIX:
        raise FileError("expected an array that was packed; got something else. Save it anew.")
    return content


def _header(content: Bytes, order: str, offset: int) -> MatArray:
    flags = _element(content, order, 6, 8)
    sides = _element(content, order, 5, _MOST_SIDES)
    name = _element(content, order, 1, _MOST_NAME).decode("utf-8", errors="replace")
    (bits,) = struct.unpack_from(f"{order}I", flags.ljust(4, b"\0"))
    kind, plain = bits & 0xFF, not bits & (_COMPLEX | _LOGICAL)
    shape = struct.unpack(f"{order}{len(sides) // 4}i", sides[: len(sides) // 4 * 4])
    dtype = _CLASSES.get(kind) if plain else None
    words = dtype or _OTHERS.get(kind, "complex" if bits & _COMPLEX else "logical")
    return MatArray(name=name, shape=shape, kind=words, dtype=dtype, offset=offset)


def _tag(content: Bytes, order: str) -> tuple[int, int, bytes]:
    """Return type, length, and the data themselves if they are so few that they stand in the tag."""
    tag = content.read(8)
    if len(tag) < 8:
        raise FileError(
            "expected type and length of an array's part; got the end. Check that the file is complete."
        )
    code, n_bytes = struct.unpack(f"{order}2I", tag)
    if code >> 16:
        return code & 0xFFFF, min(code >> 16, 4), tag[4:]
    return code, n_bytes, b""


def _element(content: Bytes, order: str, expected: int, most: int) -> bytes:
    code, n_bytes, small = _tag(content, order)
    if code != expected or n_bytes > most:
        raise FileError(
            f"expected a part of type {expected} and at most {most} bytes; got type {code} and {n_bytes}. "
            f"Save it anew."
        )
    # Parts start at multiples of 8.
    return small[:n_bytes] if small else content.read(n_bytes + -n_bytes % 8)[:n_bytes]
