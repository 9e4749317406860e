"""Batches of solves survive their files bit for bit; what is damaged or foreign is not used, and said."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from duotomo.io import CheckpointFile
from duotomo.io.solve_files import SolveFiles
from tests.io.saved_helpers import FINGERPRINT, draw, edited, same

ROWS = {"rays": draw(3, 40, seed=0), "volumes": draw(3, 8, seed=1, dtype=torch.float64)}
NAME, KEY = "columns_0", "ab12"


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def files(tmp_path: Path, notes: list[str]) -> SolveFiles:
    return SolveFiles(tmp_path / "solves", FINGERPRINT, on_note=notes.append)


def path_of(files: SolveFiles) -> Path:
    return files.folder / f"{NAME}.h5"


def test_what_is_saved_is_loaded(files: SolveFiles, notes: list[str]) -> None:
    assert files.load(NAME, KEY) is None
    files.save(NAME, KEY, {name: 0 * values for name, values in ROWS.items()})
    files.save(NAME, KEY, ROWS)
    found = files.load(NAME, KEY)
    assert found is not None
    assert set(found) == set(ROWS)
    assert all(same(found[name], ROWS[name]) for name in ROWS)
    assert files.load("columns_3", KEY) is None
    assert (path_of(files).stat().st_mode & 0o777, files.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert notes == []


@pytest.mark.parametrize("what", ["damaged", "of another computation", "of another key", "something else"])
def test_what_cannot_be_used_is_said_and_replaced(what: str, files: SolveFiles, notes: list[str]) -> None:
    files.save(NAME, KEY, ROWS)
    path, key, asked = path_of(files), KEY, files
    if what == "damaged":
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(bytes(data))
        words = "got another SHA-256 than its first 512 bytes say"
    elif what == "of another computation":
        asked = replace(files, fingerprint=replace(FINGERPRINT, study="9"))
        words = "expected the state of this computation; got that of one with another study"
    elif what == "of another key":
        key, words = "cd34", "expected solves at this volume and motion; got those of others"
    else:
        with edited(path) as file:
            del file["rows"]
        words = "expected /rows in the file"
    assert asked.load(NAME, key) is None
    (note,) = notes
    assert words in note
    assert str(path) in note
    assert note.endswith("Its solves are computed again.")
    asked.save(NAME, key, ROWS)
    assert asked.load(NAME, key) is not None


def test_without_room_the_computation_goes_on(
    files: SolveFiles, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        files.save(NAME, KEY, ROWS)
    assert "No space left on device" in notes[0]
    assert notes[0].endswith("The run goes on without the file.")
    assert files.load(NAME, KEY) is None
    gone = replace(files, folder=files.folder / "removed" / "solves")
    gone.save(NAME, KEY, ROWS)
    assert "expected to make the folder" in notes[1]
    assert not gone.folder.parent.exists()


def test_they_go_with_their_checkpoint(tmp_path: Path) -> None:
    checkpoint = CheckpointFile(tmp_path / "checkpoint.h5", FINGERPRINT)
    checkpoint.remove()
    checkpoint.solves.save(NAME, KEY, ROWS)
    (tmp_path / "checkpoint_solves" / ".unfinished-columns_3.h5").write_bytes(b"half of it")
    checkpoint.remove()
    assert os.listdir(tmp_path) == []
    checkpoint.solves.save(NAME, KEY, ROWS)
    (tmp_path / "checkpoint_solves" / "mine.txt").write_text("mine")
    checkpoint.remove()
    assert os.listdir(tmp_path / "checkpoint_solves") == ["mine.txt"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs.h5").write_bytes(b"theirs")
    linked = replace(checkpoint.solves, folder=tmp_path / "link")
    linked.folder.symlink_to(elsewhere)
    linked.remove()
    assert os.listdir(elsewhere) == ["theirs.h5"]
