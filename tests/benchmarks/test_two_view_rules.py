"""Radiologists' rules: where they are exact, and how large a place they leave to search."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import two_view_rules
from benchmarks.two_view_case import Truth
from benchmarks.two_view_rules import RULES, errors_mm, half_width_mm, line, rows, search, sphere, turn
from benchmarks.two_view_squeeze import turned
from duotomo.geometry import VolumeGrid

ROLL = 0.8


def truth() -> Truth:
    """Return a box of tissue, 60 x 50 x 40 mm, with 40 landmarks."""
    grid = VolumeGrid(shape=(20, 25, 30), spacing_mm=(2.0,) * 3, center_mm=(20.0, 25.0, 0.0))
    points = np.random.default_rng(0).uniform((-25, 5, 5), (25, 40, 35), size=(40, 3))
    return Truth(
        volume=np.full(grid.shape, 0.05),
        grid=grid,
        landmarks_mm=points,
        lesions_mm=points[:2],
        nipple_mm=np.array([0.0, 50.0, 20.0]),
        nodes_mm=points,
        thickness_mm=40.0,
    )


def rolled() -> Truth:
    one = truth()
    points = one.nipple_mm + turned(one.landmarks_mm - one.nipple_mm, ROLL)
    return replace(one, landmarks_mm=points + 3.0, nipple_mm=one.nipple_mm + 3.0)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_where_nothing_moves_no_rule_errs(rule: Any) -> None:
    one = truth()
    found = search(rule, one, one, 2.0)
    assert np.abs(found.errors_mm).max() == 0
    assert found.breast_ml == pytest.approx(120.0)
    assert (found.volumes_ml < found.breast_ml).all()


def test_a_stiff_turn_breaks_the_arc_alone() -> None:
    one, other = truth(), rolled()
    assert errors_mm(line, one, other) == pytest.approx(0)
    assert errors_mm(sphere, one, other) == pytest.approx(0)
    assert np.abs(errors_mm(RULES["arc"], one, other)).max() > 3
    assert turn(one, other, ROLL) == pytest.approx(other.landmarks_mm)


def test_a_band_of_the_line_is_a_slab() -> None:
    one = truth()
    found = search(line, one, one, 5.0)
    # 10 mm of 50, of which voxels take 8 to 10 and more.
    assert found.volumes_ml.mean() == pytest.approx(24.0, rel=0.1)
    # The middle of a slab says nothing of x and z.
    true = np.hypot(one.landmarks_mm[:, 0], one.landmarks_mm[:, 2] - 20.0)
    assert found.distances_mm == pytest.approx(true, abs=1.5)


def test_a_band_without_tissue_leaves_the_voxel_nearest_to_it() -> None:
    one = truth()
    near = replace(one, landmarks_mm=np.array([[0.0, 10.0, 20.0]]))
    far = replace(one, landmarks_mm=np.array([[0.0, -30.0, 20.0]]))
    found = search(line, far, near, 1.0)
    assert found.volumes_ml.tolist() == [0.0]
    # A voxel of the first slice at the chest wall.
    assert 9.0 <= found.distances_mm[0] < 40.0


def test_widths_hold_nineteen_of_twenty_and_the_table_has_all_rules() -> None:
    about = {"cc": {"roll_rad": 0.0}, "mlo": {"roll_rad": ROLL}}
    case: Any = SimpleNamespace(cc=truth(), mlo=rolled(), about=about)
    widths = {name: half_width_mm(rule, [case]) for name, rule in RULES.items()}
    errors = np.abs(errors_mm(RULES["arc"], case.mlo, case.cc))
    assert np.mean(errors <= widths["arc"]) == pytest.approx(0.95)
    table = rows([case], widths)
    assert len(table) == 8
    # The turn is exact here.
    assert next(row for row in table if "turn" in row).endswith("| 0.0 |")


def test_a_folder_without_cases_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["two_view_rules", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"two_view_rules: no case_\* in"):
        two_view_rules.main()
