"""MetaImages (MHA, MHD), whose header has the fastest axis first.

ITK's own reader takes data that it could not unpack for whole; here they are checked to the last byte.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images.image import ImageRequest, StoredImage, data_beside
from duotomo.io.paths import FileError

_MOST_HEADER = 2**16
_TYPES = {
    "MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2",
    "MET_INT": "i4", "MET_UINT": "u4", "MET_LONG": "i4", "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4", "MET_DOUBLE": "f8",
}  # fmt: skip
_DATA, _CHANNELS = "ElementDataFile", "ElementNumberOfChannels"


def read_metaimage(request: ImageRequest) -> StoredImage:
    """Return the array of a `.mha` or `.mhd` file, and where it lies."""
    fields, n_header = _header(request.path)
    n_axes = int(_numbers(fields, ("NDims",), 1)[0])
    if n_axes not in (2, 3, 4):
        raise FileError(f"expected NDims = 3 in {request.path.name}; got {n_axes}. Write one image.")
    n_components = _n_components(fields)
    shape = tuple(int(n) for n in _numbers(fields, ("DimSize",), n_axes))[::-1]
    stored = (*shape, n_components) if n_components > 1 else shape
    return StoredImage(
        array=_array(request, fields, n_header, stored),
        n_components=n_components,
        format=f"{request.path.suffix[1:].upper()} image",
        spacing_mm=_numbers(fields, ("ElementSpacing", "ElementSize"), n_axes, default=1.0),
        first_mm=_numbers(fields, ("Offset", "Position", "Origin"), n_axes, default=0.0),
        axes=_axes(fields, n_axes),
    )


def metaimage_components(path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    return _n_components(_header(path)[0])


def _n_components(fields: dict[str, str]) -> int:
    n = _numbers(fields, (_CHANNELS,), 1, default=1.0)[0]
    if not (n >= 1 and n == int(n)):
        raise FileError(f"expected {_CHANNELS} of 1 or more; got {n:g}. Repair the header.")
    return int(n)


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
    request: ImageRequest, fields: dict[str, str], n_header: int, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    name = request.path.name
    plain = {"HeaderSize": "0", "BinaryData": "True"}
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
        path, offset = data_beside(request, fields[_DATA]), 0
    stored = path.stat().st_size - offset
    request.check_size(shape, dtype.itemsize, stored_bytes=stored, compressed=packed)
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


def _axes(fields: dict[str, str], n_axes: int) -> NDArray[np.float64]:
    names = ("TransformMatrix", "Rotation", "Orientation")
    if not any(name in fields for name in names):
        return np.eye(n_axes)
    # The file has one axis after the other.
    return _numbers(fields, names, n_axes**2).reshape(n_axes, n_axes).T


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
