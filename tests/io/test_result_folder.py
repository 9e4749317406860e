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
from duotomo.io import FileError, read_displacement, read_result, result_folder, write_result
from duotomo.io.history_file import history_from, history_text
from duotomo.io.result_folder import Extra, library_versions
from duotomo.transforms import Rigid, Translation
from tests.io.itk_helpers import moved_by_itk, moved_by_us, points_on, sitk
from tests.io.saved_helpers import (
    GRID,
    SEEN,
    KilledError,
    draw,
    history,
    killed_at,
    result,
    same_result,
    study,
)

SETTINGS = {"model": "affine", "stages": [{"n_steps": 3}], "priors": {"bending": 0.1}}
FIRST = [
    "history.csv",
    "moving_1.nii.gz",
    "result.json",
    "transform_1.tfm",
    "transform_2.tfm",
    "volume.nii.gz",
]
SECOND = [name.replace(".", ".2.", 1) if name != "result.json" else name for name in FIRST]


def write(folder: Path, written: Any) -> None:
    write_result(folder, written, study=study(), settings=SETTINGS)


def leftovers(folder: Path) -> set[str]:
    """Return the hidden files of transforms, which have other names each time."""
    return {path.name for path in folder.glob(".*.tfm") if "unfinished" not in path.name}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(dtype: torch.dtype, tmp_path: Path) -> None:
    write(tmp_path, result(dtype=dtype))
    assert sorted(os.listdir(tmp_path)) == FIRST
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
        itk = sitk.ReadTransform(str(tmp_path / f"transform_{number + 1}.tfm"))
        np.testing.assert_allclose(moved_by_itk(itk, points), expected, atol=1e-9)


def test_a_person_can_read_the_index_and_the_history(tmp_path: Path) -> None:
    written = result(transforms=(Translation(GRID), Rigid(GRID)))
    write(tmp_path, written)
    index = json.loads((tmp_path / "result.json").read_text())
    assert index["status"] == "step limit"
    shift = written.motions[0].physical()["translation_mm"]
    assert index["transforms"][0]["physical"]["translation_mm"] == shift.tolist()  # type: ignore[union-attr]
    assert [entry["model"] for entry in index["transforms"]] == ["Translation", "Rigid"]
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
    assert sorted(os.listdir(tmp_path)) == ["history.csv", "result.json", "volume.nii.gz"]


def test_a_new_result_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    for seed in range(3):
        write(tmp_path, result(seed))
    assert same_result(read_result(tmp_path), result(2))
    assert sorted(os.listdir(tmp_path)) == sorted(
        [*(name.replace(".2.", ".3.") for name in SECOND), "notes.txt"]
    )


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_result_or_the_new(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = result(0), result(1)
    kept = []
    for call in range(1, 60):
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
            write(folder, new)
            assert same_result(read_result(folder), new)
            generation = 4 if kept[-1] else 3
            expected = [name.replace(".2.", f".{generation}.") for name in SECOND]
            assert sorted(set(os.listdir(folder)) - leftovers(folder)) == expected
        else:
            break
    assert len(kept) > 20
    assert kept == sorted(kept)
    assert set(kept) == {False, True}


def test_a_kill_of_the_first_write_leaves_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KilledError), killed_at(12, after=True, monkeypatch=monkeypatch):
        write(tmp_path, result(0))
    assert "history.csv" in os.listdir(tmp_path)
    with pytest.raises(FileError, match=r"read_result: expected a result at .*result\.json; got nothing"):
        read_result(tmp_path)
    write(tmp_path, result(1))
    assert same_result(read_result(tmp_path), result(1))


def test_a_reader_that_is_overtaken_reads_the_new_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, result(0))
    original = result_folder.read_index
    overtaken = []

    def slow(where: str, folder: Path) -> dict[str, Any]:
        index = original(where, folder)
        if where == "read_result" and not overtaken:
            overtaken.append(True)
            write(tmp_path, result(1))
        return index

    monkeypatch.setattr(result_folder, "read_index", slow)
    assert same_result(read_result(tmp_path), result(1))


def test_a_full_disk_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, result(0))

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            FileError, match=r"expected to write .*history.*\.csv; got: No space left on device"
        ):
            write(tmp_path, result(1))
    assert same_result(read_result(tmp_path), result(0))


