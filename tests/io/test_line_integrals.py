"""Counts become line integrals, dead pixels are filled from live ones, and each step says what it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError, NonFiniteError
from duotomo.io.line_integrals import MOST_DEAD, LogSettings, fill_dead, open_field, to_line_integrals
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Values
from tests.cases.scans import arc
from tests.io.saved_helpers import SCAN, draw

INTEGRALS = 4 * draw(*SCAN.shape, seed=0, dtype=torch.float64)


def counts(flat: Any = 5000.0, integrals: torch.Tensor = INTEGRALS, **fields: Any) -> Scan:
    """Return what a detector without noise counts."""
    return Scan(projections=flat * torch.exp(-integrals), values=Values.COUNTS, acquisition=SCAN, **fields)


@given(flat=st.floats(1.0, 1e6), offset=st.floats(0.0, 1e3))
def test_the_logarithm_undoes_the_exponential(flat: float, offset: float) -> None:
    scan = counts(flat)
    scan = replace(scan, projections=scan.projections + offset)
    found, words = to_line_integrals(scan, LogSettings(flat_field=flat, scatter_offset=offset))
    torch.testing.assert_close(found.projections, INTEGRALS, rtol=0, atol=1e-7)
    assert found.values is Values.LINE_INTEGRALS
    assert any("scatter" in line for line in words) == (offset > 0)


@pytest.mark.parametrize(
    "flat",
    [
        torch.tensor(5000.0),
        5000 * (1 + draw(*SCAN.detector_shape, seed=1)),
        5000 * (1 + draw(SCAN.n_views, 1, 1, seed=1)),
        5000 * (1 + draw(*SCAN.shape, seed=1)),
    ],
    ids=["number", "detector", "views", "pixels"],
)
def test_the_files_flat_field_counts_unless_another_is_given(flat: torch.Tensor) -> None:
    scan = counts(flat.double(), flat_field=flat)
    found, words = to_line_integrals(scan)
    torch.testing.assert_close(found.projections, INTEGRALS, rtol=0, atol=1e-6)
    assert found.flat_field is None
    assert words[0].startswith("flat field: the file's, ")
    other, words = to_line_integrals(scan, LogSettings(flat_field=5000 * np.e))
    assert words[0] == "flat field: 13591.4 counts, as given, instead of the file's"
    expected = INTEGRALS + 1 - torch.log(flat.double() / 5000)
    torch.testing.assert_close(other.projections, expected, rtol=0, atol=1e-6)


def test_line_integrals_stay_what_they_are() -> None:
    scan = Scan(projections=INTEGRALS, values=Values.LINE_INTEGRALS, acquisition=SCAN)
    found, words = to_line_integrals(scan, LogSettings(flat_field=3.0))
    assert found is scan
    assert words == ("line integrals already: nothing was done",)


def test_precision_and_everything_else_are_kept() -> None:
    scan = counts(facts={"kVp": "30"}, warnings=("one",), thickness_mm=50.0, format="x")
    found, _ = to_line_integrals(
        replace(scan, projections=scan.projections.float()), LogSettings(flat_field=5e3)
    )
    assert found.projections.dtype == torch.float32
    assert (dict(found.facts), found.warnings, found.thickness_mm, found.format) == (
        {"kVp": "30"}, ("one",), 50.0, "x",
    )  # fmt: skip


def test_dead_pixels_are_filled_from_their_neighbours() -> None:
    smooth = torch.linspace(1, 2, 7, dtype=torch.float64).expand(SCAN.shape)
    scan = counts(integrals=smooth)
    broken = scan.projections.clone()
    places = [(0, 2, 3), (1, 3, 3), (2, 1, 2), (0, 5, 6)]
    for place, value in zip(places, (0.0, torch.nan, torch.inf, 6e4), strict=True):
        broken[place] = value
    settings = LogSettings(flat_field=5000.0, saturation=5e4)
    found, words = to_line_integrals(replace(scan, projections=broken), settings)
    assert words[1] == (
        "dead pixels: 4 of 126 (2 NaN or infinite, 1 without counts, 1 saturated) filled from "
        "their neighbours"
    )
    for place in places:
        assert abs(found.projections[place] - smooth[place]) < 0.15
    live = torch.ones(SCAN.shape, dtype=torch.bool)
    live[tuple(zip(*places, strict=True))] = False
    torch.testing.assert_close(found.projections[live], smooth[live], rtol=0, atol=1e-12)
    assert found.warnings == ("3.2% of the pixels are dead; they were filled from others",)


def test_pixels_without_flat_field_are_dead() -> None:
    flat = torch.full(SCAN.detector_shape, 5000.0)
    flat[2, 2], flat[4, 4] = 0.0, torch.nan
    found, words = to_line_integrals(counts(flat_field=flat))
    assert torch.isfinite(found.projections).all()
    assert "dead pixels: 6 of 126 (6 without flat field) filled" in words[1]


def test_dead_pixels_may_be_left() -> None:
    scan = counts()
    scan.projections[0, 0, 0] = 0.0
    settings = LogSettings(flat_field=5000.0, repair_dead=False, least_transmission=1e-3)
    found, words = to_line_integrals(scan, settings)
    assert found.projections[0, 0, 0].item() == pytest.approx(-np.log(1e-3))
    assert words[1] == "dead pixels: 1 of 126 left as they are"
    assert words[2].startswith("logarithm: 1 of 126 pixels taken to let through 0.001; ")
    scan.projections[0, 0, 0] = torch.nan
    with pytest.raises(
        NonFiniteError, match=r"expected finite counts and a positive .*; got 1 pixels without"
    ):
        to_line_integrals(scan, settings)


def test_bright_pixels_are_negative_unless_clipped() -> None:
    scan = counts(integrals=INTEGRALS - 1)
    n_bright = int((INTEGRALS < 1).sum())
    kept, words = to_line_integrals(scan, LogSettings(flat_field=5000.0))
    torch.testing.assert_close(kept.projections, INTEGRALS - 1, rtol=0, atol=1e-12)
    assert words[-1].endswith(f"; {n_bright} brighter than the flat field")
    clipped, words = to_line_integrals(scan, LogSettings(flat_field=5000.0, clip_negative=True))
    torch.testing.assert_close(clipped.projections, (INTEGRALS - 1).clamp(min=0), rtol=0, atol=1e-12)
    assert words[-1].endswith("brighter than the flat field, which became 0")


@pytest.mark.parametrize("gain", [0.2, 1.0, 30.0])
def test_the_open_field_is_found_behind_noise(gain: float) -> None:
    """A breast that covers half of the detector; the tube's output changes from view to view."""
    scan = arc((60, 80), 1.0, n_views=3, degrees=23.0)
    generator = torch.Generator().manual_seed(3)
    u = torch.linspace(-1, 1, 80, dtype=torch.float64)
    thickness = 3 * torch.sqrt((1 - (u / 0.5) ** 2).clamp(min=0)).expand(scan.shape)
    output = torch.tensor([4000.0, 5000.0, 6000.0], dtype=torch.float64).reshape(3, 1, 1)
    noisy = gain * torch.poisson(output * torch.exp(-thickness), generator=generator)
    noisy[:, 0, :4] *= 3  # Hot pixels.
    found, words = to_line_integrals(
        Scan(projections=noisy, values=Values.COUNTS, acquisition=scan), LogSettings(estimate_flat_field=True)
    )
    flat, share = open_field(noisy, torch.zeros(scan.shape, dtype=torch.bool))
    assert ((flat / (gain * output) - 1).abs() < 3e-3).all()
    assert ((share > 0.4) & (share < 0.6)).all()
    assert "of each view's pixels that nothing covers" in words[0]
    middle = found.projections[:, 10:, 35:45].mean()
    assert abs(middle - thickness[:, 10:, 35:45].mean()) < 0.02


