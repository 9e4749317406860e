"""Points of the figure of how cost grows."""

from __future__ import annotations

import math

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
