"""Points of the figure of how cost grows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.growth import AXES, WARM, Case, measured_apart, settings_of, slope, study_of
from duotomo.methods import simultaneous

SMALL = Case(voxel_edge=12, n_views=3, n_visits=3)


def test_axes_vary_what_they_are_named_for() -> None:
    for along, cases in AXES.items():
        counts = [case.count(along) for case in cases]
        others = [name for name in AXES if name != along]
        assert counts[-1] >= 100 * counts[0], along
        assert all(len({case.count(name) for case in cases}) == 1 for name in others), along


def test_a_point_makes_enough_steps_of_as_many_visits_as_it_says() -> None:
    study = study_of(SMALL, "cpu")
    result = simultaneous(study, settings_of(SMALL))
    assert len(study.visits) == 3
    assert len(result.history) > WARM + 5


def test_exponents_are_those_of_powers() -> None:
    counts = [10.0, 100.0, 1000.0]
    assert math.isclose(slope(counts, [n**1.5 for n in counts]), 1.5)


def test_a_point_that_fails_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "asdict", lambda case: {"voxel_edge": 12, "n_views": 0})
    assert "expected n_views" in measured_apart(SMALL, "cpu")["failed"]


def test_points_that_are_measured_again_replace_older_ones_and_others_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "growth.json"
    older = [
        {"device": device, "along": along, "count": count, "step_s": 9.0, "bytes": 9, "bytes_said": 9}
        for device, along, count in (("cuda", "views", 3), ("cpu", "visits", 2), ("cpu", "views", 3))
    ]
    path.write_text(json.dumps(older))

    def measured(case: Case, device: str, limit_s: float) -> dict[str, float]:
        return {"step_s": case.n_views**0.5, "bytes": case.n_views, "bytes_said": 1}

    monkeypatch.setattr(growth, "measured_apart", measured)
    monkeypatch.setattr("sys.argv", ["growth", "--along", "views", "--json", str(path)])
    growth.main()
    rows = json.loads(path.read_text())
    kept = [row for row in rows if row["step_s"] == 9.0]
    assert [(row["device"], row["along"]) for row in kept] == [("cpu", "visits"), ("cuda", "views")]
    assert [row["count"] for row in rows if (row["device"], row["along"]) == ("cpu", "views")] == [
        case.n_views for case in AXES["views"]
    ]
    assert "cpu, views: time grows with the power 0.50, memory with 1.00" in capsys.readouterr().out
