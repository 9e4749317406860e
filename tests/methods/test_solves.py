"""A covariance that is interrupted goes on after the last batch that was kept, and is the same."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from duotomo.methods import MotionUncertainty, Settings, Study, solves, uncertainty_of
from duotomo.methods.profiled_curvature import ProfiledColumns, ProfiledCurvature
from duotomo.methods.solves import Rows
from duotomo.transforms import Affine, BSpline, Transform
from tests.cases.studies import GRID, shifted, study
from tests.methods.test_uncertainty import noisier, solved

AT_ONCE = 5


class InMemory:
    """A store that ends the computation once it has kept so many batches."""

    def __init__(self, most: int | None = None) -> None:
        self.kept: dict[tuple[str, str], Rows] = {}
        self.most = most

    def load(self, name: str, key: str) -> Rows | None:
        return self.kept.get((name, key))

    def save(self, name: str, key: str, rows: Rows) -> None:
        if len(self.kept) == self.most:
            raise KeyboardInterrupt
        self.kept[name, key] = {part: values.clone() for part, values in rows.items()}


@pytest.fixture(scope="module")
def visits() -> Study:
    return noisier(study(shifted(2.0, -1.0, 1.0)), 0.01)


@pytest.fixture
def n_solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give how many directions every batch is solved for; batches are small, and each is kept."""
    monkeypatch.setattr(solves, "MOST_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(solves, "EVERY_S", 0.0)
    counted: list[int] = []
    columns = ProfiledCurvature.columns

    def counting(self: ProfiledCurvature, directions: torch.Tensor) -> ProfiledColumns:
        counted.append(len(directions))
        return columns(self, directions)

    monkeypatch.setattr(ProfiledCurvature, "columns", counting)
    return counted


def same(one: MotionUncertainty, other: MotionUncertainty) -> bool:
    return torch.equal(one.modes, other.modes) and torch.equal(one.core, other.core)


def n_kept(store: InMemory) -> int:
    return sum(len(next(iter(rows.values()))) for rows in store.kept.values())


@pytest.mark.parametrize(
    ("transform", "most"),
    [(Affine(GRID), 2), (BSpline.shaped((4, 4, 4))(GRID), 2), (BSpline.shaped((4, 4, 4))(GRID), 6)],
    ids=["few", "many, in the search", "many, after it"],
)
def test_interrupted_it_goes_on_to_the_same(
    transform: Transform, most: int, visits: Study, n_solves: list[int]
) -> None:
    settings, result = Settings.staged(GRID, Affine), solved(visits, transform)
    options: dict[str, Any] = {"n_modes": 8, "n_steps": 4}
    (expected,) = uncertainty_of(visits, settings, result, **options)
    n_all, store = sum(n_solves), InMemory(most)
    with pytest.raises(KeyboardInterrupt):
        uncertainty_of(visits, settings, result, **options, store=store)
    assert len(store.kept) == most
    n_left, store.most = n_all - n_kept(store), None
    heard: list[tuple[int, int]] = []
    for left in (n_left, 0):
        n_solves.clear()
        (found,) = uncertainty_of(
            visits, settings, result, **options, store=store, on_part=lambda *part: heard.append(part)
        )
        assert same(found, expected)
        assert sum(n_solves) == left
        assert heard[-1] == (n_all, n_all)


def test_solves_at_another_volume_are_not_used(visits: Study, n_solves: list[int]) -> None:
    settings, result, store = Settings.staged(GRID, Affine), solved(visits, Affine(GRID)), InMemory()
    uncertainty_of(visits, settings, result, store=store)
    n_solves.clear()
    other = replace(result, volume=1.01 * result.volume)
    (found,) = uncertainty_of(visits, settings, other, store=store)
    assert sum(n_solves) == 12
    assert same(found, uncertainty_of(visits, settings, other)[0])
    n_solves.clear()
    uncertainty_of(visits, settings, result, store=store, tolerance=0.2)
    assert sum(n_solves) == 12


def test_short_batches_wait_for_each_other(
    visits: Study, n_solves: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(solves, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(solves, "EVERY_S", 2.0)
    store = InMemory()
    uncertainty_of(visits, Settings.staged(GRID, Affine), solved(visits, Affine(GRID)), store=store)
    assert [name for name, _ in store.kept] == ["columns_0", "columns_5"]
