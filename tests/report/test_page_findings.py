"""What the page says of a change is what was found, and nothing is shown where nothing is said."""

from __future__ import annotations

import gzip
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from duotomo.change import Change, FalseFindings, Silent
from duotomo.change.change import RESEARCH, SILENT_WORDS
from duotomo.report import page, page_volumes
from duotomo.report.page_change import NO_SCORE, SCORE_STEP, nearest, page_maps
from duotomo.report.page_findings import expected_at, findings_html
from tests.report.page_changes import CURVE, FINDINGS, THRESHOLD, change, finding
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save
from tests.report.test_page import HOSTILE, SCRIPT, STYLE, Parsed


@pytest.fixture(autouse=True)
def _small_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the built viewer, which these tests do not run."""
    monkeypatch.setattr(page, "viewer_part", {page.SCRIPT: SCRIPT, page.STYLE: STYLE}.__getitem__)


def parsed(folder: Path, made: Change | None, **changes: Any) -> Parsed:
    return Parsed(page.write_page(save(folder, result(**changes), change=made)).read_text(encoding="utf-8"))


def array(found: Parsed, element: str, kind: str) -> np.ndarray[Any, Any]:
    content = gzip.decompress(b64decode(found.data[element]))
    return np.frombuffer(content, dtype=kind).reshape(found.described()["lattice"]["shape"][::-1])


def test_the_page_holds_the_maps_and_the_findings(tmp_path: Path) -> None:
    made = change()
    found = parsed(tmp_path, made)
    told = found.described()["change"]
    scores, silent = array(found, told["scores"], "<i2"), array(found, told["silent"], "u1")
    assert np.array_equal(silent, made.silent.numpy())
    assert np.array_equal(scores == told["none"], made.z_map.isnan().numpy())
    stated = silent == 0
    z = made.z_map.numpy()[stated]
    np.testing.assert_allclose(told["step"] * scores[stated], z, atol=SCORE_STEP / 2 + 1e-5)
    assert told["threshold"] == THRESHOLD
    assert (tuple(told["thresholds"]), tuple(told["expected"])) == (CURVE.thresholds, CURVE.expected)
    assert [(one["number"], one["kind"], one["z"]) for one in told["findings"]] == [
        (1, "new", 6.8),
        (2, "gone", -5.2),
    ]
    assert [tuple(one["place"]) for one in told["findings"]] == [one.place_mm for one in FINDINGS]
    assert told["prior"] == "visit_2_registered"
    assert told["reasons"] == {str(int(code)): words for code, words in SILENT_WORDS.items()}


def test_the_undiluted_volume_is_among_the_pictures(tmp_path: Path) -> None:
    volume = 2 * body(LANDMARK)
    found = parsed(tmp_path, change(volume=volume))
    titles = {one["name"]: one["title"] for one in found.described()["volumes"]}
    assert titles["undiluted"] == "Visit 1, undiluted"
    assert found.described()["reference"] == "visit_1"
    np.testing.assert_allclose(found.volume("undiluted"), volume, atol=found.described()["slope"] / 2, rtol=0)


def test_without_the_reference_alone_the_undiluted_volume_is_shown_first(tmp_path: Path) -> None:
    described = parsed(tmp_path, change(), others={}).described()
    assert (described["reference"], described["prior"]) == ("undiluted", None)
    assert [one["title"] for one in described["volumes"]] == ["Visit 1, undiluted", "All visits together"]


def test_the_list_says_all_of_a_finding(tmp_path: Path) -> None:
    words = " ".join(parsed(tmp_path, change()).words)
    for told in (
        "25 mm from the chest wall, slice 6",
        "5.0 mm (4.1 to 6.2)",
        "+0.040 (+0.032 to +0.048)",
        "\N{MINUS SIGN}0.040 (\N{MINUS SIGN}0.048 to \N{MINUS SIGN}0.032)",
        "z = +6.8",
        "z = \N{MINUS SIGN}5.2",
        "0.01 to expect per breast",
        "2 %",
        "slice 6; x",
        "sphere of 5 mm, drawn out to 9 mm in depth",
    ):
        assert told in words


@pytest.mark.parametrize("made", [None, change()], ids=["no change known", "change"])
def test_research_use_stands_on_every_page(tmp_path: Path, made: Change | None) -> None:
    found = parsed(tmp_path, made)
    assert RESEARCH in found.words
    assert "footer" in found.tags
    assert ("Findings" in found.words) == (made is not None)
    assert (found.described()["change"] is None) == (made is None)


def test_no_findings_and_a_reason_are_told_plainly(tmp_path: Path) -> None:
    none = parsed(tmp_path / "none", change(findings=()))
    assert "No change found above |z| = 4.5." in " ".join(none.words)
    reason = "The motion is <not> trusted."
    why = parsed(tmp_path / "why", change(findings=(), reason=reason))
    assert reason in " ".join(why.words)
    assert "No change found" not in " ".join(why.words)
    assert not why.described()["change"]["compared"]
    # No scores are shown of visits that were not compared, nor their volume.
    assert (array(why, "scores", "<i2") == NO_SCORE).all()
    assert "undiluted" not in [one["name"] for one in why.described()["volumes"]]


def test_hostile_words_of_a_finding_stay_words(tmp_path: Path) -> None:
    hostile = finding(1, LANDMARK, 6.8, words=HOSTILE, template=HOSTILE)
    tame = parsed(tmp_path / "tame", change(findings=FINDINGS[:1]))
    found = parsed(tmp_path / "hostile", change(findings=(hostile,)))
    assert found.tags == tame.tags
    assert "".join(found.words).count(HOSTILE) == 2


def test_coarse_blocks_keep_the_surest_score_and_any_silence() -> None:
    z_map = torch.zeros(GRID.shape)
    z_map[4, 6, 6], z_map[4, 7, 7], z_map[6, 8, 8] = 3.0, -8.0, torch.nan
    silent = torch.zeros(GRID.shape, dtype=torch.uint8)
    silent[6, 8, 8] = Silent.MOTION_UNDETERMINED
    maps = page_maps(change(z_map=z_map, silent=silent), GRID, (1, 2, 2))
    assert maps.scores.shape == (12, 15, 20)
    assert maps.scores[4, 3, 3] == -80
    assert (maps.scores[6, 4, 4], maps.silent[6, 4, 4]) == (NO_SCORE, Silent.MOTION_UNDETERMINED)
    assert (maps.silent != 0).sum() == 1


def test_maps_of_another_grid_come_to_the_places_of_the_page() -> None:
    coarse = GRID.coarsen((2, 2, 2))
    values = torch.arange(coarse.n_voxels).reshape(coarse.shape)
    fine = nearest(values, coarse, GRID)
    repeated = values.repeat_interleave(2, 0).repeat_interleave(2, 1).repeat_interleave(2, 2)
    assert torch.equal(fine, repeated)
    assert torch.equal(nearest(values, coarse, coarse), values)


def test_the_skin_does_not_set_the_range_of_the_difference(tmp_path: Path) -> None:
    made = change()
    thick = body(MOVED)
    thick[(made.silent != 0) & (thick > 0)] += 0.5
    others = {"visit_1": body(LANDMARK), "visit_2_registered": thick}
    spreads = [
        parsed(tmp_path / name, one, others=others).described()["spread"]
        for name, one in (("plain", None), ("stated", made))
    ]
    assert spreads[0] == pytest.approx(0.5, abs=0.01)
    assert spreads[1] == pytest.approx(0.04, abs=0.01)


def test_slices_are_those_of_a_coarsened_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "slice 3;" in findings_html(change(), slices=2)
    monkeypatch.setattr(page_volumes, "MOST_VOXELS", GRID.n_voxels // 4)
    found = parsed(tmp_path, change())
    assert array(found, "silent", "u1").shape == (12, 15, 20)


def test_false_findings_between_thresholds_and_beyond() -> None:
    assert expected_at(CURVE, 4.0) == pytest.approx(2.0)
    assert expected_at(CURVE, 4.5) == pytest.approx(np.sqrt(2.0 * 0.2))
    assert (expected_at(CURVE, 1.0), expected_at(CURVE, 9.0)) == (20.0, 0.001)
    ends = FalseFindings(thresholds=(3.0, 4.0), expected=(1.0, 0.0))
    assert expected_at(ends, 3.5) == pytest.approx(0.5)
    assert expected_at(FalseFindings(thresholds=(), expected=()), 3.0) is None
