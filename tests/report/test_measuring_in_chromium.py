"""What a reader measures and takes away, and what the page says of the breast, in a real browser."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from duotomo.report.page import write_page
from duotomo.transforms import Motion, Translation
from tests.report.chromium import Page, expected_pixel, to_slice
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save

SHIFT_MM = (18.0, -9.0, 0.0)
"""From the second visit to the reference: what `MOVED` shows was at its place less this."""

ITEMS = "return [...document.querySelectorAll('.measures li span')].map((one) => one.textContent)"
READOUT = "return document.querySelector(`[data-role=${arguments[0]}] .readout`).textContent"
MINUS = "\N{MINUS SIGN}"


def own_volume() -> torch.Tensor:
    """Return what the second visit shows in its own frame, whose landmark lies elsewhere."""
    volume = torch.full(GRID.shape, 0.02)
    volume[MOVED[0], MOVED[1] + 6, MOVED[2] - 12] = 0.09
    return volume


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transform = Translation(GRID)
    motion = Motion(transform, transform.params(translation_mm=SHIFT_MM))
    others = {"visit_1": body(LANDMARK), "visit_2_registered": body(MOVED), "visit_2": own_volume()}
    facts = {"facts": {"laterality": "L", "view": "CC"}}
    settings = {"method": "simultaneous", "visits": [facts, facts]}
    made = result(motion=motion, others=others)
    return write_page(save(tmp_path_factory.mktemp("measured"), made, settings=settings))


@pytest.fixture(scope="module")
def opened(driver: Any, path: Path) -> Page:
    return Page(driver, path)


@pytest.fixture
def page(opened: Page) -> Page:
    """Return the page as it was opened, but for the crosshair, whose colour would be taken for tissue."""
    opened.key("r")
    opened.script("document.querySelector(\".measures [aria-label='Remove all measurements']\").click()")
    opened.set("Second picture", "visit_2_registered")
    opened.key("c")
    to_slice(opened, LANDMARK[0])
    return opened


def downloaded(page: Page, folder: Path, name: str, button: str) -> bytes:
    """Press a button that saves a file; return the file."""
    behaviour = {"behavior": "allow", "downloadPath": str(folder)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    page.script("document.querySelector(arguments[0]).click()", button)
    page.until(lambda: (folder / name).is_file() and (folder / name).stat().st_size > 0, 15)
    return (folder / name).read_bytes()


def test_a_ruler_measures_millimetres_in_the_plane(page: Page) -> None:
    page.set("Left drag", "ruler")
    start, end = (expected_pixel(page, "prior", (5, *at)) for at in ((8, 10), (20, 26)))
    page.drag("prior", start, end, "left")
    length = math.hypot(12 * 1.5, 16 * 1.5)
    (told,) = page.script(ITEMS)
    assert told.startswith("Ruler 1: ")
    assert float(told.split()[2]) == pytest.approx(length, abs=0.4)
    # Drawn in all pictures of this slice, and of no other.
    assert page.data("reference", "marks") == "ruler 1"
    page.key("ArrowDown")
    page.settle()
    assert page.data("reference", "marks") == ""
    # A click is no length.
    page.drag("prior", start, start, "left")
    assert len(page.script(ITEMS)) == 1
    page.key("Delete")
    page.settle()
    assert page.script(ITEMS) == []


def test_a_region_has_mean_deviation_and_area_of_both_visits(page: Page, tmp_path: Path) -> None:
    page.set("Left drag", "region")
    start, end = (expected_pixel(page, "reference", (5, *at)) for at in ((11, 9), (21, 17)))
    page.drag("reference", start, end, "left")
    saved = downloaded(page, tmp_path, "measurements.json", ".measures button[aria-label='Save as JSON']")
    (found,) = json.loads(saved)["measurements"]
    radii_mm = (5 * 1.5, 4 * 1.5)
    assert found["area_mm2"] == pytest.approx(math.pi * radii_mm[0] * radii_mm[1], rel=0.05)
    y, x = np.mgrid[: GRID.shape[1], : GRID.shape[2]]
    middle = found["center_mm"]
    x_mm, y_mm = (x + 0.5 - GRID.shape[2] / 2) * 1.5, (y + 0.5) * 1.5 + GRID.low_mm[1]
    inside = ((x_mm - middle[0]) / found["radii_mm"][1]) ** 2 + (
        (y_mm - middle[1]) / found["radii_mm"][0]
    ) ** 2 <= 1
    for row, volume in zip(found["statistics"], (body(LANDMARK), body(MOVED)), strict=False):
        values = volume[LANDMARK[0]].numpy()[inside]
        assert row["n"] == values.size
        assert row["mean"] == pytest.approx(values.mean(), abs=1e-4)
        assert row["sd"] == pytest.approx(values.std(ddof=1), abs=1e-4)
    difference = found["statistics"][2]
    assert difference["mean"] > 0.001
    told = page.script(ITEMS)[0]
    assert f"{found['area_mm2']:.1f} mm²" in told
    assert f"mean {found['statistics'][0]['mean']:.4f}" in told


def test_a_pair_of_landmarks_says_how_far_registration_leaves_them(page: Page, tmp_path: Path) -> None:
    page.set("Left drag", "landmark")
    page.click("reference", *expected_pixel(page, "reference", LANDMARK))
    assert "mark it in the other visit too" in page.script(ITEMS)[0]
    page.click("prior", *expected_pixel(page, "prior", MOVED))
    apart_mm = 1.5 * math.hypot(LANDMARK[1] - MOVED[1], LANDMARK[2] - MOVED[2])
    before_mm = math.hypot(1.5 * (MOVED[2] - LANDMARK[2]) - 18, 1.5 * (MOVED[1] - LANDMARK[1]) + 9)
    assert page.script(ITEMS) == [
        f"Landmark 1: {apart_mm:.1f} mm apart after registration, {before_mm:.1f} mm before"
    ]
    # The same in the prior visit's own frame: its place there is brought over by the motion.
    page.set("Second picture", "visit_2")
    page.click("reference", *expected_pixel(page, "reference", LANDMARK))
    own = (MOVED[0], MOVED[1] + 6, MOVED[2] - 12)
    page.click("prior", *expected_pixel(page, "prior", own))
    assert page.script(ITEMS)[1].replace("2:", "1:", 1) == page.script(ITEMS)[0]
    # A place that was marked in one picture is drawn in the other where its tissue lies.
    assert page.data("prior", "marks") == "landmark 1; landmark 2"
    text = downloaded(page, tmp_path, "measurements.csv", ".measures button[aria-label='Save as CSV']")
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert [row["picture"] for row in rows] == ["Visit 2, registered", "Visit 2, not registered"]
    for row in rows:
        assert float(row["distance_mm"]) == pytest.approx(apart_mm, abs=0.3)
    assert page.driver.get_log("browser") == []


def test_the_picture_is_saved_with_what_is_drawn_on_it(page: Page, tmp_path: Path) -> None:
    page.key("a")
    with Image.open(io.BytesIO(downloaded(page, tmp_path, "duotomo.png", "[name=Save]"))) as image:
        assert image.format == "PNG"
        assert set(image.info) <= {"srgb", "gamma", "dpi"}
        pixels = np.asarray(image.convert("RGB")).astype(int)
    _, _, width, height = page.box("reference")
    assert pixels.shape[1] == pytest.approx(3 * width, abs=10)
    shown = page.picture("reference")
    # Below a line that names it.
    assert np.abs(pixels[22 : 22 + height, :width] - shown).mean() < 1
    assert page.driver.get_log("browser") == []


def test_letters_label_and_colour_bar_are_on_the_pictures(page: Page) -> None:
    described = page.script(
        "return [...document.querySelectorAll('.panel')].map((one) => one.getAttribute('aria-label'))"
    )
    assert described == [
        "Visit 1 (reference), L CC",
        "Visit 2, registered, L CC",
        f"Visit 1 {MINUS} Visit 2, registered, L CC",
    ]
    picture = page.picture("reference")
    _, _, width, height = page.box("reference")
    # The label in the upper left corner; the bar goes from black to white in the lower right one.
    assert picture[18:50, 8:120].max() > 200
    bar = picture[height - 24, width - 26 - 92 : width - 28].mean(axis=1)
    assert bar[0] < 40
    assert bar[-1] > 215
    assert (np.diff(bar) >= -1).all()
    assert "L CC" in page.script("return document.getElementById('text').innerText")


def test_the_prior_stands_unregistered_beside_the_reference(page: Page) -> None:
    page.set("Second picture", "visit_2")
    own = (MOVED[0], MOVED[1] + 6, MOVED[2] - 12)
    page.click("prior", *expected_pixel(page, "prior", own))
    assert page.script(READOUT, "prior").startswith("0.0900 1/mm")


def test_where_the_prior_has_no_data_the_difference_is_hatched(page: Page) -> None:
    # The visit was moved by 18 mm along x: so much of the reference has nothing to compare with.
    for voxel, hidden in (((5, 2, 3), True), ((5, 2, 20), False)):
        page.click("difference", *expected_pixel(page, "difference", voxel))
        said = page.script(READOUT, "difference")
        assert said.startswith("not shown\nvisit 2 has no data here") == hidden
        x, y = (round(pixel) for pixel in expected_pixel(page, "difference", voxel))
        patch = page.picture("difference")[y - 8 : y + 8, x - 8 : x + 8]
        # Grey lines on black; without hatch, the colours of the difference.
        grey = (patch.max(axis=2) - patch.min(axis=2) < 20) & (patch.max(axis=2) > 60)
        assert (grey.mean() > 0.05) == hidden
    assert "visit 2 has no data" in page.script("return document.querySelector('.legend').textContent")
    page.key("h")
    page.settle()
    page.click("difference", *expected_pixel(page, "difference", (5, 2, 3)))
    assert page.script(READOUT, "difference").endswith(" 1/mm")
    assert page.driver.get_log("browser") == []


def test_a_mip_shows_what_is_brightest_inside_the_breast(page: Page) -> None:
    page.key("Home")
    page.settle()
    x, y = (round(pixel) for pixel in expected_pixel(page, "reference", LANDMARK))
    assert page.picture("reference")[y, x].mean() < 150
    page.key("p")
    page.settle()
    assert page.picture("reference")[y, x].mean() > 200
    assert page.script("return document.querySelector('[name=MIP]').ariaPressed") == "true"
    page.key("p")
    page.settle()
    assert page.picture("reference")[y, x].mean() < 150
