"""What the benchmark of two views reads from a case, and how its rows are judged."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from benchmarks.two_view_case import Truth, TwoViewCase
from benchmarks.two_views import judge, missed_mm, plates_mm, roll_deg, stepping, volume_error
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings
from duotomo.transforms import Motion, Translation

GRID = VolumeGrid.on_detector((8, 10, 10), (2.0, 2.0, 2.0))


def case_of(**about: Any) -> TwoViewCase:
    points = np.array([[0.0, 5.0, 8.0], [3.0, 9.0, 4.0]])
    views = {"cc": points + np.array([2.0, 0.0, 0.0]), "mlo": points}
    truths = {name: SimpleNamespace(landmarks_mm=at) for name, at in views.items()}
    return cast(TwoViewCase, SimpleNamespace(about=about, **truths))


def test_plates_and_the_signed_angle_come_from_the_header() -> None:
    views = {
        "cc": {"support_mm": 5.0, "thickness_mm": 50.0},
        "mlo": {"support_mm": 6.0, "thickness_mm": 60.0, "roll_rad": -0.7},
    }
    case = case_of(mlo_angle_deg=41.0, **views)
    assert plates_mm(case) == [(5.0, 55.0), (6.0, 66.0)]
    assert roll_deg(case) == -41.0


def test_landmarks_are_missed_by_what_a_motion_leaves() -> None:
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=(2.0, 0.0, 1.5)))
    assert missed_mm(motion, case_of()) == [1.5, 1.5]


def test_the_error_of_a_volume_is_that_of_deep_tissue_before_the_edge_of_the_detector() -> None:
    truth = np.zeros(GRID.shape)
    truth[1:7, :8, 1:9] = 0.05
    found = np.concatenate([np.full((8, 3, 10), 9.0), 1.1 * truth], axis=1)
    found[:, 3 + 8 :] = 9.0
    one = cast(Truth, SimpleNamespace(volume=truth, grid=GRID))
    assert volume_error(torch.from_numpy(found), one) == pytest.approx(0.1)


def test_only_stages_of_a_motion_are_cut_short() -> None:
    stages = stepping(Settings.staged(GRID, Translation), 7).stages
    assert max(stage.n_steps for stage in stages) <= 7


def test_all_breasts_of_a_split_count_and_others_do_not(tmp_path: Path) -> None:
    for number, (split, missed) in enumerate(
        (("judged", [1.0, 3.0]), ("judged", [2.0, 8.0]), ("development", [99.0]))
    ):
        row = {
            "case": f"breast {number}",
            "split": split,
            "method": "modes",
            "apart_mm": 10.0,
            "missed_mm": missed,
            "trusted": number == 0,
            "volume_error": 0.2,
            "volume_error_alone": 0.1,
            "seconds": 5.0,
            "ellipsoids": {"told": 4 * number, "held": 3 * number, "search_ml": [0.5] * 4 * number},
        }
        folder = tmp_path / f"case_{number:02d}"
        folder.mkdir()
        (folder / "modes.json").write_text(json.dumps(row))
    (found,) = judge(tmp_path, "judged")
    assert (found["breasts"], found["median_mm"], found["trusted"]) == (2, 2.5, 1)
    assert (found["worst_breast"], found["worst_breast_median_mm"]) == ("breast 1", 5.0)
    assert found["volume_over_one_view"] == [2.0, 2.0]
    # The first breast has none.
    assert found["ellipsoids"] == {"breasts": 1, "told": 4, "held": 0.75, "search_ml": 0.5}
