"""What is unpacked is what was packed, and never more than was asked for."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.io import FileError
from duotomo.io.unpacking import (
    Deflate,
    Unpacked,
    Unpacker,
    gzip_stream,
    lzf_length,
    lzma_stream,
    packbits_length,
    parts,
    unpacked,
)

DATA = np.random.default_rng(0).bytes(5000) + bytes(3_000_000)
CODECS: dict[str, tuple[Callable[[], Unpacker], Callable[[bytes], bytes]]] = {
    "zlib": (Deflate, zlib.compress),
    "gzip": (gzip_stream, gzip.compress),
    "lzma": (lzma_stream, lzma.compress),
}

each = pytest.mark.parametrize("codec", CODECS)


@each
@given(data=st.binary(max_size=300), n_zeros=st.integers(0, 5000))
def test_what_was_packed_is_unpacked(codec: str, data: bytes, n_zeros: int) -> None:
    stream, pack = CODECS[codec]
    data += bytes(n_zeros)
    assert unpacked(stream(), io.BytesIO(pack(data)), len(data), "it").tobytes() == data
    packed = pack(data)
    half = Unpacked(stream(), io.BytesIO(packed + b"after"), len(packed))
    assert half.read(len(data) // 2) + half.read(len(data) + 1) == data
    assert half.ended
    assert half.read(5) == b""


@each
def test_large_streams_come_in_parts(codec: str) -> None:
    stream, pack = CODECS[codec]
    found = list(parts(stream(), io.BytesIO(pack(DATA)), len(DATA), "it"))
    assert b"".join(found) == DATA
    assert max(map(len, found)) <= 2**20


@each
@pytest.mark.parametrize(
    ("change", "n_bytes", "message"),
    [
        (lambda packed: packed, len(DATA) - 1, "at most 3004999 bytes packed in it; got more"),
        (lambda packed: packed, 0, "at most 0 bytes packed in it; got more"),
        (lambda packed: packed, len(DATA) + 1, "3005001 bytes packed in it; got 3005000"),
        (lambda packed: packed + b"x", len(DATA), "3005000 bytes packed in it; got others after them"),
        (lambda packed: packed[:-9], len(DATA), "bytes packed in it; got .* and no end"),
        (lambda packed: b"other bytes", len(DATA), "expected packed data in it; got: "),
        (lambda packed: b"", len(DATA), "bytes packed in it; got 0 and no end"),
    ],
)
def test_streams_of_another_length_are_refused(
    codec: str, change: Callable[[bytes], bytes], n_bytes: int, message: str
) -> None:
    stream, pack = CODECS[codec]
    with pytest.raises(FileError, match=message):
        unpacked(stream(), io.BytesIO(change(pack(DATA))), n_bytes, "it")


def test_dictionaries_beyond_measure_are_refused() -> None:
    packed = lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}])
    with pytest.raises(FileError, match="expected packed data in it; got: Memory usage limit"):
        unpacked(lzma_stream(), io.BytesIO(packed), 1, "it")


@given(data=st.binary(max_size=400), n_zeros=st.integers(0, 2000))
def test_lengths_of_lzf(data: bytes, n_zeros: int) -> None:
    data = data.ljust(8, b"x") + bytes(n_zeros)
    file = io.BytesIO()
    with h5py.File(file, "w") as hdf5:
        array = hdf5.create_dataset(
            "a", data=np.frombuffer(data, "u1"), chunks=(len(data),), compression="lzf"
        )
        mask, packed = array.id.read_direct_chunk((0,))
    assert mask or lzf_length(packed, 2 * len(data)) == len(data)


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=128), st.integers(2, 128)), max_size=20))
def test_lengths_of_packbits(runs: list[bytes | int]) -> None:
    packed, length = b"", 0
    for run in runs:
        packed += bytes([len(run) - 1]) + run if isinstance(run, bytes) else bytes([257 - run, 7])
        length += len(run) if isinstance(run, bytes) else run
    assert packbits_length(packed + b"\x80", 10_000) == length


@pytest.mark.parametrize("length", [packbits_length, lzf_length])
def test_lengths_beyond_the_limit_are_not_counted(length: Callable[[bytes, int], int]) -> None:
    assert 100 < length(b"\x00\x00" + b"\xe0\xe0\x00" * 10_000, 100) < 400
