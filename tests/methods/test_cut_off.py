"""A breast whose shadow runs along an edge of the detector, other than that at the chest wall, is cut off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from duotomo.methods import Visit
from duotomo.methods.cut_off import CUT_MM, cut_off
from tests.cli.tiny import tiny_study

WHOLE = slice(None)
EDGES = {
    "in front of the nipple": (-1, WHOLE),
    "at -x": (WHOLE, 0),
    "at +x": (WHOLE, -1),
}


def shadow(*places: tuple[int | slice, int | slice]) -> Visit:
    """Return a visit that shows nothing but a shadow at some places, (v, u), in its most upright view."""
    visit = tiny_study().reference
    views = torch.zeros_like(visit.projections)
    upright = int(np.argmin(np.abs(visit.acquisition.angles_rad)))
    views[:, 5, 5] = 1.0
    for place in places:
        views[upright][place] = 1.0
    return replace(visit, projections=views)


@pytest.mark.parametrize("edge", EDGES)
def test_the_edge_that_cuts_is_named_with_its_length(edge: str) -> None:
    visit = shadow(EDGES[edge])
    n, mm = (
        (visit.projections.shape[2], visit.acquisition.pixel_spacing_mm[1])
        if edge.endswith("nipple")
        else (visit.projections.shape[1], visit.acquisition.pixel_spacing_mm[0])
    )
    check = cut_off(2, visit)
    assert not check.passed
    assert check.value == pytest.approx(n * mm)
    assert (
        f"Visit 2: the breast is cut off by the detector's edge {edge}, over {n * mm:.0f} mm." in check.text
    )


def test_the_chest_wall_cuts_every_breast() -> None:
    check = cut_off(1, shadow((0, slice(1, -1))))
    assert check.passed
    assert check.value == 0


def test_a_short_part_of_an_edge_may_be_in_the_shadow() -> None:
    mm = shadow().acquisition.pixel_spacing_mm[0]
    longest = int(CUT_MM // mm)
    assert cut_off(1, shadow((slice(longest), 0))).passed
    assert not cut_off(1, shadow((slice(longest + 1), 0))).passed


def test_only_the_most_upright_view_counts() -> None:
    visit = shadow()
    visit.projections[0, -1] = 1.0
    assert cut_off(1, visit).passed


def test_pixels_without_weight_are_no_edge() -> None:
    bright = shadow(*EDGES.values())
    weights = torch.ones_like(bright.projections)
    weights[:, -1], weights[:, :, 0], weights[:, :, -1] = 0, 0, 0
    assert cut_off(1, replace(bright, weights=weights)).passed
