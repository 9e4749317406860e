"""A folder has one writer."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from duotomo.io import FileError
from duotomo.io.durable import locked


def test_a_second_writer_is_kept_out_until_the_first_has_left(tmp_path: Path) -> None:
    with locked("first", tmp_path):
        message = r"second: expected .* for this run alone; got another run"
        with pytest.raises(FileError, match=message), locked("second", tmp_path):
            pass
        with locked("elsewhere", tmp_path.parent):
            pass
    with locked("second", tmp_path):
        pass


def test_file_systems_without_locks_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: Any) -> None:
        raise OSError("No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with locked("first", tmp_path), locked("second", tmp_path):
        pass
