"""The transforms in a file of ITK's formats, text, HDF5 or MATLAB's, as lists of numbers with a name.

The file has to be whole: a number that was cut off still is a number.
"""

from __future__ import annotations

import re
import struct
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.hdf5 import group_at, has, numbered, numbers, opened, stored_text
from duotomo.io.paths import FileError
from duotomo.io.size_check import check_bytes

Floats = NDArray[np.float64]

_COMPOSITE = "CompositeTransform"
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9]{0,60})_(?:double|float)_([0-9])_([0-9])(?:_([0-9]))?")
_DIGITS = re.compile(r"[0-9eE+\-. \t\r]*")
_MOST_TRANSFORMS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class ItkTransform:
    """One transform of space. kind: ITK's class. order: of a spline, None if its name does not say it."""

    kind: str
    order: int | None
    params: Floats
    fixed: Floats


def read_itk_transforms(path: Path) -> list[ItkTransform]:
    """Return the parts of a transform, in the order of the file; more than one are of a composite.

    Of a composite transform in text, parts may be missing at the end without a trace if it was cut exactly
    there.
    """
    check_bytes(path.name, 4 * path.stat().st_size)
    found = {".h5": _from_hdf5, ".mat": _from_matlab}.get(path.suffix, _from_text)(path)
    if not found:
        raise damaged("a transform", "none")
    composite = found[0].name.startswith(_COMPOSITE)
    parts = [raw.transform() for raw in found[composite:]]
    if not parts:
        raise FileError("expected a composite transform of one part or more; got none. Damaged?")
    if len(parts) > 1 and not composite:
        raise FileError(
            f"expected one transform, or a CompositeTransform of several; got {len(parts)} transforms. "
            f"Write them as a CompositeTransform, which says in which order they apply."
        )
    return parts


def damaged(expected: str, got: str, remedy: str = "") -> FileError:
    """Return the error for a file that does not hold what it should."""
    return FileError(f"expected {expected}; got {got}. Damaged, or not ITK's? {remedy}".strip())


@dataclass(kw_only=True, eq=False)
class _Raw:
    """What a file says of one transform. values: by the names `Parameters` and `FixedParameters`."""

    name: str
    values: dict[str, Floats] = field(default_factory=dict)

    def transform(self) -> ItkTransform:
        found = _NAME.fullmatch(self.name)
        if found is None or found[1] == _COMPOSITE:
            raise damaged("the name of a transform, such as AffineTransform_double_3_3", repr(self.name[:60]))
        kind, *dimensions, order = found.groups()
        if dimensions != ["3", "3"]:
            raise FileError(
                f"expected a transform of 3-D space; got one of {dimensions[0]}-D. Choose another file."
            )
        for name in _FIELDS:
            if name not in self.values:
                raise damaged(f"a line that starts with {name}: for {self.name}", "none")
        params, fixed = (self.values[name] for name in _FIELDS)
        return ItkTransform(
            kind=kind, order=None if order is None else int(order), params=params, fixed=fixed
        )


_FIELDS = ("Parameters", "FixedParameters")


def _from_text(path: Path) -> list[_Raw]:
    text = path.read_bytes().decode("utf-8", errors="replace")
    if not text.endswith("\n"):
        raise damaged("its last line to end", "no end of line", "If it is complete, add one.")
    found: list[_Raw] = []
    announced = 0
    for line in map(str.strip, text.split("\n")):
        announced += line.startswith("#Transform ")
        if not line or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if name == "Transform" and len(found) < _MOST_TRANSFORMS:
            found.append(_Raw(name=value.strip()))
        elif colon and found and name in _FIELDS and name not in found[-1].values:
            found[-1].values[name] = _decimals(name, value)
        else:
            raise damaged("lines of Transform:, Parameters: or FixedParameters:", repr(line[:40]))
    if not found or announced > len(found):
        raise damaged("a line that starts with Transform:", "the end of the file")
    return found


def _decimals(name: str, text: str) -> Floats:
    if not text.strip():
        return np.zeros(0)
    try:
        with warnings.catch_warnings():
            # NumPy stops at what is no number, and only warns.
            warnings.simplefilter("error")
            values = np.fromstring(text if _DIGITS.fullmatch(text) else "none", sep=" ")
    except (ValueError, DeprecationWarning):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise damaged(f"finite numbers after {name}:", repr(next(filter(_is_odd, text.split()), text)[:40]))
    return values


def _is_odd(word: str) -> bool:
    try:
        return not (_DIGITS.fullmatch(word) and np.isfinite(float(word)))
    except ValueError:
        return True


def _from_hdf5(path: Path) -> list[_Raw]:
    with opened(path) as file:
        groups = numbered(group_at(file, "TransformGroup"))
        if len(groups) > _MOST_TRANSFORMS:
            raise damaged(f"at most {_MOST_TRANSFORMS} transforms", str(len(groups)))
        return [_of_group(group) for group in groups]


def _of_group(group: Any) -> _Raw:
    raw = _Raw(name=stored_text(group, "TransformType"))
    for name in _FIELDS:
        # Before version 5, ITK misspelt them.
        spelt = next((one for one in (f"Transform{name}", f"Tranform{name}") if has(group, one)), None)
        if spelt is not None:
            raw.values[name] = np.ravel(numbers(group, spelt)).astype(np.float64)
    return raw


_MATLAB_HEADER = struct.Struct("<5i")
# Types of numbers, by the type code of MATLAB's level-4 format.
_MATLAB_TYPES = {0: "<f8", 10: "<f4"}
_MOST_NAME = 200


def _from_matlab(path: Path) -> list[_Raw]:
    """Walk through the arrays, in turn parameters by their kind and fixed ones; each says its length."""
    data, at = path.read_bytes(), 0
    arrays: list[tuple[str, Floats]] = []
    while at < len(data):
        header = data[at : at + _MATLAB_HEADER.size]
        if len(header) < _MATLAB_HEADER.size:
            raise damaged("20 bytes before every array", f"{len(header)}")
        code, n_rows, n_columns, is_complex, n_name = _MATLAB_HEADER.unpack(header)
        if (
            code not in _MATLAB_TYPES
            or is_complex
            or min(n_rows, n_columns) < 0
            or not 0 < n_name <= _MOST_NAME
        ):
            raise damaged("arrays in MATLAB's level-4 format, little-endian", f"one of type {code}")
        dtype, start = np.dtype(_MATLAB_TYPES[code]), at + _MATLAB_HEADER.size + n_name
        name = data[start - n_name : start].rstrip(b"\0").decode("ascii", errors="replace")
        at = start + n_rows * n_columns * dtype.itemsize
        if at > len(data) or len(arrays) == 2 * _MOST_TRANSFORMS:
            raise damaged(f"{at} bytes, as its arrays say", f"{len(data)}")
        arrays.append((name, np.frombuffer(data[start:at], dtype).astype(np.float64)))
    kinds, fixed = arrays[::2], arrays[1::2]
    if len(kinds) != len(fixed) or any(name != "fixed" for name, _ in fixed):
        raise damaged(
            "parameters and fixed ones in turn", ", ".join(name for name, _ in arrays)[:60] or "nothing"
        )
    return [
        _Raw(name=name, values=dict(zip(_FIELDS, (params, own), strict=True)))
        for (name, params), (_, own) in zip(kinds, fixed, strict=True)
    ]
