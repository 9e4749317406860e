"""Stacks as TIFF: a page per view, rows along v, columns along u."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from duotomo.io.libraries import tifffile
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import check_numbers
from duotomo.io.stacks.stack import Request, Stack, as_views

_PACKED_SLACK = 2**16


def read_tiff(request: Request) -> Stack:
    """Return the pages of a `.tif` or `.tiff` file."""
    library = tifffile()
    # tifffile, struct, zlib and the codecs each have errors of their own.
    with damage(), _complaints(), library.TiffFile(request.path) as file:
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
    compressed = series.keyframe.compression != 1
    stored = request.path.stat().st_size
    request.check_size(series.shape, series.dtype.itemsize, compressed=compressed)
    if compressed and stored > 2 * series.nbytes + 2**20:
        raise FileError(
            f"expected at most the {series.nbytes} bytes of its pixels in {name}; got a compressed file of "
            f"{stored}. Write it without compression."
        )
    packed = sum(sum(page.databytecounts) for page in series.pages)
    # Pages are unpacked whole, whatever comes out; packing makes nothing much longer.
    if compressed and packed > 2 * series.nbytes + _PACKED_SLACK:
        raise FileError(
            f"expected at most the {series.nbytes} bytes of its pixels in {name}; got {packed} of them "
            f"compressed. Write it without compression."
        )
    return np.asarray(series.asarray())
