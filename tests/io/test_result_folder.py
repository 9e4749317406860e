"""A result folder holds one whole result, whenever the process that writes it is killed."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.io import (
    FileError,
    displacement,
    read_displacement,
    read_result,
    result_folder,
    result_reader,
    write_result,
)
from duotomo.io.checkpoint_file import history_from, history_text
from duotomo.io.result_index import sha256_of
from duotomo.io.staging import DRAFT, STAGING, publish
from duotomo.io.versions import library_versions
from duotomo.transforms import Affine, Rigid, Translation
from tests.io.itk_helpers import moved_by_itk, moved_by_us, points_on, sitk
from tests.io.saved_helpers import (
    GRID,
    SEEN,
    KilledError,
    draw,
    edited_index,
    history,
    killed_at,
    python,
    result,
    same_result,
    study,
)

SETTINGS = {"model": "affine", "stages": [{"n_steps": 3}], "priors": {"bending": 0.1}}
FILES = [
    "README.txt",
    "history.csv",
    "reference_to_visit_2.tfm",
    "reference_to_visit_3.tfm",
    "result.json",
    "visit_2.nii.gz",
    "visit_2_to_reference.tfm",
    "visit_3_to_reference.tfm",
    "volume.nii.gz",
]


def write(folder: Path, written: Any) -> None:
    write_result(folder, written, study=study(), settings=SETTINGS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(dtype: torch.dtype, tmp_path: Path) -> None:
    write(tmp_path, result(dtype=dtype))
    assert sorted(os.listdir(tmp_path)) == FILES
    saved = read_result(str(tmp_path))
    assert same_result(saved, result(dtype=dtype))
    assert saved.settings == SETTINGS
    assert saved.versions == library_versions()


def test_versions_may_be_given(tmp_path: Path) -> None:
    write_result(tmp_path, result(), study=study(), settings={}, versions={"scanner": "7"})
    assert read_result(tmp_path).versions == {"scanner": "7"}


def test_transforms_move_points_as_the_methods_did(tmp_path: Path) -> None:
    written = result()
    write(tmp_path, written)
    saved = read_result(tmp_path)
    for number, grid in enumerate((GRID, SEEN)):
        points = points_on(grid)
        expected = moved_by_us(written.motions[number], points)
        np.testing.assert_allclose(moved_by_us(saved.motions[number], points), expected, atol=1e-9)
        itk = sitk.ReadTransform(str(tmp_path / f"visit_{number + 2}_to_reference.tfm"))
        np.testing.assert_allclose(moved_by_itk(itk, points), expected, atol=1e-9)


def test_a_person_can_read_the_index_and_the_history(tmp_path: Path) -> None:
    written = result(transforms=(Translation(GRID), Rigid(GRID)))
    write(tmp_path, written)
    index = json.loads((tmp_path / "result.json").read_text())
    assert index["status"] == "step limit"
    shift = written.motions[0].physical()["translation_mm"]
    assert index["motions"][0]["physical"]["translation_mm"] == shift.tolist()  # type: ignore[union-attr]
    assert [entry["model"] for entry in index["motions"]] == ["Translation", "Rigid"]
    rows = list(csv.DictReader((tmp_path / "history.csv").read_text().splitlines()))
    assert [float(row["objective"]) for row in rows] == [record.objective for record in written.history]


def test_volumes_of_moving_visits_keep_their_own_grids(tmp_path: Path) -> None:
    seen = draw(*SEEN.shape, seed=8)
    written = replace(result(), others={"visit_3": seen}, grids={"visit_3": SEEN})
    write(tmp_path, written)
    read = read_result(tmp_path)
    assert torch.equal(read.others["visit_3"], seen)
    assert read.grids["visit_3"].shape == SEEN.shape
    assert read.grids["visit_3"].center_mm == pytest.approx(SEEN.center_mm)


def test_a_study_of_one_visit(tmp_path: Path) -> None:
    alone = replace(result(transforms=()), others={}, history=())
    reference = replace(study(), visits=study().visits[:1])
    write_result(tmp_path, alone, study=reference, settings={})
    assert same_result(read_result(tmp_path), alone)
    assert sorted(os.listdir(tmp_path)) == ["README.txt", "history.csv", "result.json", "volume.nii.gz"]


def test_a_new_result_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    for seed in range(3):
        write(tmp_path, result(seed))
    assert same_result(read_result(tmp_path), result(2))
    assert sorted(os.listdir(tmp_path)) == sorted([*FILES, "notes.txt"])


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_result_or_the_new(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (result(seed, transforms=(Affine(GRID), Translation(SEEN))) for seed in range(2))
    kept = []
    for call in range(1, 90):
        folder = tmp_path / str(call)
        folder.mkdir()
        write(folder, old)
        try:
            with killed_at(call, after=after, monkeypatch=monkeypatch):
                write(folder, new)
        except KilledError:
            saved = read_result(folder)
            kept.append(same_result(saved, new))
            assert kept[-1] or same_result(saved, old)
            # Whoever comes next tidies up.
            write(folder, old)
            assert same_result(read_result(folder), old)
            assert sorted(os.listdir(folder)) == FILES
        else:
            break
    assert len(kept) > 20
    assert kept == sorted(kept)
    assert set(kept) == {False, True}


def test_a_kill_of_the_first_write_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KilledError), killed_at(12, after=True, monkeypatch=monkeypatch):
        write(tmp_path, result(0))
    assert os.listdir(tmp_path) == [DRAFT]
    with pytest.raises(FileError, match=r"read_result: expected a result at .*result\.json; got nothing"):
        read_result(tmp_path)
    write(tmp_path, result(1))
    assert same_result(read_result(tmp_path), result(1))


@pytest.mark.parametrize("reads", [0, 1, 3])
def test_a_reader_that_is_overtaken_reads_the_new_result(
    reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many files were read, the result is replaced; a mixture of both must not come out."""
    write(tmp_path, result(0))
    original, seen = result_reader.checked, []

    def slow(folder: Path, index: dict[str, Any], file: str) -> Path:
        if len(seen) == reads:
            write(tmp_path, result(1))
        path = original(folder, index, file) if len(seen) != reads else folder / file
        seen.append(file)
        return path

    monkeypatch.setattr(result_reader, "checked", slow)
    assert same_result(read_result(tmp_path), result(1))


