"""Stacks as MetaImage (MHA, MHD): (u, v, view) as ITK counts axes.

ITK's own reader takes data that it could not unpack for whole; here they are checked to the last byte.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.file_error import FileError
from duotomo.io.size_check import check_size
from duotomo.io.stacks.stack import PixelPlace, Request, Stack, as_views, data_beside

_MOST_HEADER = 2**16
_TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
_DATA = "ElementDataFile"


def read_metaimage(request: Request) -> Stack:
    """Return the array of a `.mha` or `.mhd` file, and where it places its pixels."""
    fields, n_header = _header(request.path)
    n_axes = int(_numbers(fields, ("NDims",), 1)[0])
    if n_axes not in (2, 3, 4):
        raise FileError(f"expected NDims = 3 in {request.path.name}; got {n_axes}. Write one stack of views.")
    shape = tuple(int(n) for n in _numbers(fields, ("DimSize",), n_axes))[::-1]
    array = _array(request, fields, n_header, shape)
    place = _place(fields, n_axes)
    return Stack(
        array=as_views(array),
        format=f"{request.path.suffix[1:].upper()} image",
        place=place,
        has_origin=place is not None,
    )


def _header(path: Path) -> tuple[dict[str, str], int]:
    """Return what the lines `name = value` say, and how many bytes they take."""
    with path.open("rb") as file:
        start = file.read(_MOST_HEADER)
    fields: dict[str, str] = {}
    at = 0
    while _DATA not in fields:
        end = start.find(b"\n", at)
        # The last line of a header that has its data elsewhere may lack its end.
        end = len(start) if end < 0 else end
        name, equals, value = start[at:end].decode("utf-8", errors="replace").partition("=")
        if not equals:
            raise FileError(
                f"expected lines name = value, up to {_DATA} = ..., in {path.name}; got {name[:40]!r}. "
                f"Check that the file is complete."
            )
        fields[name.strip()] = value.strip()
        at = end + 1
    return fields, min(at, len(start))


def _array(
    request: Request, fields: dict[str, str], n_header: int, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    name = request.path.name
    plain = {"ElementNumberOfChannels": "1", "HeaderSize": "0", "BinaryData": "True"}
    for field, expected in plain.items():
        if fields.get(field, expected).lower() != expected.lower():
            raise FileError(f"expected {field} = {expected} in {name}; got {fields[field][:40]}. Convert it.")
    kind = fields.get("ElementType", "none")
    if kind not in _TYPES:
        raise FileError(
            f"expected ElementType in {name} as one of {', '.join(_TYPES)}; got {kind[:40]}. Convert it."
        )
    big = fields.get("ElementByteOrderMSB", fields.get("BinaryDataByteOrderMSB", "False")).lower() == "true"
    dtype = np.dtype((">" if big else "<") + _TYPES[kind])
    packed = fields.get("CompressedData", "False").lower() == "true"
    path, offset = request.path, n_header
    if fields[_DATA].upper() != "LOCAL":
        path, offset = data_beside(request.path, fields[_DATA]), 0
    stored = path.stat().st_size - offset
    check_size(
        name, shape, dtype.itemsize, stored_bytes=stored, compressed=packed, max_bytes=request.max_bytes
    )
    n_bytes = math.prod(shape) * dtype.itemsize
    with path.open("rb") as file:
        file.seek(offset)
        data = _unpacked(file, n_bytes, name) if packed else file.read(n_bytes)
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _unpacked(file: Any, n_bytes: int, name: str) -> bytes:
    """Return so many bytes; raise if there are others, or if zlib's checksum does not fit them."""
    unpack = zlib.decompressobj()
    try:
        # One more than promised, so that more is noticed and none of the rest is unpacked.
        data = unpack.decompress(file.read(), n_bytes + 1)
        whole = unpack.eof or (len(data) == n_bytes and not unpack.flush(1) and unpack.eof)
    except zlib.error as error:
        raise FileError(f"expected zlib data in {name}; got: {error}. Check that it is complete.") from error
    if len(data) != n_bytes or not whole:
        raise FileError(
            f"expected {n_bytes} bytes packed in {name}; got {'more' if len(data) > n_bytes else len(data)}"
            f"{'' if unpack.eof else ' and no end'}. Check that the file is complete."
        )
    return data


def check_packed(path: Path, n_bytes: int) -> None:
    """Raise unless the packed data of a `.mha` file are so many bytes, as zlib's checksum has them."""
    _, n_header = _header(path)
    with path.open("rb") as file:
        file.seek(n_header)
        _unpacked(file, n_bytes, path.name)


def _place(fields: dict[str, str], n_axes: int) -> PixelPlace | None:
    spacing = _numbers(fields, ("ElementSpacing", "ElementSize"), n_axes, default=1.0)
    first = _numbers(fields, ("Offset", "Position", "Origin"), n_axes, default=0.0)
    axes = np.eye(n_axes)
    names = ("TransformMatrix", "Rotation", "Orientation")
    if any(name in fields for name in names):
        # The file has one axis after the other.
        axes = _numbers(fields, names, n_axes**2).reshape(n_axes, n_axes).T
    return PixelPlace(spacing_mm=spacing[:2], first_mm=first[:2], axes=axes[:2, :2])


def _numbers(
    fields: dict[str, str], names: tuple[str, ...], n: int, *, default: float | None = None
) -> NDArray[np.float64]:
    name = next((name for name in names if name in fields), None)
    if name is None and default is not None:
        return np.full(n, default)
    text = "" if name is None else fields[name]
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.array([])
    if values.shape != (n,) or not np.isfinite(values).all():
        raise FileError(
            f"expected {n} finite number{'s' if n > 1 else ''} in {name or names[0]} of the header; got "
            f"{text[:60]!r}. Repair the header."
        )
    return values
