"""NRRD images, whose header has the fastest axis first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images.header import (
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
from duotomo.io.unpacking import gzip_stream

Floats = NDArray[np.float64]

_MAGIC = re.compile(rb"NRRD000[1-6]\r?\n")
_END = re.compile(rb"\n\r?\n")
_FIELD = re.compile(r"([A-Za-z][A-Za-z ]{0,30}): *(.*?) *")
_VECTOR = re.compile(r"none|\([^()]{1,200}\)", re.IGNORECASE)

_TYPES = {
    name: code
    for code, names in {
        "i1": ("signed char", "int8", "int8_t"),
        "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
        "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
        "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
        "i4": ("int", "signed int", "int32", "int32_t"),
        "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
        "i8": ("longlong", "long long", "long long int", "signed long long", "int64", "int64_t"),
        "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
        "f4": ("float",),
        "f8": ("double",),
    }.items()
    for name in names
}
_SPACES = {
    "leftposteriorsuperior": (1.0, 1.0, 1.0), "lps": (1.0, 1.0, 1.0),
    "rightanteriorsuperior": (-1.0, -1.0, 1.0), "ras": (-1.0, -1.0, 1.0),
    "leftanteriorsuperior": (1.0, -1.0, 1.0), "las": (1.0, -1.0, 1.0),
}  # fmt: skip
"""The patient's axes, and their signs in LPS."""

_ALONG = ("domain", "space", "time", "none", "???")
_COMPONENTS = (
    *("vector", "list", "point", "covariant-vector", "normal", "scalar", "stub", "2-vector", "3-vector"),
    *("4-vector", "3-gradient", "3-normal", "3-color", "rgb-color", "4-color", "rgba-color", "quaternion"),
)
"""Kinds of axes along which an image lies, and of axes that hold the numbers of one voxel."""

_IGNORED = (
    *("content", "number", "blocksize", "centers", "centerings", "labels", "units", "spaceunits", "oldmin"),
    *("thicknesses", "sampleunits", "min", "max", "oldmax", "measurementframe"),
)
_READ = (
    *("type", "dimension", "sizes", "endian", "encoding", "space", "spacedimension", "spacedirections"),
    *("spaceorigin", "spacings", "kinds", "datafile", "lineskip", "byteskip"),
)


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What the lines of a header say, by the names of the fields, and how many bytes they take."""

    name: str
    fields: dict[str, str]
    n_bytes: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of all axes, the fastest first."""
        (n_axes,) = whole_numbers("dimension", self.fields.get("dimension", ""), 1)
        if not 2 <= n_axes <= MOST_AXES + 1:
            raise FileError(f"expected dimension: 3 in {self.name}; got {n_axes}. Write one image.")
        return whole_numbers("sizes", self.fields.get("sizes", ""), n_axes)

    @property
    def component_axis(self) -> int | None:
        """The axis with the numbers of one voxel, None if there is none."""
        n_axes = len(self.sizes)
        kinds = self.fields.get("kinds", " ".join(["domain"] * n_axes)).lower().split()
        known = [kind in _ALONG or kind in _COMPONENTS for kind in kinds]
        if len(kinds) != n_axes or not all(known):
            raise FileError(
                f"expected {self.name} of whole or floating-point numbers; got the type "
                f"{self.fields.get('kinds', '')[:60]!r} in kinds. Convert it."
            )
        found = [axis for axis, kind in enumerate(kinds) if kind in _COMPONENTS]
        if len(found) > 1 or not all(axis in (0, n_axes - 1) for axis in found):
            raise FileError(
                f"expected the numbers of a voxel along the first or the last axis of {self.name}; got kinds "
                f"{' '.join(kinds)}. Convert it."
            )
        return found[0] if found else None


def read_nrrd(request: ImageRequest) -> StoredImage:
    """Return the array of a `.nrrd` file, and where it lies."""
    header = _header(request.path)
    along = [axis for axis in range(len(header.sizes)) if axis != header.component_axis]
    if not 2 <= len(along) <= MOST_AXES:
        raise FileError(f"expected an image of 3 axes in {header.name}; got {len(along)}. Write one image.")
    first_mm, axes, spacing_mm = _place(header, along)
    array = _stored(header).read(request)
    if header.component_axis is not None:
        array = np.moveaxis(array, len(along) - header.component_axis, -1)
    n_components = _n_components(header)
    return StoredImage(
        array=array if n_components > 1 else array.reshape(array.shape[: len(along)]),
        n_components=n_components,
        format="NRRD image",
        spacing_mm=spacing_mm,
        first_mm=first_mm,
        axes=axes,
    )


