"""Arrays of MATLAB's files are what they are to SciPy; damaged ones are refused."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from duotomo.io import FileError
from duotomo.io.size_check import MAX_BYTES
from duotomo.io.stacks import READERS, Request
from duotomo.io.stacks.mat5 import mat_arrays

DTYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def read(path: Path, variable: str | None = None) -> Any:
    """Return the stack of a file, as MATLAB counts axes."""
    return READERS[".mat"](Request(path=path, variable=variable, max_bytes=MAX_BYTES)).array.T


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_what_they_are_to_scipy(dtype: str, packed: bool, tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 100, (7, 6, 3)).astype(dtype)
    others = {"a": "text", "b": 3.0, "c": {"d": 1}, "e": array[..., 0] > 50, "f": array + 1j, "h": [1, "x"]}
    scipy.io.savemat(tmp_path / "s.mat", others | {"g": array}, do_compression=packed)
    found = read(tmp_path / "s.mat")
    np.testing.assert_array_equal(found, scipy.io.loadmat(tmp_path / "s.mat")["g"])
    assert found.dtype == array.dtype
    listed = [one.name for one in mat_arrays(tmp_path / "s.mat")]
    assert listed == [name for name, *_ in scipy.io.whosmat(tmp_path / "s.mat")]


def test_arrays_of_level_4(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    scipy.io.savemat(tmp_path / "s.mat", {"g": array}, format="4")
    np.testing.assert_array_equal(read(tmp_path / "s.mat")[..., 0], array)


def element(kind: int, data: bytes, order: str = "<", n_bytes: int | None = None) -> bytes:
    """Return type, length and data, up to a multiple of 8."""
    padding = bytes(-len(data) % 8) if kind != 15 else b""
    return struct.pack(f"{order}2I", kind, len(data) if n_bytes is None else n_bytes) + data + padding


def matrix(
    *,
    order: str = "<",
    name: bytes = b"g",
    kind: int = 6,
    stored: int = 2,
    n: int = 24,
    sides: Any = (4, 3, 2),
) -> bytes:
    """Return an array of doubles that are stored in bytes."""
    flags = element(6, struct.pack(f"{order}2I", 6, 0), order)
    shape = element(5, struct.pack(f"{order}{len(sides)}i", *sides), order)
    numbers = element(stored, bytes(range(24)), order)
    return element(14, flags + shape + element(1, name, order) + numbers, order)


def file_of(*elements: bytes, mark: bytes = b"\x00\x01IM") -> bytes:
    """Return a file of level 5."""
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark + b"".join(elements)


@pytest.mark.parametrize(("order", "mark"), [("<", b"\x00\x01IM"), (">", b"\x01\x00MI")])
@pytest.mark.parametrize("packed", [False, True])
def test_doubles_are_stored_in_as_few_bytes_as_they_need(
    order: str, mark: bytes, packed: bool, tmp_path: Path
) -> None:
    body = matrix(order=order)
    if packed:
        body = element(15, zlib.compress(body), order)
    (tmp_path / "s.mat").write_bytes(file_of(body, mark=mark))
    found = read(tmp_path / "s.mat")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, scipy.io.loadmat(tmp_path / "s.mat")["g"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"MATLAB" * 40, "expected a file that MATLAB wrote; got other bytes"),
        (file_of(matrix(), matrix()), "expected one array of each name; got several of one name"),
        (file_of(matrix(sides=(4, 3, 3))), "expected 36 numbers in the array g; got 24 bytes of type 2"),
        (file_of(matrix(stored=18)), "expected 24 numbers in the array g; got 24 bytes of type 18"),
        (file_of(matrix(sides=(-4, -3, 2))), "expected an array with something in it in g"),
        (file_of(matrix(sides=(2**30, 2**30, 2))), "expected g to need at most"),
        (file_of(matrix(name=b"x" * 5000)), "type 1 and at most 4096 bytes; got type 1 and 5000"),
        (file_of(matrix()[:-8]), "expected arrays that end in the file; got one of 88 bytes, type 14"),
        (file_of(element(3, bytes(8))), "expected arrays that end in the file; got one of 8 bytes, type 3"),
        (file_of(element(15, zlib.compress(element(5, bytes(8))))), "expected an array that was packed; got"),
        (
            file_of(element(15, zlib.compress(matrix()[:40]))),
            "type and length of an array's part; got the end",
        ),
        (file_of(element(15, zlib.compress(matrix())[:-4])), "24 bytes in the array g; got 24, and no end"),
        (
            file_of(element(15, zlib.compress(matrix() + bytes(99)))),
            "24 bytes in the array g; got 24, and no",
        ),
        (file_of(element(15, b"other")), "expected packed data in it; got: "),
        (file_of(*[matrix()] * 10_001), "expected at most 10000 arrays; got more"),
    ],
)
def test_damaged_files_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.mat").write_bytes(data)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "s.mat")


@pytest.mark.parametrize("do_compression", [False, True])
@pytest.mark.parametrize(
    "change", [lambda data, n: data[:n], lambda data, n: data[:n] + b"\xff" + data[n + 1 :]]
)
def test_any_damage_is_refused_or_harmless(
    change: Callable[[bytes, int], bytes], do_compression: bool, tmp_path: Path
) -> None:
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"g": np.ones((4, 3, 2))}, do_compression=do_compression)
    for n in range(124, len(stream.getvalue())):
        (tmp_path / "s.mat").write_bytes(change(stream.getvalue(), n))
        try:
            found = read(tmp_path / "s.mat")
        except FileError:
            continue
        assert not do_compression or (found == 1).all()
