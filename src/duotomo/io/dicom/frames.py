"""The pixels of DICOM files: sizes checked, decompressed, and scaled as the header says."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.dicom.header import ViewAttributes, read_dataset, title
from duotomo.io.libraries import pydicom
from duotomo.io.paths import FileError, reason
from duotomo.io.size_check import MAX_BYTES, check_bytes, check_size
from duotomo.io.unpacking import packbits_length

_SIZES = {0xFFF7, *range(0xFFC0, 0xFFD0)} - {0xFFC4, 0xFFC8, 0xFFCC}
"""Markers of the segments in which JPEG and JPEG-LS have a frame's size."""

_BARE = range(0xFFD0, 0xFFDA)
"""Markers without a length."""

_RLE = "1.2.840.10008.1.2.5"
_JPEG = [f"1.2.840.10008.1.2.4.{number}" for number in (50, 51, 57, 70, 80, 81, 90, 91, 201, 202, 203)]
"""Transfer syntaxes whose frames have their size in them."""

_ENDED, _END = [f"1.2.840.10008.1.2.4.{number}" for number in (50, 51, 57, 70, 80, 81)], b"\xff\xd9"
"""Transfer syntaxes whose frames end with a marker. CharLS waits for ever for one that was cut off."""

_LEAST_FRAME = 8

_NEEDED = ("Rows", "Columns", "BitsAllocated", "BitsStored", "PixelRepresentation")


def frame_count(dataset: Any) -> int:
    """Return the Number of Frames, 1 where it is not given; raise if the functional groups say otherwise."""
    (claimed,) = ViewAttributes(dataset, 0).numbers("NumberOfFrames", 1) or (1.0,)
    n_frames = int(claimed)
    if n_frames < 1 or n_frames != claimed:
        raise FileError(
            f"expected {title('NumberOfFrames')} as a positive integer; got {claimed}. Correct the file."
        )
    groups = dataset.get("PerFrameFunctionalGroupsSequence")
    if groups is not None and len(groups) != n_frames:
        raise FileError(
            f"expected as many items in {title('PerFrameFunctionalGroupsSequence')} as "
            f"{title('NumberOfFrames')} says; got {len(groups)} and {n_frames}. Correct the file."
        )
    return n_frames


def frame_shape(dataset: Any) -> tuple[int, int]:
    """Return (Rows, Columns)."""
    (n_rows,), (n_columns,) = (
        ViewAttributes(dataset, 0).need(keyword, 1, "another file: this one has no image")
        for keyword in ("Rows", "Columns")
    )
    return int(n_rows), int(n_columns)


