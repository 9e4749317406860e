"""What changed comes back from a folder of its own and from a result's; damage is refused."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch

from duotomo.change import Change, Silent
from duotomo.change.change import RESEARCH, SILENT_WORDS
from duotomo.geometry import voxel_to_world
from duotomo.io import FileError, read_change, read_result, read_volume, write_change, write_result
from duotomo.io.change_files import FINDINGS, WRITERS
from duotomo.io.json_digest import with_digest
from duotomo.io.result_format import ResultFormat, is_ours
from duotomo.io.result_index import entry_of
from tests.io.change_helpers import GONE, NEW, a_change, same_change
from tests.io.saved_helpers import GRID, SEEN, KilledError, draw, edited_index, killed_at, result, same

SCORES, SILENT, CURRENT, TABLE = "change_z.nii.gz", "change_silent.nii.gz", "current.nii.gz", "findings.csv"
FILES = [SILENT, SCORES, CURRENT, TABLE, FINDINGS]


def beside_a_result(folder: Path, change: Change | None) -> None:
    write_result(folder, result(), moving_grids=(GRID, SEEN), settings={}, change=change)


@pytest.mark.parametrize("write", [write_change, beside_a_result])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(write: Callable[..., Any], dtype: torch.dtype, tmp_path: Path) -> None:
    written = a_change(volume=draw(*GRID.shape, seed=9, dtype=dtype))
    write(tmp_path, written)
    assert set(FILES) <= set(os.listdir(tmp_path))
    assert same_change(read_change(tmp_path), written)


def test_a_result_has_it(tmp_path: Path) -> None:
    beside_a_result(tmp_path, a_change())
    saved = read_result(tmp_path)
    assert same_change(saved.change, a_change())
    assert list(saved.others) == ["visit_2"]
    text = (tmp_path / "README.txt").read_text()
    assert all(name in text for name in FILES)
    assert f"what changed between the visits: 2 findings. {RESEARCH}" in text
    assert all(map(is_ours, FILES))
    beside_a_result(tmp_path, None)
    assert read_result(tmp_path).change is None
    assert not set(FILES) & set(os.listdir(tmp_path))
    with pytest.raises(
        FileError, match=r"read_change: expected a result with findings\.json in .*; got one w"
    ):
        read_change(tmp_path)


@pytest.mark.parametrize("write", [write_change, beside_a_result])
def test_visits_that_were_not_compared_say_why(write: Callable[..., Any], tmp_path: Path) -> None:
    none = Change.none(GRID, draw(*GRID.shape, seed=9), "The visits show different sides.")
    write(tmp_path, none)
    assert same_change(read_change(tmp_path), none)
    content = json.loads((tmp_path / FINDINGS).read_text())
    assert (content["threshold"], content["findings"]) == (None, [])
    assert content["reason"] == "The visits show different sides."
    assert len((tmp_path / TABLE).read_text().splitlines()) == 1


def test_codes_are_explained_and_counted(tmp_path: Path) -> None:
    write_change(tmp_path, a_change())
    rows = json.loads((tmp_path / FINDINGS).read_text())["silent"]
    assert [row["code"] for row in rows] == [int(one) for one in Silent]
    assert {row["code"]: row["words"] for row in rows[1:]} == SILENT_WORDS
    inside = GRID.n_voxels - 1
    assert rows[0]["voxels"] == GRID.n_voxels - len(Silent) + 1
    assert rows[Silent.OUTSIDE_BREAST]["share_of_breast"] is None
    assert rows[Silent.CHEST_WALL]["share_of_breast"] == 1 / inside
    shares = [row["share_of_breast"] for row in rows if row["share_of_breast"] is not None]
    assert sum(shares) == pytest.approx(1)


def test_the_table_has_a_line_for_each_finding(tmp_path: Path) -> None:
    write_change(tmp_path, a_change())
    with (tmp_path / TABLE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, finding in zip(rows, (NEW, GONE), strict=True):
        assert (int(row["number"]), row["kind"], row["words"]) == (
            finding.number,
            finding.kind,
            finding.words,
        )
        assert tuple(float(row[f"{axis}_mm"]) for axis in "xyz") == finding.place_mm
        assert tuple(float(row[f"prior_{axis}_mm"]) for axis in "xyz") == finding.prior_place_mm
        assert float(row["z_score"]) == finding.z
        assert (float(row["size_lower_mm"]), float(row["size_upper_mm"])) == finding.size_interval_mm
        assert float(row["contrast_upper_per_mm"]) == finding.contrast_interval_per_mm[1]
        assert row["research_use_only"] == RESEARCH
    assert "research_use_only" in rows[0]


def test_other_programs_read_the_images(tmp_path: Path) -> None:
    change = a_change()
    write_change(tmp_path, change)
    for name, expected, kind in (
        (SCORES, change.z_map, np.float32),
        (SILENT, change.silent, np.uint8),
        (CURRENT, change.volume, np.float32),
    ):
        image = nibabel.load(tmp_path / name)
        assert image.get_data_dtype() == kind
        assert RESEARCH in image.header["descrip"].item().decode()
        np.testing.assert_array_equal(np.asarray(image.dataobj), expected.numpy().transpose(2, 1, 0))
        np.testing.assert_allclose(
            image.affine @ (2, 3, 1, 1), [*voxel_to_world(GRID, (1, 3, 2)), 1], atol=1e-5
        )


def test_scores_are_said_only_where_something_is_said(tmp_path: Path) -> None:
    scores = draw(*GRID.shape, seed=8)
    write_change(tmp_path, a_change(z_map=scores))
    found = read_change(tmp_path)
    assert torch.equal(found.z_map.isnan(), found.silent > 0)


def test_all_formats_have_the_current_visit(tmp_path: Path) -> None:
    formats = [ResultFormat.MHA, ResultFormat.NRRD]
    write_result(
        tmp_path, result(), moving_grids=(GRID, SEEN), settings={}, change=a_change(), formats=formats
    )
    for name in ("current.mha", "current.nrrd"):
        assert RESEARCH.encode() in (tmp_path / name).read_bytes()[:1000]
        assert same(read_volume(tmp_path / name)[0], a_change().volume)


def test_a_result_is_not_made_wrong(tmp_path: Path) -> None:
    beside_a_result(tmp_path, None)
    with pytest.raises(
        FileError, match=r"write_change: expected a folder without a result; got .*, which has one"
    ):
        write_change(tmp_path, a_change())
    with pytest.raises(FileError, match=r"write_change: expected a folder at .*nowhere; got none"):
        write_change(tmp_path / "nowhere", a_change())


def test_whenever_it_is_killed_one_set_is_whole_or_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = a_change(), a_change(findings=(NEW,))
    seen = set()
    for call in range(1, 60):
        write_change(tmp_path, older)
        try:
            with killed_at(call, after=True, monkeypatch=monkeypatch) as calls:
                write_change(tmp_path, newer)
        except KilledError:
            pass
        try:
            found = read_change(tmp_path)
        except FileError:
            seen.add("said")
        else:
            seen.add(len(found.findings))
            assert same_change(found, older) or same_change(found, newer)
        if len(calls) < call:
            break
    assert seen == {2, "said", 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"threshold": -1.0}, r"got threshold.*greater than or equal to 0"),
        (lambda c: c | {"findings": [c["findings"][0] | {"kind": "other"}]}, r"got findings\.0\.kind"),
        (lambda c: c | {"findings": [c["findings"][0] | {"p_value": 1.5}]}, r"got findings\.0\.p_value"),
        (lambda c: c | {"findings": [c["findings"][0] | {"more": 1}]}, r"got findings\.0\.more"),
        (lambda c: c | {"false_findings": {"thresholds": [1.0], "expected": []}}, "as many numbers"),
        (lambda c: c | {"false_findings": {"thresholds": [2.0, 1.0], "expected": [1.0, 1.0]}}, "that rise"),
        (lambda c: c | {"findings": [c["findings"][0] | {"z": -7.25}]}, "below for what is gone"),
        (
            lambda c: c | {"findings": [c["findings"][0] | {"size_mm": 4.0}]},
            "an interval that holds its value",
        ),
        (lambda c: c | {"reason": "Other sides."}, "no findings where visits were not compared"),
        (lambda c: c | {"findings": c["findings"][1:]}, "numbers from 1 on"),
        (lambda c: c | {"threshold": 6.0}, r"the largest \|z\| first, and none below the threshold"),
        (lambda c: c | {"findings": [c["findings"][0] | {"slice_index": 4}]}, "places on the grid"),
        (lambda c: c | {"format": "other"}, "expected JSON as it was written"),
        (lambda c: c | {"grid": c["grid"] | {"shape": [4, 6, 6]}}, r"expected the grid of findings\.json"),
    ],
)
def test_findings_that_were_edited_are_refused(
    change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    write_change(tmp_path, a_change())
    content = json.loads((tmp_path / FINDINGS).read_text())
    content.pop("sha256")
    changed = json.dumps(change(content))
    (tmp_path / FINDINGS).write_text(changed)
    with pytest.raises(
        FileError, match=rf"read_change: .*{FINDINGS}: .*got: no SHA-256 of itself at its end"
    ):
        read_change(tmp_path)
    (tmp_path / FINDINGS).write_text(with_digest(json.loads(changed)))
    with pytest.raises(FileError, match=rf"(?s)read_change: .*{message}"):
        read_change(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (SILENT, np.full((5, 6, 4), 77, np.uint8), f"expected bytes below {len(Silent)}; got others"),
        (SILENT, np.zeros((5, 6, 4), np.int16), f"expected bytes below {len(Silent)}; got others"),
        (SCORES, np.ones((5, 6, 4), np.float32), f"expected scores, and NaN where {SILENT} is not 0"),
        (SCORES, np.full((5, 6, 4), np.inf, np.float32), f"expected scores, and NaN where {SILENT} is not 0"),
        (CURRENT, np.ones((5, 6, 5), np.float32), r"expected the grid of findings\.json"),
    ],
)
def test_an_image_of_something_else_is_refused(name: str, values: Any, message: str, tmp_path: Path) -> None:
    beside_a_result(tmp_path, a_change())
    affine = nibabel.load(tmp_path / name).affine
    nibabel.Nifti1Image(values, affine).to_filename(tmp_path / name)
    with pytest.raises(FileError, match=f"expected {name} as it was written"):
        read_result(tmp_path)
    edited_index(tmp_path, lambda c: c | {"files": c["files"] | {name: entry_of("any", tmp_path / name)}})
    with pytest.raises(FileError, match=rf"read_change: .*{name}: {message}"):
        read_result(tmp_path)


def test_a_change_on_another_grid_than_its_result_is_refused(tmp_path: Path) -> None:
    beside_a_result(tmp_path, a_change(SEEN, findings=()))
    with pytest.raises(FileError, match=r"expected the grid of result\.json to be that of findings\.json"):
        read_result(tmp_path)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    write_change(tmp_path, a_change())
    (tmp_path / FINDINGS).write_text(" " * (2**24 + 1))
    with pytest.raises(FileError, match="a file of more than"):
        read_change(tmp_path)
    (tmp_path / FINDINGS).unlink()
    with pytest.raises(
        FileError, match=rf"{FINDINGS}: expected JSON as write_change wrote it; got: .*No such file"
    ):
        read_change(tmp_path)


def test_every_file_has_a_writer() -> None:
    assert sorted(WRITERS) == FILES
