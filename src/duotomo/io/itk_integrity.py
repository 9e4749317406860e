"""Whether an ITK transform file is whole: ITK reads cut files without complaint, as another transform."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from duotomo.io.file_error import FileError, reason
from duotomo.io.libraries import h5py
from duotomo.io.stacks.hdf5 import check_stored

_MATLAB_HEADER = struct.Struct("<5i")
# Bytes of a number, by the type code of MATLAB's level-4 format.
_MATLAB_SIZES = {0: 8, 10: 4}


def check_whole(path: Path) -> None:
    """Raise unless a transform file is complete and holds one transform.

    Text (`.tfm`, `.txt`) must end with its last line's end: a number that was cut off still is a number. Of a
    composite transform in text, parts may be missing at the end without a trace if it was cut exactly there.
    """
    if path.suffix == ".h5":
        _check_hdf5(path)
    elif path.suffix == ".mat":
        _check_matlab(path)
    else:
        _check_text(path)


def _check_text(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", errors="replace")
    if not text.endswith("\n"):
        raise _damaged("its last line to end", "no end of line", "If it is complete, add one.")
    names: list[str] = []
    fields: list[set[str]] = []
    announced = 0
    for line in map(str.strip, text.splitlines()):
        announced += line.startswith("#Transform ")
        if not line or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if name == "Transform":
            names.append(value.strip())
            fields.append(set())
        elif colon and fields and name in ("Parameters", "FixedParameters"):
            fields[-1].add(name)
            _check_numbers(name, value)
        else:
            raise _damaged("lines of Transform:, Parameters: or FixedParameters:", repr(line[:40]))
    if not names or announced > len(names):
        raise _damaged("a line that starts with Transform:", "the end of the file")
    composite = names[0].startswith("CompositeTransform")
    for name, has in zip(names[composite:], fields[composite:], strict=True):
        for field in ("Parameters", "FixedParameters"):
            if field not in has:
                raise _damaged(f"a line that starts with {field}: for {name}", "none")
    if not composite:
        _check_one(len(names))


def _check_numbers(name: str, text: str) -> None:
    for word in text.split():
        try:
            finite = math.isfinite(float(word))
        except ValueError:
            finite = False
        if not finite:
            raise _damaged(f"finite numbers after {name}:", repr(word[:40]))


def _check_matlab(path: Path) -> None:
    """Walk through the arrays: each says how long it is."""
    data, at, n_arrays = path.read_bytes(), 0, 0
    while at < len(data):
        header = data[at : at + _MATLAB_HEADER.size]
        if len(header) < _MATLAB_HEADER.size:
            raise _damaged("20 bytes before every array", f"{len(header)}")
        code, n_rows, n_columns, _, n_name = _MATLAB_HEADER.unpack(header)
        if code not in _MATLAB_SIZES or min(n_rows, n_columns, n_name) < 0:
            raise _damaged("arrays in MATLAB's level-4 format, little-endian", f"one of type {code}")
        at += _MATLAB_HEADER.size + n_name + n_rows * n_columns * _MATLAB_SIZES[code]
        n_arrays += 1
    if at != len(data):
        raise _damaged(f"{at} bytes, as its arrays say", f"{len(data)}")
    # One for the parameters of a transform, one for its fixed parameters.
    _check_one(n_arrays // 2)


def _check_hdf5(path: Path) -> None:
    """HDF5 checks its own length; but SimpleITK would take the first transform of many, of any size."""
    _check_sizes(path)
    data = path.read_bytes()
    if b"CompositeTransform_" not in data:
        # Each transform has a dataset of this name.
        _check_one(data.count(b"TransformType"))


def _check_sizes(path: Path) -> None:
    library = h5py()

    def look(name: str, item: object) -> None:
        if isinstance(item, library.Dataset) and item.size and item.dtype.kind in "iuf":
            check_stored(item, name)

    try:
        with library.File(path, "r") as file:
            file.visititems(look)
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise _damaged("HDF5 that can be read", reason(error)) from error


def _check_one(n: int) -> None:
    if n > 1:
        raise FileError(
            f"expected one transform, or a CompositeTransform of several; got {n} transforms. "
            f"Write them as a CompositeTransform, which says in which order they apply."
        )


def _damaged(expected: str, got: str, remedy: str = "") -> FileError:
    return FileError(f"expected {expected}; got {got}. Damaged, or not ITK's? {remedy}".strip())