@pytest.mark.parametrize("name", [name for name in FIRST if name != "result.json"])
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _change(format="other"),
            r"expected .*result\.json of format 'duotomo result', version 1; got 'other'",
        ),
        (_change(version=2), r"got 'duotomo result', version 2\. Use the duotomo that wrote it"),
        (
            _change(generation="1"),
            r"as write_result wrote it; got: a generation or a file name that cannot be",
        ),
        (
            _change(replaced=["../volume.nii.gz"]),
            r"got: a generation or a file name that cannot be\. Restore",
        ),
        (
            _change(files=[]),
            r"expected .*result\.json as write_result wrote it; got: .*choose another folder",
        ),
        (lambda index: [index], r"expected .*result\.json as write_result wrote it; got: list"),
        (
            _change(status="well"),
            r"expected result\.json as write_result wrote it; got: 'well' is not a valid",
        ),
        (_change(grid={}), r"expected result\.json as write_result wrote it; got: .*VolumeGrid"),
        (_change(files={}), r"expected result\.json as write_result wrote it; got: 'volume'"),
    ],
)
def test_an_index_that_makes_no_sense_is_refused(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    write(tmp_path, result())
    path = tmp_path / "result.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(FileError, match=rf"read_result: .*{message}"):
        read_result(tmp_path)


def test_a_truncated_index_is_refused_and_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, result())
    path = tmp_path / "result.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(FileError, match=r"write_result: expected .*result\.json as write_result wrote it"):
        write(tmp_path, result(1))


@pytest.mark.parametrize("name", ["volume", "history", "transform_1", "a/b", "", "moving 1"])
def test_names_that_files_cannot_have_are_refused(name: str, tmp_path: Path) -> None:
    odd = replace(result(), others={name: result().volume})
    with pytest.raises(
        FileError, match=r"write_result: expected other volumes and files to have names of letters"
    ):
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


def test_quality_displacements_and_further_files_are_part_of_the_result(tmp_path: Path) -> None:
    written = result()
    extra = Extra(suffix=".txt", write=lambda path: path.write_text("for people") and None)
    quality = {"folded_voxels": [0, 3]}
    for _ in range(2):
        write_result(
            tmp_path,
            written,
            study=study(),
            settings={},
            quality=quality,
            extras={"remarks": extra},
            displacements=True,
        )
    saved = read_result(tmp_path)
    assert same_result(saved, written)
    assert saved.quality == quality
    index = json.loads((tmp_path / "result.json").read_text())
    kinds = {name: file["kind"] for name, file in index["files"].items()}
    assert kinds["remarks"] == "other"
    assert kinds["displacement_2"] == "displacement"
    assert kinds["moving_1"] == "volume"
    assert (tmp_path / "remarks.2.txt").read_text() == "for people"
    motion = read_displacement(tmp_path / "displacement_2.2.nii.gz")
    expected = written.motions[1].displacement(SEEN)
    torch.testing.assert_close(motion.displacement(), expected)
    assert {path.name for path in tmp_path.iterdir()} == {
        "result.json",
        *(file["file"] for file in index["files"].values()),
    }


def test_displacements_of_many_voxels_are_coarser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_folder, "MOST_VECTORS", 20)
    write_result(tmp_path, result(), study=study(), settings={}, displacements=True)
    motion = read_displacement(tmp_path / "displacement_1.nii.gz")
    coarse = GRID.coarsen(2)
    assert (motion.grid.shape, motion.grid.spacing_mm) == (coarse.shape, coarse.spacing_mm)
    assert motion.grid.center_mm == pytest.approx(coarse.center_mm)


def test_a_result_without_a_study_names_its_grids(tmp_path: Path) -> None:
    write_result(tmp_path, result(), moving_grids=[GRID, SEEN], settings={})
    assert same_result(read_result(tmp_path), result())
    with pytest.raises(DuotomoError, match=r"write_result: expected a study, or a grid for each of 2"):
        write_result(tmp_path, result(), moving_grids=[GRID], settings={})


def test_further_files_have_names_of_their_own(tmp_path: Path) -> None:
    extra = Extra(suffix=".txt", write=lambda path: None)
    for name in ("volume", "history", "../out", "moving_1"):
        with pytest.raises(FileError, match="write_result: expected other volumes and files to have names"):
            write_result(tmp_path, result(), study=study(), settings={}, extras={name: extra})
    assert list(tmp_path.iterdir()) == []


def test_results_without_kinds_are_read(tmp_path: Path) -> None:
    write_result(tmp_path, result(), study=study(), settings={})
    index = json.loads((tmp_path / "result.json").read_text())
    for file in index["files"].values():
        del file["kind"]
    del index["quality"]
    (tmp_path / "result.json").write_text(json.dumps(index))
    assert same_result(read_result(tmp_path), result())
    assert read_result(tmp_path).quality == {}


@pytest.mark.parametrize("name", ["..", "", "../elsewhere", "/etc/passwd", "."])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    write_result(tmp_path, result(), study=study(), settings={})
    index = json.loads((tmp_path / "result.json").read_text())
    for changed in (
        {"replaced": [name]},
        {"files": {**index["files"], "volume": {"file": name, "sha256": ""}}},
    ):
        (tmp_path / "result.json").write_text(json.dumps(index | changed))
        with pytest.raises(FileError, match="a generation or a file name that cannot be"):
            read_result(tmp_path)
        with pytest.raises(FileError, match="a generation or a file name that cannot be"):
            write_result(tmp_path, result(), study=study(), settings={})
