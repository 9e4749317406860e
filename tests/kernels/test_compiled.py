"""Compiled code is kept, trusted only while it is whole and of the same source, and made anew otherwise."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from duotomo.kernels import compiled as module
from duotomo.kernels.compiled import LOG, compiled


def twice(numbers: Any, out: Any) -> None:
    for i in range(len(numbers)):
        out[i] = 2 * numbers[i]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.duo"))


def compiles(caplog: pytest.LogCaptureFixture) -> bool:
    """Call the loop in a process that has not, as far as it knows, and return whether it was compiled."""
    caplog.clear()
    numbers, out = np.arange(5.0), np.zeros(5)
    with caplog.at_level(logging.INFO, LOG.name):
        compiled(twice)(numbers, out)
    np.testing.assert_array_equal(out, 2 * numbers)
    return "twice is compiled" in caplog.text


def test_code_is_kept(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert compiles(caplog)
    assert len(files(folder)) == 1
    assert not compiles(caplog)
    compiled(twice)(np.arange(3, dtype=np.float32), np.zeros(3, dtype=np.float32))
    assert len(files(folder)) == 2


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_changed_byte_is_compiled_anew(folder: Path, caplog: pytest.LogCaptureFixture, at: int) -> None:
    compiles(caplog)
    (path,) = files(folder)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[at] ^= 1
    path.write_bytes(damaged)
    assert compiles(caplog)
    assert not compiles(caplog)


@pytest.mark.parametrize("length", [0, 10, 1000])
def test_a_file_cut_short_is_compiled_anew(
    folder: Path, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    compiles(caplog)
    (path,) = files(folder)
    path.write_bytes(path.read_bytes()[:length])
    assert compiles(caplog)
    assert not compiles(caplog)


def test_other_sources_make_other_code(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles(caplog)
    (before,) = files(folder)
    monkeypatch.setattr(module, "_sources", lambda folder: "of another version")
    assert compiles(caplog)
    (after,) = files(folder)
    assert after != before


def test_a_folder_that_takes_nothing_only_costs_time(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = compiled(twice)
    # What stands there is no folder, for whoever asks.
    shutil.rmtree(folder)
    folder.write_text("")
    numbers, out = np.arange(5.0), np.zeros(5)
    loop(numbers, out)
    np.testing.assert_array_equal(out, 2 * numbers)


def test_no_folder_only_costs_time(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(function: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(module, "FunctionCache", nowhere)
    assert compiles(caplog)
    assert compiles(caplog)
    assert compiled(twice)._cache.cache_path is None
    assert not files(folder)