def nrrd_components(path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    return _n_components(_header(path))


def _n_components(header: _Header) -> int:
    return 1 if header.component_axis is None else header.sizes[header.component_axis]


def _header(path: Path) -> _Header:
    """Return the fields of a header. Names may have spaces and capitals as they like; each stands once."""
    start, name = start_of(path), path.name
    magic, end = _MAGIC.match(start), _END.search(start)
    if magic is None:
        raise FileError(
            f"expected NRRD at the start of {name}; got other bytes. Check that the file is complete."
        )
    # A header that has its data elsewhere may lack the empty line.
    lines = start[magic.end() : len(start) if end is None else end.start()].rstrip(b"\r\n").split(b"\n")
    fields: dict[str, str] = {}
    for line in (text_of(line, name) for line in lines):
        if line.startswith("#") or ":=" in line:
            continue
        found = _FIELD.fullmatch(line)
        field = found[1].replace(" ", "").lower() if found else ""
        if found is None or field in fields or field not in (*_READ, *_IGNORED):
            raise FileError(
                f"expected known lines field: value, each once, in the header of {name}; got {line[:40]!r}. "
                f"Convert the image. Check that the file is complete."
            )
        fields[field] = found[2]
    if end is None and "datafile" not in fields:
        raise FileError(
            f"expected an empty line after the header of {name}; got none. Check that the file is complete."
        )
    return _Header(name=name, fields=fields, n_bytes=len(start) if end is None else end.end())


def _stored(header: _Header) -> StoredNumbers:
    fields, name = header.fields, header.name
    code = _TYPES.get(fields.get("type", "none").lower())
    if code is None:
        raise FileError(
            f"expected {name} of whole or floating-point numbers; got the type "
            f"{fields.get('type', 'none')[:40]!r}. Convert it."
        )
    encoding, endian = fields.get("encoding", "none").lower(), fields.get("endian", "").lower()
    if encoding not in ("raw", "gzip", "gz"):
        raise FileError(f"expected encoding: raw or gzip in {name}; got {encoding[:40]!r}. Convert it.")
    if endian not in ("little", "big") and not (code[1] == "1" and not endian):
        raise FileError(f"expected endian: little or big in {name}; got {endian[:40]!r}. Convert it.")
    for skip in ("lineskip", "byteskip"):
        if fields.get(skip, "0") != "0":
            raise FileError(f"expected {skip}: 0 in {name}; got {fields[skip][:40]!r}. Convert it.")
    return StoredNumbers(
        shape=header.sizes[::-1],
        dtype=np.dtype((">" if endian == "big" else "<") + code),
        beside=fields.get("datafile"),
        n_header=header.n_bytes,
        packed=None if encoding == "raw" else gzip_stream(),
    )


def _place(header: _Header, along: list[int]) -> tuple[Floats, Floats, Floats]:
    """Return the first voxel's place, a column for each axis, and the spacings, as ITK has them: in LPS."""
    n, n_axes, fields = len(along), len(header.sizes), header.fields
    signs = np.ones(n)
    if "space" in fields:
        signs = np.array((*_signs(fields["space"], header.name), 1.0))[:n]
    steps = np.eye(n)
    if "spacedirections" in fields:
        words = _VECTOR.findall(fields["spacedirections"])
        if len(words) != n_axes or _VECTOR.sub("", fields["spacedirections"]).strip():
            raise FileError(
                f"expected {n_axes} vectors in space directions of {header.name}; got "
                f"{fields['spacedirections'][:60]!r}. Repair the header."
            )
        for column, axis in enumerate(along):
            if words[axis].lower() != "none":
                steps[:, column] = signs * _vector("space directions", words[axis], n)
    elif "spacings" in fields:
        words = fields["spacings"].split()
        if len(words) == n_axes:
            words = [words[axis] for axis in along]
        steps = np.diag(decimals("spacings", " ".join(words), n))
    spacing_mm = spacings("space directions or spacings", np.linalg.norm(steps, axis=0))
    first_mm = np.zeros(n)
    if "spaceorigin" in fields:
        first_mm = signs * _vector("space origin", fields["spaceorigin"], n)
    return first_mm, steps / spacing_mm, spacing_mm


def _signs(space: str, name: str) -> tuple[float, ...]:
    signs = _SPACES.get(space.lower().replace("-", "").replace(" ", ""))
    if signs is None:
        raise FileError(
            f"expected space: left-posterior-superior in {name}, or another of the patient's; got "
            f"{space[:40]!r}. Convert it."
        )
    return signs


def _vector(field: str, word: str, n: int) -> Floats:
    """Return (a,b,c), continued by zeros for axes beyond those of space."""
    parts = word.strip("()").split(",")
    if len(parts) > n or not (word.startswith("(") and word.endswith(")")):
        parts = []
    values = decimals(field, " ".join(parts), len(parts) or n)
    return np.concatenate([values, np.zeros(n - len(values))])
