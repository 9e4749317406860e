"""The cases of change detection: what changed is where the case says, and nothing else is said to have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.change_anatomies import ANATOMIES, WALL_MM, Anatomy, half_ellipsoid_placements
from benchmarks.change_cases import ChangeCase, make, named, plan
from benchmarks.change_plan import chosen
from benchmarks.change_treatment import USUAL, Treatment
from duotomo.change.finding import Xyz
from duotomo.errors import DuotomoError
from duotomo.geometry.frame import voxel_centers_mm, voxel_to_world
from duotomo.phantoms import BreastShape, Density

TINY = Anatomy(name="tiny", density="scattered", split="development")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anatomies")
    shape = BreastShape(center_mm=(0.0, -WALL_MM, 26.0), radii_mm=(38.0, 50.0, 26.0))
    half_ellipsoid_placements(shape, Density.B, seed=1, thickness_mm=36.0).write(folder / "tiny.npz")
    return folder


def tiny(name: str, cache: Path, *, without_lesion: bool = False) -> ChangeCase:
    """Return a case; without its lesion, all else stays the same: it follows from the name."""
    spec = named(name, [TINY])
    return make(replace(spec, kind="none") if without_lesion else spec, cache)


def middle_mm(case: ChangeCase, change: torch.Tensor) -> list[float]:
    """Return the centroid of a change, xyz."""
    weights = change.double().numpy().reshape(-1, 1)
    points = voxel_centers_mm(case.study.grid).reshape(-1, 3)
    middle: list[float] = ((points * weights).sum(axis=0) / weights.sum()).tolist()
    return middle


def near(place_mm: Xyz | None) -> object:
    assert place_mm is not None
    return pytest.approx(place_mm, abs=0.6)


@pytest.mark.parametrize(
    "name",
    [
        "tiny-mass-8mm-round-fat-plain-0",
        "tiny-growth-8mm-round-fat-roll-1",
        "tiny-gone-8mm-round-fat-weight-2",
    ],
)
def test_what_changed_is_where_the_case_says(name: str, cache: Path) -> None:
    case, without = tiny(name, cache), tiny(name, cache, without_lesion=True)
    now, before = case.truth - without.truth, case.prior_truth - without.prior_truth
    assert bool(now.any()) == (case.kind != "gone")
    assert bool(before.any()) == (case.kind != "mass")
    if bool(now.any()):
        assert middle_mm(case, now) == near(case.lesion_mm)
    if bool(before.any()):
        assert middle_mm(case, before) == near(case.prior_lesion_mm)
    # The tissue of the lesion at the prior visit is that of the lesion at the current one.
    carried = case.motion.points(torch.tensor([case.prior_lesion_mm], dtype=torch.float64))[0].tolist()
    assert carried == near(case.lesion_mm)
    assert (case.lesion_contrast_per_mm < 0) == (case.kind == "gone")


def test_the_contrast_is_that_of_the_truth(cache: Path) -> None:
    name = "tiny-mass-8mm-round-fat-repeat-0"
    case = tiny(name, cache)
    total = float((case.truth - case.prior_truth).double().sum()) * 8.0
    assert total == pytest.approx(case.lesion_contrast_per_mm * np.pi / 6 * 8**3, rel=0.1)
    assert case.tissue == "fat"


def test_cases_are_the_same_each_time_they_are_made(cache: Path) -> None:
    name = "tiny-calcifications-8mm-round-fat-chest_wall-3"
    one, other = tiny(name, cache), tiny(name, cache)
    for a, b in zip(one.study.visits, other.study.visits, strict=True):
        assert torch.equal(a.projections, b.projections)
    assert torch.equal(one.truth, other.truth)
    assert one.lesion_mm == other.lesion_mm


def test_a_repeat_differs_by_noise_of_the_stated_variance(cache: Path) -> None:
    case = tiny("tiny-none-repeat-0", cache)
    assert case.lesion_mm is None
    assert case.lesion_contrast_per_mm == 0
    assert torch.equal(case.truth, case.prior_truth)
    first, second = case.study.visits
    assert first.weights is not None
    assert second.weights is not None
    variance = 1 / first.weights + 1 / second.weights
    ratio = (first.projections - second.projections).square() / variance
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("nuisance", "low_mm", "high_mm"), [("chest_wall", 3.0, 14.0), ("plain", 0.5, 9.0), ("repeat", 0.0, 0.01)]
)
def test_nuisances_move_the_breast(nuisance: str, low_mm: float, high_mm: float, cache: Path) -> None:
    case = tiny(f"tiny-none-{nuisance}-0", cache)
    inside = torch.nonzero(case.prior_truth > 0.03).numpy()[::50]
    points = torch.from_numpy(voxel_to_world(case.study.grid, inside).copy())
    moved_mm = float((case.motion.points(points) - points).norm(dim=1).mean())
    assert low_mm <= moved_mm <= high_mm


def test_a_plan_is_balanced() -> None:
    specs = plan(60, 120)
    assert len({spec.name for spec in specs}) == 180
    assert [spec.kind == "none" for spec in specs].count(True) == 60
    for split in ("development", "judged"):
        mine = [spec for spec in specs if spec.anatomy.split == split and spec.kind != "none"]
        counts = Counter((spec.kind, spec.size_mm, spec.spiculated, spec.tissue) for spec in mine)
        assert max(counts.values()) - min(counts.values()) <= 1
        by_nuisance = Counter(spec.nuisance for spec in mine)
        assert max(by_nuisance.values()) - min(by_nuisance.values()) <= 1
    assert plan(60, 120) == specs


def test_no_woman_is_in_both_splits() -> None:
    women = {(one.name[0], one.split) for one in ANATOMIES if one.chest_wall_mm is not None}
    assert len(women) == len({woman for woman, _ in women}) == 8
    assert Counter(one.split for one in ANATOMIES if one.chest_wall_mm is None) == {
        "development": 8,
        "judged": 8,
    }


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DuotomoError, match="expected the name of a case"):
        named("fatty1-mass-4mm-round-fat-plain-0")
    with pytest.raises(DuotomoError, match="prepare --cache"):
        make(named("fatty1-none-plain-0"), tmp_path)


def test_cases_are_chosen_by_name_or_by_split(tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("fatty1-none-roll-7\n\nAL-mass-8mm-round-fat-plain-12\n")
    assert [one.name for one in chosen(2, 2, split=None, names=names)] == names.read_text().split()
    assert {one.anatomy.split for one in chosen(40, 40, split="judged")} == {"judged"}
    assert len(chosen(5, 6, split=None)) == 11


def test_what_is_done_at_the_chest_wall_leaves_the_rest_as_it_was(cache: Path) -> None:
    study = tiny("tiny-none-chest_wall-0", cache).study
    assert USUAL.of(study) is study
    longer = Treatment(behind_mm=15.0).of(study)
    assert longer.grid.low_mm[1] == pytest.approx(study.grid.low_mm[1] - 16.0, abs=1.01)
    assert longer.grid.high_mm == study.grid.high_mm
    assert longer.grid_of(longer.visits[1]) == study.grid
    blind = Treatment(blind_mm=12.0).of(study)
    weights = blind.visits[1].weights
    assert weights is not None
    assert study.visits[1].weights is not None
    assert not weights[:, :6].any()
    assert torch.equal(weights[:, 6:], study.visits[1].weights[:, 6:])
    assert blind.reference is study.reference
