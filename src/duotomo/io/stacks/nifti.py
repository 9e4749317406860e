"""Stacks as NIfTI images: (u, v, view)."""

from __future__ import annotations

import gzip
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from duotomo.io.file_error import FileError
from duotomo.io.libraries import nibabel
from duotomo.io.size_check import check_size
from duotomo.io.stacks.stack import PixelPlace, Request, Stack, as_views, check_numbers, damaged

_HEADERS = {348: "Nifti1Image", 540: "Nifti2Image"}
_MOST_EXTENSIONS = 2**24
_CHUNK = 2**20


class _Bytes(Protocol):
    """A file, packed or not."""

    def read(self, size: int, /) -> bytes: ...


def read_nifti(request: Request) -> Stack:
    """Return the array of a `.nii` or `.nii.gz` file, with the scale that its header gives.

    What is unpacked is what the header promises, and no more.
    """
    compressed = request.path.name.endswith(".gz")
    try:
        with gzip.open(request.path) if compressed else request.path.open("rb") as file:
            header = _header(file, request)
            values = _values(file, header, request, compressed=compressed)
            pixel_mm = np.array(header.get_zooms()[:2], dtype=np.float64)
    except FileError:
        raise
    except Exception as error:  # zlib, struct and nibabel each have their own
        raise damaged(error) from error
    if values.ndim < 2:
        raise FileError(f"expected views of pixels; got an image of shape {values.shape}. Choose another.")
    place = PixelPlace(spacing_mm=pixel_mm, first_mm=np.zeros(2), axes=np.eye(2))
    return Stack(array=as_views(values.T), format="NIfTI image", place=place)


def _header(file: _Bytes, request: Request) -> Any:
    start = file.read(348)
    lengths = [int.from_bytes(start[:4], order) for order in ("little", "big")]
    kind = next((_HEADERS[length] for length in lengths if length in _HEADERS), None)
    if kind is None or len(start) < 348:
        raise FileError(
            f"expected a NIfTI header at the start of {request.path.name}; got other bytes. Choose an image."
        )
    header_class = getattr(nibabel(), kind).header_class
    # nibabel would mend a header and log that; what matters is looked at below.
    header = header_class(start + file.read(header_class.sizeof_hdr - 348), check=False)
    magic = bytes(header["magic"])[:3]
    if magic[:2] != b"n+":
        raise FileError(f"expected a NIfTI image in one file; got the mark {magic!r}. Convert it to .nii.")
    return header


def _values(file: _Bytes, header: Any, request: Request, *, compressed: bool) -> NDArray[Any]:
    """Return (u, v, view), as nibabel has it."""
    name, dtype, offset = request.path.name, header.get_data_dtype(), int(header.get_data_offset())
    check_numbers(dtype, name)
    n_before = offset - header.sizeof_hdr
    if not 0 <= n_before <= _MOST_EXTENSIONS:
        raise FileError(f"expected the numbers of {name} after its header; got them at {offset}. Repair it.")
    shape = tuple(int(n) for n in header.get_data_shape())
    stored = request.path.stat().st_size - (0 if compressed else offset)
    check_size(
        name,
        shape,
        dtype.itemsize,
        stored_bytes=stored,
        compressed=compressed,
        max_bytes=request.max_bytes,
    )
    slope, intercept = header.get_slope_inter()
    n_bytes = math.prod(shape) * dtype.itemsize
    _read(file, n_before)
    data = _read(file, n_bytes)
    if len(data) < n_bytes:
        raise FileError(
            f"expected {n_bytes} bytes of numbers in {name}; got {len(data)}. Check that it is complete."
        )
    # gzip looks at its checksum where the data end; padding may come before that.
    if len(_read(file, _CHUNK)) == _CHUNK:
        raise FileError(f"expected {name} to end after its {n_bytes} bytes; got more. Choose an image.")
    values = np.frombuffer(data, dtype=dtype).reshape(shape, order="F")
    if slope in (None, 1.0) and not intercept:
        return values
    return values * np.float64(slope) + np.float64(intercept)


def _read(file: _Bytes, n_bytes: int) -> bytes:
    """Return so many bytes, or as many as there are."""
    parts: list[bytes] = []
    while n_bytes > 0 and (chunk := file.read(min(n_bytes, _CHUNK))):
        parts.append(chunk)
        n_bytes -= len(chunk)
    return b"".join(parts)
