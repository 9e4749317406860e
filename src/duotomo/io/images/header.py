"""Headers of images that are text: few lines, short values, numbers within measure, and data nearby."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images.image import ImageRequest, data_beside
from duotomo.io.paths import FileError
from duotomo.io.unpacking import Unpacker, unpacked

MOST_HEADER = 2**16
"""Bytes of a header, its end included."""

MOST_AXES = 4

FARTHEST_MM = 1e9
"""No voxel is as far away, or as large."""

LONGEST_AXIS = 1.001
"""Of the columns of a direction matrix, which are of unit length; writers round."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True)
class StoredNumbers:
    """Where a header has its numbers, and of which type.

    shape: the slowest axis first. beside: the name of the file with the data, None if they follow the header.
    n_header: bytes before them. packed: what unpacks them, if something must.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    beside: str | None
    n_header: int
    packed: Unpacker | None

    def read(self, request: ImageRequest) -> NDArray[Any]:
        """Return the array, once its size was compared with the file's and with memory."""
        path, offset, itemsize = request.path, self.n_header, self.dtype.itemsize
        if self.beside is not None:
            path, offset = data_beside(request, self.beside), 0
        stored, compressed = path.stat().st_size - offset, self.packed is not None
        request.check_size(self.shape, itemsize, stored_bytes=stored, compressed=compressed)
        n_bytes = math.prod(self.shape) * itemsize
        with path.open("rb") as file:
            file.seek(offset)
            if self.packed is not None:
                data: Any = unpacked(self.packed, file, n_bytes, request.path.name)
            else:
                data = file.read(n_bytes)
        return np.frombuffer(data, dtype=self.dtype).reshape(self.shape)


def start_of(path: Path) -> bytes:
    """Return the first bytes of a file, in which all of its header has to be."""
    with path.open("rb") as file:
        return file.read(MOST_HEADER)


def text_of(line: bytes, name: str) -> str:
    """Return a line without its end; raise unless it is text without control characters."""
    try:
        text = line.removesuffix(b"\r").decode("utf-8").replace("\t", " ")
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        raise FileError(
            f"expected lines of text in the header of {name}; got {line[:40]!r}. "
            f"Check that the file is complete."
        )
    return text


def whole_numbers(field: str, text: str, n: int) -> tuple[int, ...]:
    """Return so many whole numbers."""
    words = text.split()
    if len(words) != n or not all(map(_WHOLE.fullmatch, words)):
        raise _no_numbers(field, text, n, "whole")
    return tuple(map(int, words))


def decimals(field: str, text: str, n: int, *, most: float = FARTHEST_MM) -> NDArray[np.float64]:
    """Return so many numbers, none larger than `most`."""
    words = text.split()
    values = np.array([float(word) if _DECIMAL.fullmatch(word) else math.nan for word in words])
    if values.shape != (n,) or not np.isfinite(values).all():
        raise _no_numbers(field, text, n, "finite")
    if (np.abs(values) > most).any():
        raise FileError(
            f"expected numbers up to {most:g} in {field} of the header; got {text[:60]!r}. Repair the header."
        )
    return values


def spacings(field: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distances of voxels; raise unless they are above zero."""
    if not (values > 0).all():
        raise FileError(f"expected {field} of the header above 0; got {values.tolist()}. Repair the header.")
    return values


def _no_numbers(field: str, text: str, n: int, kind: str) -> FileError:
    return FileError(
        f"expected {n} {kind} number{'s' if n > 1 else ''} in {field} of the header; got {text[:60]!r}. "
        f"Repair the header."
    )
