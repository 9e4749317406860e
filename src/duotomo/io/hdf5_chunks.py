"""Packed chunks of HDF5, looked at before HDF5 unpacks them: it takes whatever comes out."""

from __future__ import annotations

import io
import math
from typing import Any

from duotomo.io.paths import FileError
from duotomo.io.unpacking import Deflate, lzf_length, parts

_DEFLATE, _SHUFFLE, _FLETCHER, _LZF = 1, 2, 3, 32000
_PACKING = (_DEFLATE, _LZF)
_CHECKSUM = 4
_SLACK = 2**16


def check_chunks(data: Any, name: str) -> None:
    """Raise unless each chunk of a dataset unpacks to as many bytes as its shape says, by a known filter."""
    properties = data.id.get_create_plist()
    filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
    codes = [code for code, *_ in filters]
    if not codes:
        return
    n_bytes = math.prod(data.chunks) * data.dtype.itemsize
    odd = [str(code) for code in codes if code not in (*_PACKING, _SHUFFLE, _FLETCHER)]
    sizes = [size for code, _, values, _ in filters if code == _LZF for size in values[2:3]]
    if odd or sum(code in _PACKING for code in codes) > 1 or any(size > n_bytes for size in sizes):
        raise FileError(
            f"expected {name} packed once, by gzip or LZF, or not at all; got the filters "
            f"{', '.join(map(str, codes[:8]))}. Write it anew."
        )
    stored: list[Any] = []
    data.id.chunk_iter(stored.append)
    for chunk in stored:
        _check_chunk(data, name, chunk, [_skipped(code, n, chunk) for n, code in enumerate(codes)], n_bytes)


def _skipped(code: int, number: int, chunk: Any) -> int:
    """Return the code of a filter, 0 if this chunk says that it was not applied."""
    return 0 if chunk.filter_mask >> number & 1 else code


def _check_chunk(data: Any, name: str, chunk: Any, codes: list[int], n_bytes: int) -> None:
    what = f"a chunk of {name}"
    packing = next((number for number, code in enumerate(codes) if code in _PACKING), len(codes))
    # Checksums before the packing are packed too, those after it follow.
    n_plain = n_bytes + _CHECKSUM * codes[:packing].count(_FLETCHER)
    n_after = _CHECKSUM * codes[packing:].count(_FLETCHER)
    if chunk.size > 2 * n_plain + _SLACK:
        raise FileError(
            f"expected at most {n_plain} bytes in {what}; got {chunk.size} packed. Write it anew."
        )
    found = chunk.size - n_after
    if packing < len(codes):
        raw = data.id.read_direct_chunk(chunk.chunk_offset)[1]
        packed = raw[: len(raw) - n_after]
        if codes[packing] == _LZF:
            found = lzf_length(packed, n_plain)
        else:
            found = sum(map(len, parts(Deflate(), io.BytesIO(packed), n_plain, what)))
    if found != n_plain:
        raise FileError(
            f"expected {n_plain} bytes in {what}; got {'more' if found > n_plain else found}. Write it anew."
        )
