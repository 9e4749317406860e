"""Stacks as TIFF: a page per view, rows along v, columns along u."""

from __future__ import annotations

import io
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from duotomo.io.libraries import tifffile
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import check_numbers
from duotomo.io.stacks.stack import Request, Stack, as_views
from duotomo.io.unpacking import Deflate, Unpacker, lzma_stream, packbits_length, parts

_PACKED_SLACK = 2**16
_LARGE_SEGMENT = 2**24
_PLAIN, _PACKBITS = 1, 32773
_STREAMS: Mapping[int, Callable[[], Unpacker]] = {8: Deflate, 32946: Deflate, 34925: lzma_stream}

_FLAVOURS = frozenset(
    (
        *("avs", "bif", "eer", "fluoview", "lsm", "mdgel", "mmstack", "ndpi", "ndtiff", "nih", "ome"),
        *("philips", "qpi", "scanimage", "scn", "sis", "stk", "svs"),
    )
)
"""What microscopes write. Some of it names other files, which tifffile would read. Pages are pages."""


def read_tiff(request: Request) -> Stack:
    """Return the pages of a `.tif` or `.tiff` file."""
    library = tifffile()
    # tifffile, struct, zlib and the codecs each have errors of their own.
    flags = {f"is_{one}": False for one in library.TIFF.FILE_FLAGS & _FLAVOURS}
    with damage(), _complaints(), library.TiffFile(request.path, **flags) as file:
        array = _pages(file, request)
    return Stack(array=as_views(array), format="TIFF stack")


@contextmanager
def _complaints() -> Iterator[None]:
    """Raise for what tifffile only logs: it makes do with whatever pages it can find."""
    heard: list[str] = []
    logger, handler = logging.getLogger("tifffile"), logging.Handler(logging.ERROR)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
    if heard:
        raise FileError(f"expected pages without faults; got: {heard[0]}. Check that the file is complete.")


def _pages(file: Any, request: Request) -> Any:
    name, n_series = request.path.name, len(file.series)
    if n_series != 1:
        raise FileError(
            f"expected pages of one shape and type in {name}; got {n_series} kinds of pages. "
            f"Write the views, and nothing else, to one file."
        )
    (series,) = file.series
    if series.keyframe.samplesperpixel != 1:
        raise FileError(
            f"expected one number per pixel in {name}; got {series.keyframe.samplesperpixel}. "
            f"Write grey values, not colours."
        )
    check_numbers(series.dtype, name)
    compressed = series.keyframe.compression != _PLAIN
    request.check_size(series.shape, series.dtype.itemsize, compressed=compressed)
    if compressed:
        _check_packed(file, series, request)
    return np.asarray(series.asarray())


def _check_packed(file: Any, series: Any, request: Request) -> None:
    """Raise unless what is packed unpacks to its part of a page: tifffile would unpack anything."""
    name, page, stored = request.path.name, series.keyframe, request.path.stat().st_size
    if page.compression not in (*_STREAMS, _PACKBITS):
        raise FileError(
            f"expected {name} without compression, or by deflate, LZMA or PackBits; got that of number "
            f"{int(page.compression)}. Write it without compression."
        )
    if stored > 2 * series.nbytes + 2**20:
        raise FileError(
            f"expected at most the {series.nbytes} bytes of its pixels in {name}; got a compressed file of "
            f"{stored}. Write it without compression."
        )
    sides = (1, min(page.rowsperstrip, page.imagelength), page.imagewidth)
    if page.is_tiled:
        sides = (page.tiledepth, page.tilelength, page.tilewidth)
    most = math.prod(sides) * series.dtype.itemsize
    if most > max(series.nbytes, _LARGE_SEGMENT):
        raise FileError(
            f"expected tiles of {name} no larger than its pixels, {series.nbytes} bytes; got {most}. "
            f"Write it without compression."
        )
    segments = [
        pair for one in series.pages for pair in zip(one.dataoffsets, one.databytecounts, strict=True)
    ]
    packed = sum(count for _, count in segments)
    # Packing makes nothing much longer.
    if packed > 2 * series.nbytes + _PACKED_SLACK:
        raise FileError(
            f"expected at most the {series.nbytes} bytes of its pixels in {name}; got {packed} of them "
            f"compressed. Write it without compression."
        )
    for offset, count in segments:
        file.filehandle.seek(offset)
        _check_segment(page.compression, file.filehandle.read(count), most, name)


def _check_segment(compression: int, packed: bytes, most: int, name: str) -> None:
    what = f"a part of a page of {name}"
    if compression in _STREAMS and packed:
        deque(parts(_STREAMS[compression](), io.BytesIO(packed), most, what), maxlen=0)
    elif packbits_length(packed, most) > most:
        raise FileError(f"expected at most {most} bytes packed in {what}; got more. Write it anew.")
