"""Each change of an input does what its name says, and rows say whether the cause was named."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import bad_inputs
from benchmarks.bad_inputs import CHANGES, Row, changed, cropped, line, moved, row_of, summary
from duotomo.methods import Study, Visit
from duotomo.methods.input_checks import input_checks
from duotomo.operators import Projector
from tests.cases.studies import GRID, SCAN, seen, shifted, study, truth

NOTHING_EXPECTED = ("untouched", "unseen_5mm", "unseen_2deg")


def visit() -> Visit:
    return seen(shifted(3.0, 0.0, 2.0))


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in NOTHING_EXPECTED])
def test_every_change_of_the_data_fails_a_check_that_names_its_cause(change: str) -> None:
    apply, words = CHANGES[change]
    bad = Study(grid=GRID, visits=(study().reference, apply(visit())))
    texts = [check.text for check in input_checks(bad) if not check.passed]
    assert any(word in text for word in words for text in texts), texts


def test_a_whole_scanner_that_is_shifted_shows_a_shifted_breast() -> None:
    wrong = moved(visit(), source=(3.0, 0.0, 0.0), detector=(3.0, 0.0, 0.0))
    elsewhere = shifted(-3.0, 0.0, 0.0).warp(GRID, GRID)(truth())
    there = Projector(grid=GRID, acquisition=wrong.acquisition)(elsewhere)
    here = Projector(grid=GRID, acquisition=SCAN)(truth())
    torch.testing.assert_close(there, here, atol=1e-4, rtol=1e-4)


def test_the_tube_turns_about_the_axis_of_the_sweep() -> None:
    wrong = moved(visit(), tube_deg=2.0, views=slice(1, 2)).acquisition
    before, after = (torch.tensor(one.source_mm, dtype=torch.float64) for one in (SCAN, wrong))
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
    turn = math.atan2(float(after[1, 0]), float(after[1, 2])) - math.atan2(
        float(before[1, 0]), float(before[1, 2])
    )
    assert math.degrees(turn) == pytest.approx(2.0)


def test_a_cropped_detector_shows_the_same_rays() -> None:
    cut = cropped(visit())
    again = seen(shifted(3.0, 0.0, 2.0), acquisition=cut.acquisition)
    torch.testing.assert_close(cut.projections, again.projections, atol=1e-5, rtol=1e-5)


def case(name: str) -> Any:
    return SimpleNamespace(name=name, study=study(shifted(3.0, 0.0, 2.0)), relative_error=lambda _: 0.1)


def test_a_side_that_is_not_there_is_left_out(tmp_path: Any) -> None:
    assert changed(case("KR_wave_0"), "other_side", tmp_path, 3.0, "cpu") is None


def test_a_run_that_ends_with_an_error_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise bad_inputs.DuotomoError("Do the visits show the same breast?")

    monkeypatch.setattr(bad_inputs, "simultaneous", fails)
    row = row_of(case("KR_wave_0"), "other_breast", study(shifted(3.0, 0.0, 2.0)))
    assert (row["trusted"], row["named"], row["status"]) == (False, True, "error")
    assert "error" in line(row)


def test_the_summary_counts_what_was_trusted_and_named() -> None:
    rows: list[Row] = [
        {"change": "swapped", "trusted": False, "named": True},
        {"change": "swapped", "trusted": True, "named": False},
    ]
    assert "trusted 1 of 2, cause named 1" in summary(rows)


def test_a_failed_check_stands_in_its_line_with_value_and_limit() -> None:
    row: Row = {
        "case": "AL_small_0",
        "change": "swapped",
        "trusted": False,
        "named": True,
        "seconds": 1.0,
        "tre_mm": 2.0,
        "failed": [{"name": "views together", "value": 5.9, "limit": 0.7}],
    }
    assert "views together 5.9 (limit 0.7)" in line(row)


def test_a_change_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bad_inputs", "cases", "--changes", "untouched,upside_down"])
    with pytest.raises(SystemExit):
        bad_inputs.main()
    assert re.search(r"expected some of untouched, .*; got upside_down", capsys.readouterr().err)
