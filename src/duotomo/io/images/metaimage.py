"""MetaImages (MHA, MHD), whose header has the fastest axis first.

ITK's own reader takes data that it could not unpack for whole; here they are checked to the last byte.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images.header import (
    FARTHEST_MM,
    LONGEST_AXIS,
    MOST_AXES,
    StoredNumbers,
    decimals,
    spacings,
    start_of,
    text_of,
    whole_numbers,
)
from duotomo.io.images.image import ImageRequest, StoredImage
from duotomo.io.paths import FileError
from duotomo.io.unpacking import Deflate

_TYPES = {
    "MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2",
    "MET_INT": "i4", "MET_UINT": "u4", "MET_LONG": "i4", "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4", "MET_DOUBLE": "f8",
}  # fmt: skip
_DATA, _CHANNELS = "ElementDataFile", "ElementNumberOfChannels"
_LINE = re.compile(r"([^\s=][^=]*?) *= *(.*?) *")
_MOST_CHANNELS = 1000

Fields = dict[str, str]


def read_metaimage(request: ImageRequest) -> StoredImage:
    """Return the array of a `.mha` or `.mhd` file, and where it lies."""
    name = request.path.name
    fields, n_header = _header(request.path)
    (n_axes,) = whole_numbers("NDims", fields.get("NDims", ""), 1)
    if not 2 <= n_axes <= MOST_AXES:
        raise FileError(f"expected NDims = 3 in {name}; got {n_axes}. Write one image.")
    n_components = _n_components(fields)
    spacing_mm = _numbers(fields, ("ElementSpacing", "ElementSize"), np.ones(n_axes))
    numbers = _stored(fields, name, n_header, n_axes, n_components)
    return StoredImage(
        array=numbers.read(request),
        n_components=n_components,
        format=f"{request.path.suffix[1:].upper()} image",
        spacing_mm=spacings("ElementSpacing", spacing_mm),
        first_mm=_numbers(fields, ("Offset", "Position", "Origin"), np.zeros(n_axes)),
        axes=_axes(fields, n_axes),
    )


def metaimage_components(path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    return _n_components(_header(path)[0])


def _n_components(fields: Fields) -> int:
    (n,) = whole_numbers(_CHANNELS, fields.get(_CHANNELS, "1"), 1)
    if not 1 <= n <= _MOST_CHANNELS:
        raise FileError(f"expected {_CHANNELS} of 1 or more; got {n}. Repair the header.")
    return n


def _header(path: Path) -> tuple[Fields, int]:
    """Return what the lines `name = value` say, and how many bytes they take."""
    start, fields, at = start_of(path), Fields(), 0
    while _DATA not in fields:
        end = start.find(b"\n", at)
        # The last line of a header that has its data elsewhere may lack its end.
        end = len(start) if end < 0 else end
        line = text_of(start[at:end], path.name)
        found = _LINE.fullmatch(line)
        if found is None or found[1] in fields:
            raise FileError(
                f"expected lines name = value, each name once, up to {_DATA} = ..., in {path.name}; got "
                f"{line[:40]!r}. Check that the file is complete."
            )
        fields[found[1]] = found[2]
        at = end + 1
    return fields, min(at, len(start))


def _stored(fields: Fields, name: str, n_header: int, n_axes: int, n_components: int) -> StoredNumbers:
    for field, expected in {"HeaderSize": "0", "BinaryData": "True"}.items():
        if fields.get(field, expected).lower() != expected.lower():
            raise FileError(f"expected {field} = {expected} in {name}; got {fields[field][:40]}. Convert it.")
    kind = fields.get("ElementType", "none")
    if kind not in _TYPES:
        raise FileError(
            f"expected ElementType in {name} as one of {', '.join(_TYPES)}; got {kind[:40]}. Convert it."
        )
    big = _flag(fields, "ElementByteOrderMSB") or _flag(fields, "BinaryDataByteOrderMSB")
    shape = whole_numbers("DimSize", fields.get("DimSize", ""), n_axes)[::-1]
    where = fields[_DATA]
    return StoredNumbers(
        shape=(*shape, n_components) if n_components > 1 else shape,
        dtype=np.dtype((">" if big else "<") + _TYPES[kind]),
        beside=None if where.upper() == "LOCAL" else where,
        n_header=n_header,
        packed=Deflate() if _flag(fields, "CompressedData") else None,
    )


def _flag(fields: Fields, name: str) -> bool:
    value = fields.get(name, "False")
    if value.lower() not in ("true", "false"):
        raise FileError(
            f"expected {name} as True or False in the header; got {value[:40]!r}. Repair the header."
        )
    return value.lower() == "true"


def _axes(fields: Fields, n_axes: int) -> NDArray[np.float64]:
    names = ("TransformMatrix", "Rotation", "Orientation")
    # The file has one axis after the other.
    return _numbers(fields, names, np.eye(n_axes), most=LONGEST_AXIS).T


def _numbers(
    fields: Fields, names: tuple[str, ...], default: NDArray[np.float64], *, most: float = FARTHEST_MM
) -> NDArray[np.float64]:
    """Return the first of the fields that is there, in the shape of the default."""
    name = next((name for name in names if name in fields), None)
    if name is None:
        return default
    return decimals(name, fields[name], default.size, most=most).reshape(default.shape)
