"""Packed streams that are damaged, cut, go on, or unpack to something else, with the checksum that fits."""

from __future__ import annotations

import gzip
import zlib
from random import Random

MANY = 2**23
"""Bytes that a stream goes on for, where it does."""


def stream(packed: bytes, random: Random) -> bytes:
    """Return a stream of zlib or gzip after a change."""
    what = random.randrange(6)
    if what == 0:
        return packed[: random.randrange(len(packed) + 1)]
    if what == 1:
        return packed + random.choice((b"\0", packed, random.randbytes(40)))
    if what == 2:
        return flipped(packed, random)
    is_gzip = packed[:2] == b"\x1f\x8b"
    plain = gzip.decompress(packed) if is_gzip else zlib.decompress(packed)
    if what == 3:
        plain += bytes(random.choice((1, 100, MANY)))
    elif what == 4:
        plain = plain[: random.randrange(len(plain))]
    else:
        plain = b""
    return gzip.compress(plain) if is_gzip else zlib.compress(plain)


def flipped(data: bytes, random: Random, *, most: int = 6) -> bytes:
    """Return bytes of which a few are others."""
    values = bytearray(data)
    for _ in range(random.randint(1, most)):
        if values:
            values[random.randrange(len(values))] = random.choice((0, 255, 127, 128, random.randrange(256)))
    return bytes(values)
