"""Files that belong together are replaced together, and by one writer at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from duotomo.io import FileError, read_scan
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.file_set import together
from duotomo.io.scan import Scan, Values
from tests.io.saved_helpers import SCAN, KilledError, draw, killed_at

WHERE = "example"
NAMES = ("a.txt", "b.txt", "c.txt")


def write(folder: Path, text: str) -> None:
    with together(WHERE, folder, "set") as draft:
        for name in NAMES:
            (draft / name).write_text(text)


def seen(folder: Path) -> list[str]:
    """Return what the files say that have their own names."""
    return [(folder / name).read_text() for name in NAMES if (folder / name).exists()]


@pytest.mark.parametrize("after", [False, True])
def test_no_file_of_one_set_lies_beside_one_of_another(
    tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = 0
    for call in count(1):
        folder = tmp_path / str(call)
        folder.mkdir()
        write(folder, "old")
        with killed_at(call, after=after, monkeypatch=monkeypatch) as calls, suppress(KilledError):
            write(folder, "new")
        if len(calls) < call:
            break
        assert len(set(seen(folder))) < 2
        partly += len(seen(folder)) < len(NAMES)
        # Whoever comes next, and fails, leaves a whole set.
        with suppress(KeyboardInterrupt), together(WHERE, folder, "set"):
            raise KeyboardInterrupt
        assert seen(folder) in (["old"] * 3, ["new"] * 3)
        assert sorted(os.listdir(folder)) == list(NAMES)
    assert partly > 0


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_what_fails_leaves_the_older_files(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with together(WHERE, tmp_path, "set") as draft:
            (draft / "a.txt").write_text("new")
            raise error

    write(tmp_path, "old")
    with pytest.raises(type(error)):
        fail()
    assert seen(tmp_path) == ["old"] * 3
    assert sorted(os.listdir(tmp_path)) == list(NAMES)


def test_two_writers_of_one_set_do_not_meet(tmp_path: Path) -> None:
    with together(WHERE, tmp_path, "set") as draft:
        (draft / "a.txt").write_text("first")
        with pytest.raises(FileError, match=r"for this run alone; got another run that writes there"):
            write(tmp_path, "second")
        with together(WHERE, tmp_path, "another") as other:
            (other / "d.txt").write_text("another")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "d.txt"]
    assert seen(tmp_path) == ["first"]


def test_a_writer_that_is_putting_files_in_their_places_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "old")
    move, met = os.replace, []

    def moving(source: Any, target: Any) -> None:
        if Path(target).name == "b.txt":
            with pytest.raises(FileError, match="got another run that writes there") as error:
                write(tmp_path, "second")
            met.append(error)
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", moving)
        write(tmp_path, "first")
    assert len(met) == 1
    assert seen(tmp_path) == ["first"] * 3


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    folder.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    (folder / ".unfinished-set.draft").symlink_to(elsewhere)
    (folder / ".unfinished-set.files").symlink_to(elsewhere)
    write(folder, "new")
    assert os.listdir(elsewhere) == ["mine.txt"]
    assert seen(folder) == ["new"] * 3


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "b.txt").mkdir()
    with pytest.raises(FileError, match=r"expected a file or nothing at .*b\.txt; got a folder\. Move it"):
        write(tmp_path, "new")
    assert os.listdir(tmp_path) == ["b.txt"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"example: expected to write to .*; got: .*Check that the folder"):
        write(tmp_path / "none", "new")


def test_files_that_cannot_be_moved_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "old")
    move = os.replace

    def failing(source: Any, target: Any) -> None:
        if Path(target).name == "b.txt":
            raise OSError(30, "Read-only file system")
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(FileError, match=r"in their places; got: .*Read-only.* They are complete: make"):
            write(tmp_path, "new")
    assert seen(tmp_path) == ["new"]
    with together(WHERE, tmp_path, "set"):
        assert seen(tmp_path) == ["new"] * 3


def test_a_scan_of_which_some_views_are_not_in_their_places_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Scan(projections=draw(*SCAN.shape, seed=0), values=Values.LINE_INTEGRALS, acquisition=SCAN)
    move = os.replace

    def dying(source: Any, target: Any) -> None:
        if Path(target) == tmp_path / "view_002.dcm":
            raise KilledError
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        with pytest.raises(KilledError):
            write_dicom_projections(tmp_path, scan, single_files=True)
    with pytest.raises(FileError, match=r"expected all files of one set in .*; got some of which are in"):
        read_scan(tmp_path)
    write_dicom_projections(tmp_path, scan, single_files=True)
    assert read_scan(tmp_path).acquisition.n_views == SCAN.n_views