def test_a_covered_detector_has_no_open_field() -> None:
    ramp = torch.logspace(0, 6, 100 * 80, dtype=torch.float64).reshape(1, 100, 80)
    with pytest.raises(DuotomoError, match=r"expected at least 1% of the pixels uncovered; got .* in view 0"):
        open_field(
            torch.cat([ramp[..., :40, :].repeat(1, 2, 1) / 100, ramp[:, 99:]], 1),
            torch.zeros(1, 81, 80).bool(),
        )
    with pytest.raises(DuotomoError, match=r"open_field: expected pixels with counts; got none in view 0"):
        open_field(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4).bool())


def test_counts_need_a_flat_field() -> None:
    with pytest.raises(
        DuotomoError, match=r"expected the flat field of counts; got none\. Give `flat_field`"
    ):
        to_line_integrals(counts())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flat_field", 0.0),
        ("flat_field", float("nan")),
        ("scatter_offset", -1.0),
        ("least_transmission", 0.0),
        ("least_transmission", 1.0),
        ("saturation", -5.0),
    ],
)
def test_settings_are_checked(name: str, value: float) -> None:
    with pytest.raises(DuotomoError, match=rf"LogSettings: expected {name} .*; got {value}"):
        LogSettings(**{name: value})


# Filling.


@given(seed=st.integers(0, 50), share=st.floats(0.0, 0.45))
def test_filling_keeps_live_pixels_and_stays_between_them(seed: int, share: float) -> None:
    image = draw(2, 9, 11, seed=seed)
    dead = draw(2, 9, 11, seed=seed + 1000) < share
    dead[:, 0, 0] = False
    assume(dead.flatten(1).double().mean(dim=1).max() <= MOST_DEAD)
    filled = fill_dead(torch.where(dead, torch.nan, image), dead)
    assert torch.equal(filled[~dead], image[~dead])
    for view in range(2):
        live = image[view][~dead[view]]
        assert filled[view].min() >= live.min() - 1e-6
        assert filled[view].max() <= live.max() + 1e-6


def test_filling_a_plane_gives_the_plane() -> None:
    v, u = torch.meshgrid(torch.arange(9.0), torch.arange(11.0), indexing="ij")
    plane = (2 * v - 3 * u)[None].double()
    dead = torch.zeros(1, 9, 11, dtype=torch.bool)
    dead[0, 4, 5] = dead[0, 2, 2] = True
    torch.testing.assert_close(fill_dead(torch.where(dead, torch.inf, plane), dead), plane)


def test_a_dead_view_is_refused() -> None:
    dead = torch.zeros(2, 4, 4, dtype=torch.bool)
    dead[1, :3] = True
    with pytest.raises(DuotomoError, match=r"expected at most 50% dead pixels in a view; got 75% in view 1"):
        fill_dead(torch.ones(2, 4, 4), dead)
