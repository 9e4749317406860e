"""Sizes and types that a header claims, refused before memory is taken for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duotomo.io.free_memory import free_bytes
from duotomo.io.paths import FileError

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 64 * 2**30
"""The most that a file may ask for; the memory that is free is the other limit."""

DENSEST = 1100
"""Deflate, which all of the formats use, makes at most this of a byte."""

_SLACK = 2**20


@dataclass(frozen=True, kw_only=True)
class FileRequest:
    """A file that is to be read, and the most memory that it may ask for."""

    path: Path
    max_bytes: int

    def check_size(
        self,
        shape: Sequence[int],
        itemsize: int,
        *,
        compressed: bool,
        what: str | None = None,
        stored_bytes: int | None = None,
    ) -> None:
        """Raise unless an array can be in the file. what: its name. stored_bytes: all, unless given."""
        stored = self.path.stat().st_size if stored_bytes is None else stored_bytes
        name, most = what or self.path.name, self.max_bytes
        check_size(name, shape, itemsize, stored_bytes=stored, compressed=compressed, max_bytes=most)


def check_size(
    what: str,
    shape: Sequence[int],
    itemsize: int,
    *,
    stored_bytes: int,
    compressed: bool,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Raise unless an array of this shape fits into memory and can be in a file that stores so many bytes.

    itemsize: of a number as it is stored; in memory each takes at least 4 bytes.

    >>> check_size("scan.npy", (9, 20, 30), 2, stored_bytes=10_800, compressed=False)
    >>> check_size("scan.npy", (9, 20, 30), 2, stored_bytes=10_799, compressed=False)
    Traceback (most recent call last):
    duotomo.io.paths.FileError: expected 10800 bytes of numbers, as the header of scan.npy says: (9, 20, 30) of 2 bytes; got 10799. Check that the file is complete.
    """  # noqa: E501
    sides = [int(side) for side in shape]
    if not sides or min(sides) < 1:
        raise FileError(
            f"expected an array with something in it in {what}; got the shape {tuple(sides)}. "
            f"Choose another file."
        )
    n_values = math.prod(sides)
    check_bytes(what, n_values * max(itemsize, 4), max_bytes=max_bytes)
    claimed = n_values * itemsize
    at_most = stored_bytes * DENSEST + _SLACK if compressed else stored_bytes
    if claimed > at_most:
        came = f"{stored_bytes} compressed, which cannot hold them" if compressed else str(stored_bytes)
        raise FileError(
            f"expected {claimed} bytes of numbers, as the header of {what} says: {tuple(sides)} of "
            f"{itemsize} bytes; got {came}. Check that the file is complete."
        )


def check_bytes(what: str, n_bytes: int, *, max_bytes: int = MAX_BYTES) -> None:
    """Raise if so many bytes are over the limit, or more than the memory that is free.

    >>> check_bytes("scan.npy", 1000)
    """
    limit = min(max_bytes, free_bytes())
    if n_bytes > limit:
        kind = "that are allowed" if limit == max_bytes else "of memory that are free"
        raise FileError(
            f"expected {what} to need at most the {in_words(limit)} {kind}; got a header that asks for "
            f"{in_words(n_bytes)}. Check the file, bin the views, or use a machine with more memory."
        )


def in_words(n_bytes: int) -> str:
    """Return a number of bytes as a person reads it.

    >>> in_words(1500), in_words(64 * 2**30)
    ('1.5 kB', '68.7 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def check_numbers(dtype: np.dtype[Any], name: str) -> None:
    """Raise unless an array is of whole or floating-point numbers."""
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise FileError(
            f"expected {name} of whole or floating-point numbers of at most 64 bits; got {dtype}. Convert it."
        )
