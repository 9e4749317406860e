"""Where a visit has no data, what is inside the breast, and which breast it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import resample_to_reference
from duotomo.report.page_breast import breast_label, breast_letters, is_right
from duotomo.report.page_deformation import page_deformation
from duotomo.report.page_seen import unseen_after_motion, unseen_in_place
from duotomo.report.page_volumes import page_volumes
from duotomo.report.page_window import inside_breast, tissue_window
from duotomo.transforms import Affine, Motion, Translation
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, spline

SMALLER = VolumeGrid.on_detector((10, 26, 30), (2.0, 1.5, 1.5), gap_mm=3.0)


def shift() -> Motion:
    transform = Translation(GRID)
    return Motion(transform, transform.params(translation_mm=(4.0, -6.0, 1.0)))


def stretch() -> Motion:
    transform = Affine(GRID)
    return Motion(transform, transform.identity() + 0.03)


@pytest.mark.parametrize("own", [GRID, SMALLER])
@pytest.mark.parametrize("motion", [shift(), stretch(), spline()])
def test_no_data_are_where_resampling_takes_from_outside(motion: Motion, own: VolumeGrid) -> None:
    unseen = unseen_after_motion(own, page_deformation(motion, GRID), GRID)
    ones = resample_to_reference(torch.ones(own.shape), motion, grid=GRID, moving_grid=own)
    expected = (ones <= 0.99).numpy()
    assert 0.02 < expected.mean() < 0.98
    # A deformation is known on a lattice, and linear between its points.
    assert (unseen != expected).mean() < 0.002


def test_without_motion_no_data_are_outside_of_the_visits_own_box() -> None:
    assert not unseen_in_place(GRID, GRID).any()
    seen = ~unseen_in_place(SMALLER, GRID)
    assert seen.sum() == SMALLER.n_voxels


def test_the_difference_in_the_strongest_colours_is_one_of_tissue() -> None:
    registered = body(LANDMARK) * 0.99
    motion = shift()
    seen = resample_to_reference(torch.ones(GRID.shape), motion, grid=GRID, moving_grid=GRID) > 0.99
    made = result(
        motion=motion,
        others={"visit_1": body(LANDMARK), "visit_2_registered": registered * seen, "visit_2": body(MOVED)},
    )
    saved: Any = _Saved(made)
    # Without its mask the border of the volume would be as strong as tissue itself.
    assert page_volumes(saved).spread < 0.002


class _Saved:
    """A result as if it had been read."""

    def __init__(self, made: Any) -> None:
        self.made, self.change, self.settings = made, None, {}

    saved_uncertainties = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)


def test_neither_skin_nor_a_bright_edge_changes_the_window() -> None:
    plain = body(LANDMARK).numpy()
    inside = inside_breast(plain, GRID)
    assert 0.02 < inside.mean() < 0.5
    assert inside[LANDMARK]
    low, high = tissue_window(plain, inside)
    assert 0.0 < low < 0.05 < 0.09 < high
    bright = np.where((plain > 0) & ~inside, 5 * plain, plain)
    assert tissue_window(bright, inside) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("facts", "label", "x"),
    [
        ({"laterality": "L", "view": "CC"}, "L CC", ("L", "R")),
        ({"laterality": "R", "view": "MLO"}, "R MLO", ("FL", "HR")),
        ({"laterality": "R", "view": "CC"}, "R CC", ("L", "R")),
        ({"view": "CC"}, "CC", ("L", "R")),
    ],
)
def test_letters_are_those_of_the_side_and_the_view(
    facts: dict[str, str], label: str, x: tuple[str, str]
) -> None:
    settings = {"visits": [{"facts": facts, "warnings": []}]}
    found = breast_letters(settings)
    assert found is not None
    assert breast_label(settings, 1) == label
    assert found["x"] == x
    assert found["y"] == ("P", "A")
    assert is_right(settings) == (facts.get("laterality") == "R")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"visits": []},
        {"visits": ["far"]},
        {"visits": [{"facts": {"laterality": "<b>", "view": "<i>"}}]},
        {"visits": [{"facts": {"laterality": "L"}}]},
        {"visits": [{"facts": {"view": "MLO"}}]},
        {
            "visits": [
                {
                    "facts": {"laterality": "L", "view": "CC"},
                    "warnings": ["No Patient Orientation (0020,0020): rows are taken as v."],
                }
            ]
        },
    ],
)
def test_without_side_view_or_orientation_there_are_no_letters(settings: dict[str, Any]) -> None:
    assert breast_letters(settings) is None
    assert "<" not in breast_label(settings, 1)
    assert breast_label(settings, 7) == ""
