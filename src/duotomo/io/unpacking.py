"""Decompression with a limit on what comes out, whatever went in."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duotomo.io.paths import FileError

_CHUNK = 2**20
_LZMA_MEMORY = 2**27
_ERRORS = (zlib.error, lzma.LZMAError, EOFError)


class Bytes(Protocol):
    """A file, packed or not."""

    def read(self, size: int, /) -> bytes: ...


class Unpacker(Protocol):
    """A codec in the middle of a stream, which gives no more at a time than it is asked for."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Deflate:
    """Deflate, in the wrapping that zlib's window bits name."""

    def __init__(self, window: int = zlib.MAX_WBITS) -> None:
        self._stream = zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        """Whether the stream has ended, and its checksum fits."""
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        """Whether all that was given has been used."""
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What was given after the end of the stream."""
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return at most so many bytes more."""
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


class Unpacked:
    """What the next `n_packed` bytes of a file unpack to, as a file: no more is made than is read."""

    def __init__(self, unpacker: Unpacker, file: Bytes, n_packed: int) -> None:
        self._unpacker, self._file, self._n_packed = unpacker, file, n_packed

    @property
    def ended(self) -> bool:
        """Whether the stream has ended, and its checksum fits."""
        return self._unpacker.eof

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or as many as there are."""
        found = bytearray()
        while len(found) < size and not self.ended:
            packed = b""
            if self._unpacker.needs_input:
                packed = self._file.read(min(_CHUNK, self._n_packed))
                self._n_packed -= len(packed)
            part = _step(self._unpacker, packed, size - len(found), "it")
            if not (packed or part):
                break
            found += part
        return bytes(found)


def gzip_stream() -> Unpacker:
    """Return what unpacks one member of gzip."""
    return Deflate(zlib.MAX_WBITS | 16)


def lzma_stream() -> Unpacker:
    """Return what unpacks LZMA, with a dictionary of little memory."""
    return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)


def parts(unpacker: Unpacker, file: Bytes, most: int, what: str) -> Iterator[bytes]:
    """Give what a stream unpacks to; raise if that is more than `most` bytes, or the stream has no end."""
    n_bytes = 0
    while not unpacker.eof:
        packed = file.read(_CHUNK) if unpacker.needs_input else b""
        part = _step(unpacker, packed, min(_CHUNK, most + 1 - n_bytes), what)
        n_bytes += len(part)
        if n_bytes > most:
            raise FileError(f"expected at most {most} bytes packed in {what}; got more. Write it anew.")
        if not (packed or part or unpacker.eof):
            raise FileError(
                f"expected {most} bytes packed in {what}; got {n_bytes} and no end. "
                f"Check that the file is complete."
            )
        yield part


def _step(unpacker: Unpacker, packed: bytes, most: int, what: str) -> bytes:
    try:
        return unpacker.decompress(packed, most)
    except _ERRORS as error:
        raise FileError(
            f"expected packed data in {what}; got: {error}. Check that the file is complete."
        ) from error


def unpacked(unpacker: Unpacker, file: Bytes, n_bytes: int, what: str) -> NDArray[np.uint8]:
    """Return what a stream unpacks to; raise unless that is so many bytes, and nothing follows."""
    values, at = np.empty(n_bytes, dtype=np.uint8), 0
    for part in parts(unpacker, file, n_bytes, what):
        values[at : at + len(part)] = np.frombuffer(part, dtype=np.uint8)
        at += len(part)
    if at != n_bytes or unpacker.unused_data or file.read(1):
        came = f"{at}" if at != n_bytes else "others after them"
        raise FileError(
            f"expected {n_bytes} bytes packed in {what}; got {came}. Check that the file is complete."
        )
    return values


def packbits_length(data: bytes, most: int) -> int:
    """Return the bytes that PackBits, of TIFF and of DICOM's RLE, unpack to, or some number above `most`.

    >>> packbits_length(bytes([2, 1, 2, 3, 255, 7]), 100)
    5
    """

    def step(at: int) -> tuple[int, int]:
        code = data[at]
        return (
            (at + 2 + code, code + 1) if code < 128 else (at + (2 if code > 128 else 1), (257 - code) % 129)
        )

    return _walked(len(data), step, most)


def lzf_length(data: bytes, most: int) -> int:
    """Return the bytes that LZF, of h5py, unpacks to, or some number above `most`.

    >>> lzf_length(bytes([2, 1, 2, 3, 32, 0]), 100)
    6
    """

    def step(at: int) -> tuple[int, int]:
        code = data[at]
        if code < 32:
            return at + 2 + code, code + 1
        if code < 224:
            return at + 2, (code >> 5) + 2
        return at + 3, data[at + 1] + 9 if at + 1 < len(data) else 0

    return _walked(len(data), step, most)


def _walked(n_packed: int, step: Callable[[int], tuple[int, int]], most: int) -> int:
    """Return the sum of the lengths that codes stand for. step: to the next code, and the length."""
    at, n_bytes = 0, 0
    while at < n_packed and n_bytes <= most:
        at, length = step(at)
        n_bytes += length
    return n_bytes