def test_a_reader_whose_files_are_moved_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, result(0))
    with pytest.raises(KilledError):
        interrupted(tmp_path, result(1), monkeypatch)
    original, seen = result_reader.checked, []

    def slow(folder: Path, index: dict[str, Any], file: str) -> Path:
        path = original(folder, index, file)
        if not seen:
            publish("test", folder, "result.json", index["files"], [])
        seen.append(file)
        return path

    assert (tmp_path / STAGING / "volume.nii.gz").is_file()
    monkeypatch.setattr(result_reader, "checked", slow)
    assert same_result(read_result(tmp_path), result(1))
    assert sorted(os.listdir(tmp_path)) == FILES


def interrupted(folder: Path, written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a result, and die when all is decided and nothing is moved."""

    def dying(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(result_folder, "publish", dying)
        write(folder, written)


def test_what_was_decided_is_read_from_a_folder_that_nobody_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, result(0))
    with pytest.raises(KilledError):
        interrupted(tmp_path, result(1), monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    assert same_result(read_result(tmp_path), result(1))
    assert sorted(tmp_path.rglob("*")) == before
    # A file of the old result under the same name is not taken for one of the new.
    (tmp_path / STAGING / "volume.nii.gz").unlink()
    with pytest.raises(FileError, match=r"expected volume\.nii\.gz as it was written"):
        read_result(tmp_path)


def test_what_cannot_be_put_in_place_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, result(0))
    original = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target) == tmp_path / "history.csv":
            raise PermissionError("not allowed")
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(
            FileError,
            match=r"write_result: expected to put the files of .* in their places; got: not allowed",
        ):
            write(tmp_path, result(1))
    assert same_result(read_result(tmp_path), result(1))
    write(tmp_path, result(2))
    assert sorted(os.listdir(tmp_path)) == FILES


def test_processes_killed_while_they_write(tmp_path: Path) -> None:
    # Forked, because importing takes longer than all else.
    code = """
import os, random, signal, sys, time, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
from duotomo.io import read_result, write_result
from tests.io.saved_helpers import result, same_result
folder = sys.argv[1]
# Without motions: the kernels that invert them do not survive a fork.
results = [result(seed, transforms=()) for seed in range(2)]
write_result(folder, results[0], settings={})
moments, found = random.Random(0), set()
for _ in range(25):
    child = os.fork()
    if child == 0:
        while True:
            for each in results[::-1]:
                write_result(folder, each, settings={})
    time.sleep(moments.uniform(0.02, 0.2))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    saved = read_result(folder)
    found |= {number for number, each in enumerate(results) if same_result(saved, each)}
    assert any(same_result(saved, each) for each in results)
write_result(folder, results[1], settings={})
print(sorted(found), sorted(os.listdir(folder)))
"""
    done = python(code, str(tmp_path))
    names = [name for name in FILES if "reference" not in name]
    assert done.stdout.strip() == f"[0, 1] {names}", done.stderr


def test_a_full_disk_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, result(0))

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            FileError, match=r"expected to write .*volume\.nii\.gz; got: No space left on device"
        ):
            write(tmp_path, result(1))
    assert same_result(read_result(tmp_path), result(0))


@pytest.mark.parametrize("name", [n for n in FILES if n != "result.json"])
def test_missing_and_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    write(tmp_path, result())
    path = tmp_path / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"7" + whole[-8:])
    with pytest.raises(
        FileError, match=rf"read_result: .*: expected {name} as it was written; got another SHA"
    ):
        read_result(tmp_path)
    path.unlink()
    with pytest.raises(FileError, match=rf"read_result: .*: expected the file {name}; got nothing there"):
        read_result(tmp_path)


def _change(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda index: {**index, **changes}


def _grid(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda index: {**index, "grid": {**index["grid"], **changes}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _change(format="other"),
            r"expected .*result\.json of format 'duotomo result', version 1 or 2 or 3; got 'other'",
        ),
        (
            _change(version=4),
            r"version 1 or 2 or 3; got 'duotomo result', version 4\. Use the duotomo that wrote it",
        ),
        (
            _change(generation="1"),
            r"as write_result wrote it; got: generation: Input should be a valid integer",
        ),
        (_change(files=[]), r"as write_result wrote it; got: files: .*choose another folder"),
        (_change(status="well"), r"as write_result wrote it; got: status: Input should be"),
        (_change(grid={}), r"as write_result wrote it; got: grid\.kind: Field required"),
        (_grid(shape=[10**9] * 3), r"as write_result wrote it; got: grid\.shape\.0: Input should be less"),
        (_grid(shape=[2**16] * 3), r"as write_result wrote it; got: grid\.shape: .*at most \d+ voxels"),
        (_grid(shape=[4, 6, 6]), r"expected the grid of result\.json to be that of volume\.nii\.gz"),
        (_grid(spacing_mm=[1.1, 0.7, 0.31]), r"expected the grid of result\.json to be that of volume"),
        (_grid(spacing_mm=[0.0, 1.0, 1.0]), r"got: grid\.spacing_mm\.0: Input should be greater than 0"),
        (_change(seconds=-1.0), r"got: seconds: Input should be greater"),
        (_change(files={}), r"expected result\.json as write_result wrote it; got: 'history'"),
    ],
)
def test_an_index_that_makes_no_sense_is_refused(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path, result())
    edited_index(tmp_path, change)
    with pytest.raises(FileError, match=rf"read_result: .*{message}"):
        read_result(tmp_path)


def test_an_index_that_was_edited_is_refused(tmp_path: Path) -> None:
    write(tmp_path, result())
    path = tmp_path / "result.json"
    path.write_text(path.read_text().replace("step limit", "converged"))
    with pytest.raises(
        FileError, match=r"result\.json as write_result .*got: another SHA-256 than at its end"
    ):
        read_result(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(FileError, match=r"got: no SHA-256 of itself at its end"):
        read_result(tmp_path)
    path.write_text(json.dumps([json.loads(path.read_text())]))
    with pytest.raises(FileError, match=r"expected .*result\.json as write_result wrote it; got: list"):
        read_result(tmp_path)


def test_a_truncated_index_is_refused_and_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, result())
    path = tmp_path / "result.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(FileError, match=r"write_result: expected .*result\.json as write_result wrote it"):
        write(tmp_path, result(1))


@pytest.mark.parametrize("name", ["volume", "history", "visit_2_to_reference", "a/b", "", "visit 2"])
def test_names_that_files_cannot_have_are_refused(name: str, tmp_path: Path) -> None:
    odd = replace(result(), others={name: result().volume})
    with pytest.raises(FileError, match=r"write_result: expected other volumes to have names of letters"):
        write(tmp_path, odd)
    assert os.listdir(tmp_path) == []


def test_folders_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"write_result: expected a folder at .*none; got none\. Make it first"
    ):
        write(tmp_path / "none", result())
    with pytest.raises(
        FileError, match=r"read_result: expected a result at .*result\.json; got nothing there"
    ):
        read_result(tmp_path / "none")


def test_histories_survive_their_text() -> None:
    for n_steps in (0, 1, 6):
        assert history_from(history_text(history(n_steps))) == history(n_steps)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected the columns stage,what,.*; got \."),
        ("step,objective\n1,2\n", r"expected the columns stage,what,.*; got step,objective"),
        (history_text(history(1)) + "1,2\n", r"expected one value for each column; got \['1', '2'\]"),
        (history_text(history(1)).replace("\n0,", "\nx,"), r"expected one value for each column; got \['x'"),
    ],
)
def test_other_tables_are_refused(text: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        history_from(text)


def test_quality_and_displacements_are_part_of_the_result(tmp_path: Path) -> None:
    written, quality = result(), {"folded_voxels": [0, 3]}
    for _ in range(2):
        write_result(tmp_path, written, study=study(), settings={}, quality=quality, displacements=True)
    saved = read_result(tmp_path)
    assert same_result(saved, written)
    assert saved.quality == quality
    index = json.loads((tmp_path / "result.json").read_text())
    name = "visit_3_to_reference_displacement.nii.gz"
    assert index["files"][name]["kind"] == "displacement"
    assert index["files"]["visit_2.nii.gz"]["kind"] == "volume"
    motion = read_displacement(tmp_path / name)
    torch.testing.assert_close(motion.displacement(), written.motions[1].displacement(SEEN))
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", *index["files"]}


def test_displacements_of_many_voxels_are_coarser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displacement, "MOST_VECTORS", 20)
    write_result(tmp_path, result(), study=study(), settings={}, displacements=True)
    motion = read_displacement(tmp_path / "visit_2_to_reference_displacement.nii.gz")
    coarse = displacement.vector_grid(result().motions[0], GRID)
    assert coarse.n_voxels <= 20
    assert (motion.grid.shape, motion.grid.spacing_mm) == (coarse.shape, coarse.spacing_mm)
    assert motion.grid.center_mm == pytest.approx(coarse.center_mm)


def test_a_result_without_a_study_names_its_grids(tmp_path: Path) -> None:
    write_result(tmp_path, result(), moving_grids=[GRID, SEEN], settings={})
    assert same_result(read_result(tmp_path), result())
    with pytest.raises(DuotomoError, match=r"write_result: expected a study, or a grid for each of 2"):
        write_result(tmp_path, result(), moving_grids=[GRID], settings={})


@pytest.mark.parametrize("name", ["..", "", "../elsewhere", "/etc/passwd", ".", ".hidden"])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    write_result(tmp_path, result(), study=study(), settings={})
    index = json.loads((tmp_path / "result.json").read_text())
    for changed in (
        {"files": {**index["files"], name: index["files"]["volume.nii.gz"]}},
        {"motions": [{**index["motions"][0], "file": name}]},
    ):
        edited_index(tmp_path, lambda content, changed=changed: content | changed)
        with pytest.raises(FileError, match=r"got: (files|motions)\..*: String should"):
            read_result(tmp_path)
        with pytest.raises(FileError, match=r"got: (files|motions)\..*: String should"):
            write_result(tmp_path, result(), study=study(), settings={})


def test_nothing_is_removed_that_was_not_written_here(tmp_path: Path) -> None:
    """Whatever an older index says: not what has another name, nor what has another content."""
    write(tmp_path, result())
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "visit_9.nii.gz").write_text("mine")
    entry = json.loads((tmp_path / "result.json").read_text())["files"]["volume.nii.gz"]
    notes = entry | {"sha256": sha256_of(tmp_path / "notes.txt")}
    hostile = {"notes.txt": notes, "visit_9.nii.gz": entry}
    edited_index(tmp_path, lambda index: index | {"files": index["files"] | hostile, "replaced": [*hostile]})
    write(tmp_path, replace(result(1), others={}))
    assert sorted(os.listdir(tmp_path)) == sorted(
        {*FILES, "notes.txt", "visit_9.nii.gz"} - {"visit_2.nii.gz"}
    )
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "visit_9.nii.gz").read_text() == "mine"


@pytest.mark.parametrize("name", ["README.txt", "volume.nii.gz", "result.json"])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileError, match=rf"write_result: expected .*{name}.*; got"):
        write(tmp_path, result())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_files_beside_a_result_are_part_of_it(tmp_path: Path) -> None:
    def beside(draft: Path) -> dict[str, str]:
        assert same_result(read_result(draft), result())
        (draft / "report.html").write_text("a page")
        return {"report.html": "page"}

    write_result(tmp_path, result(), study=study(), settings={}, beside=beside)
    assert (tmp_path / "report.html").read_text() == "a page"
    (tmp_path / "report.html").write_text("a pagf")
    with pytest.raises(FileError, match=r"expected report\.html as it was written; .* duotomo report"):
        read_result(tmp_path)
    (tmp_path / "report.html").write_text("another page")
    with pytest.raises(FileError, match=r"expected report\.html as it was written, 6 bytes; got 12"):
        read_result(tmp_path)


def test_what_fails_beside_a_result_leaves_the_old_one(tmp_path: Path) -> None:
    def full(draft: Path) -> dict[str, str]:
        raise FileError("no space")

    write(tmp_path, result(0))
    with pytest.raises(FileError, match="no space"):
        write_result(tmp_path, result(1), study=study(), settings={}, beside=full)
    assert same_result(read_result(tmp_path), result(0))
    assert sorted(os.listdir(tmp_path)) == FILES


def test_all_is_for_its_owner_only(tmp_path: Path) -> None:
    write(tmp_path, result())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_notebook_shows_the_models_of_the_method(tmp_path: Path) -> None:
    written = result(transforms=(Rigid(GRID), Translation(SEEN)))
    write(tmp_path, written)
    saved = read_result(tmp_path)
    assert type(saved.motions[0].transform) is Affine
    assert "Rigid, Translation" in saved._repr_html_()
    assert "Rigid, Translation" in written._repr_html_()