def check_pixels(dataset: Any, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Raise unless the pixels that the header claims are grey values, fit into memory, and into the file."""
    view = ViewAttributes(dataset, 0)
    for keyword in _NEEDED:
        view.need(keyword, 1, "another file: this one has no image")
    (samples,) = view.numbers("SamplesPerPixel", 1) or (1.0,)
    if samples != 1:
        raise FileError(
            f"expected {title('SamplesPerPixel')} = 1, grey values; got {samples:g}. Choose another file."
        )
    allocated, stored, signed = (
        int(view.need(keyword, 1, "")[0])
        for keyword in ("BitsAllocated", "BitsStored", "PixelRepresentation")
    )
    high = int((view.numbers("HighBit", 1) or (stored - 1,))[0])
    if (
        allocated not in (8, 16, 32)
        or not 1 <= stored <= allocated
        or high != stored - 1
        or signed not in (0, 1)
    ):
        raise FileError(
            f"expected {title('BitsAllocated')} 8, 16 or 32, {title('BitsStored')} up to that, and "
            f"{title('HighBit')} one less; got {allocated}, {stored} and {high}. Write the file anew."
        )
    if dataset.get("ModalityLUTSequence"):
        raise FileError(
            f"expected values with slope and intercept; got a {title('ModalityLUTSequence')}. "
            f"Apply it, and write the file anew."
        )
    shape = (frame_count(dataset), *frame_shape(dataset))
    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax.is_encapsulated:
        check_bytes(path.name, shape[0] * shape[1] * shape[2] * 4, max_bytes=max_bytes)
    else:
        check_size(
            path.name,
            shape,
            allocated // 8,
            stored_bytes=path.stat().st_size,
            compressed=bool(syntax.is_deflated),
            max_bytes=max_bytes,
        )


def read_frames(path: Path, *, max_bytes: int = MAX_BYTES) -> NDArray[np.float32]:
    """Return all frames of a file (frame, row, column): `slope * stored + intercept`, NaN where padded.

    Unused bits are cleared. Padding is Pixel Padding Value, up to Pixel Padding Range Limit.
    """
    dataset = read_dataset(path, pixels=True, max_bytes=max_bytes)
    check_pixels(dataset, path, max_bytes=max_bytes)
    shape = (frame_count(dataset), *frame_shape(dataset))
    _check_encoded(dataset, shape)
    frames = np.empty(shape, dtype=np.float32)
    n_read = 0
    for stored in _decoded(dataset):
        if n_read == shape[0] or stored.shape != shape[1:]:
            raise FileError(
                f"expected {shape[0]} frames of {shape[1:]} pixels, as {title('NumberOfFrames')}, "
                f"{title('Rows')} and {title('Columns')} say; got more, or one of {stored.shape}. "
                f"Check the file."
            )
        frames[n_read] = _scaled(stored, ViewAttributes(dataset, n_read))
        n_read += 1
    if n_read != shape[0]:
        raise FileError(
            f"expected {shape[0]} frames, as {title('NumberOfFrames')} says; got {n_read} in "
            f"{title('PixelData')}. Check that the file is complete."
        )
    return frames


def _decoded(dataset: Any) -> Any:
    syntax = dataset.file_meta.TransferSyntaxUID
    try:
        decoder = pydicom().pixels.get_decoder(syntax)
    except NotImplementedError:
        raise FileError(
            f"expected a compression that can be read; got the transfer syntax {syntax.name}. "
            f"Decompress the file, with gdcmconv --raw for instance."
        ) from None
    if not decoder.is_available:
        raise FileError(
            f"expected a library that decompresses {syntax.name}; got none of "
            f"{', '.join(decoder.missing_dependencies)}. "
            "Run pip install pylibjpeg pylibjpeg-openjpeg pyjpegls."
        )
    try:
        yield from pydicom().pixels.iter_pixels(dataset, raw=True)
    except Exception as error:  # each decoder has its own
        raise FileError(
            f"expected pixels that can be decoded from {syntax.name}; got: {reason(error)}. "
            f"Check that the file is complete."
        ) from error


def _check_encoded(dataset: Any, shape: tuple[int, int, int]) -> None:
    """Raise unless the pixel data are as long as they must be, or are frames of the size claimed."""
    data = dataset.get("PixelData")
    if data is None:
        raise FileError(f"expected {title('PixelData')}; got none. Check that the file is complete.")
    syntax = dataset.file_meta.TransferSyntaxUID
    if not syntax.is_encapsulated:
        expected = shape[0] * shape[1] * shape[2] * int(dataset.BitsAllocated) // 8
        # One byte of padding makes the length even.
        if len(data) not in (expected, expected + expected % 2):
            raise FileError(
                f"expected {expected} bytes in {title('PixelData')}, as {title('Rows')}, {title('Columns')} "
                f"and {title('NumberOfFrames')} say; got {len(data)}. Check that the file is complete."
            )
        return
    if shape[0] * _LEAST_FRAME > len(data):
        raise FileError(
            f"expected {shape[0]} frames, as {title('NumberOfFrames')} says; got {len(data)} bytes in "
            f"{title('PixelData')}. Check that the file is complete."
        )
    frames = pydicom().encaps.generate_frames(data, number_of_frames=shape[0])
    for number, frame in zip(range(shape[0]), frames, strict=False):
        if syntax == _RLE:
            _check_rle(frame, shape[1] * shape[2], number)
            continue
        size = coded_size(frame)
        # A small frame may unfold to anything, whatever the header says.
        if size != (*shape[1:], 1) and (size is not None or syntax in _JPEG):
            raise FileError(
                f"expected frames of (rows, columns, samples) = {(*shape[1:], 1)}, as {title('Rows')}, "
                f"{title('Columns')} and {title('SamplesPerPixel')} say; got {size} in frame {number} "
                f"itself. Check the file."
            )
        # A byte may follow that makes the length even.
        if syntax in _ENDED and not frame.rstrip(b"\0").endswith(_END):
            raise FileError(
                f"expected the marker {_END.hex()} at the end of frame {number}; got {frame[-4:].hex()}. "
                f"Check that the file is complete."
            )


def _check_rle(frame: bytes, n_pixels: int, number: int) -> None:
    """Raise if a segment of a run-length encoded frame has more than one byte for each pixel."""
    n_segments, *offsets = struct.unpack("<16I", frame[:64].ljust(64, b"\0"))
    starts = offsets[: min(n_segments, len(offsets))]
    for start, end in zip(starts, [*starts[1:], len(frame)], strict=True):
        # A byte that makes the length even may look like one pixel more.
        if packbits_length(frame[start:end], n_pixels + 2) > n_pixels + 2:
            raise FileError(
                f"expected {n_pixels} pixels in frame {number}, as {title('Rows')} and {title('Columns')} "
                f"say; got more in it. Check the file."
            )


def coded_size(frame: bytes) -> tuple[int, int, int] | None:
    """Return (rows, columns, samples) of a JPEG, JPEG-LS or JPEG 2000 frame's header, None for other codes.

    >>> coded_size(bytes.fromhex("ffd8fff7000b1000020003010111"))
    (2, 3, 1)
    """
    try:
        start = _codestream(frame)
        if frame[start : start + 4] == b"\xff\x4f\xff\x51":
            right, low, left, top = struct.unpack_from(">4I", frame, start + 8)
            return low - top, right - left, struct.unpack_from(">H", frame, start + 40)[0]
        at = 2 if frame.startswith(b"\xff\xd8") else len(frame)
        while at < len(frame):
            marker, length = struct.unpack_from(">2H", frame, at)
            # Only segments with a length may come before that of the size.
            if not 0xFFC0 <= marker < 0xFFFF or marker in _BARE or length < 2:
                break
            if marker in _SIZES:
                n_rows, n_columns, n_samples = struct.unpack_from(">2HB", frame, at + 5)
                return n_rows, n_columns, n_samples
            at += 2 + length
        else:
            return None
    except struct.error:
        pass
    raise FileError("expected a JPEG frame with its size in it; got none. Check that the file is complete.")


def _codestream(frame: bytes) -> int:
    """Return where JPEG 2000 starts, which may have boxes of its file format around it: length, type."""
    at = 0
    if frame[4:8] != b"jP  ":
        return at
    while frame[at + 4 : at + 8] != b"jp2c":
        (length,) = struct.unpack_from(">I", frame, at)
        if length < 8:
            raise FileError("expected JPEG 2000 in boxes of known length; got another. Check the file.")
        at += length
    return at + 8


def _scaled(stored: NDArray[Any], view: ViewAttributes) -> NDArray[np.float32]:
    bits, unused = stored.dtype.itemsize * 8, stored.dtype.itemsize * 8 - int(view.dataset.BitsStored)
    if unused and bits == int(view.dataset.BitsAllocated):
        stored = (stored << unused) >> unused
    (slope,) = view.numbers("RescaleSlope", 1) or (1.0,)
    (intercept,) = view.numbers("RescaleIntercept", 1) or (0.0,)
    if slope == 0:
        raise FileError(f"expected {title('RescaleSlope')} other than zero; got zero. Correct the file.")
    values = stored.astype(np.float32)
    if (slope, intercept) != (1.0, 0.0):
        values = (stored * slope + intercept).astype(np.float32)
    padding = view.numbers("PixelPaddingValue", 1)
    if padding is not None:
        (limit,) = view.numbers("PixelPaddingRangeLimit", 1) or padding
        low, high = sorted((padding[0], limit))
        values[(stored >= low) & (stored <= high)] = np.nan
    return values
