"""How many elements a DICOM file has: pydicom would read millions of empty ones for minutes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from duotomo.io.paths import FileError
from duotomo.io.unpacking import Bytes

MOST_ELEMENTS = 300_000
"""Of a file, those in its sequences among them; a thousand frames have 60,000."""

_LONG = frozenset(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())
"""Types with a length of 4 bytes, 2 bytes later."""

_UNDEFINED = 0xFFFFFFFF
_META, _ITEMS, _PIXELS, _END = 0x0002, 0xFFFE, (0x7FE0, 0x0010), (0xFFFE, 0xE0DD)


def check_elements(file: Bytes, skip: Callable[[int], object], *, explicit: bool) -> None:
    """Raise if there are more elements than any image has, in a little-endian file from here on.

    skip: goes on by so many bytes. explicit: whether elements say their type.
    """
    n_elements, in_pixels = 0, False
    while len(head := file.read(8)) == 8:
        n_elements += 1
        if n_elements > MOST_ELEMENTS:
            raise FileError(
                f"expected at most {MOST_ELEMENTS} elements; got more. Check where the file comes from."
            )
        group, number, kind, length = struct.unpack("<2H2sH", head)
        tag, sequence = (group, number), False
        # The file's own group has types in every file; where none stands, pydicom too takes a length.
        if group == _ITEMS or not (explicit or group == _META) or not kind.isalpha():
            (length,) = struct.unpack("<I", head[4:])
        elif kind in _LONG:
            (length,) = struct.unpack("<I", file.read(4).ljust(4, b"\0"))
            sequence = kind == b"SQ"
        in_pixels = (in_pixels or (tag == _PIXELS and length == _UNDEFINED)) and tag != _END
        # Sequences and their items are gone into; fragments of frames are not.
        if length != _UNDEFINED and not sequence and (group != _ITEMS or in_pixels):
            skip(length)
