"""The page in a real browser: pictures are drawn and linked, and nothing leaves the page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotomo.report.page import write_page
from duotomo.report.page_window import inside_breast
from tests.report.chromium import PANELS, WIDTH, Page, Pixels, expected_pixel, to_slice
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save, spline, sure

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def compared_path(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = result(motion=spline())
    return write_page(save(tmp_path_factory.mktemp("compared"), made, settings={"hostile": HOSTILE}))


@pytest.fixture(scope="module")
def opened(driver: Any, compared_path: Path) -> Page:
    return Page(driver, compared_path)


@pytest.fixture
def compared(opened: Page) -> Page:
    opened.key("r")
    # The crosshair's colour would be taken for tissue.
    opened.key("c")
    opened.settle()
    return opened


def brightest(picture: Pixels) -> tuple[float, float]:
    """Return the middle (x, y) of the brightest pixels, away from the rim, where words stand."""
    grey = picture.min(axis=2).astype(float)
    grey[:40], grey[-45:], grey[:, :24], grey[:, -24:] = 0, 0, 0, 0
    rows, columns = np.nonzero(grey >= grey.max() - 2)
    return float(columns.mean()), float(rows.mean())


def test_volumes_are_drawn_and_a_landmark_is_where_it_belongs(compared: Page) -> None:
    to_slice(compared, LANDMARK[0])
    for role, voxel in (("reference", LANDMARK), ("prior", MOVED)):
        picture = compared.picture(role)
        assert picture.max() > 200
        assert (picture.max(axis=2) < 20).mean() > 0.1
        assert 0.2 < (picture.min(axis=2) > 40).mean() < 0.95
        found, expected = brightest(picture), expected_pixel(compared, role, voxel)
        assert np.hypot(found[0] - expected[0], found[1] - expected[1]) < 3
    # Purple where the second visit has more, orange where the first has.
    difference = compared.picture("difference")
    for voxel, channel in ((LANDMARK, 0), (MOVED, 2)):
        x, y = (round(pixel) for pixel in expected_pixel(compared, "difference", voxel))
        rgb = difference[y, x]
        assert rgb[channel] == rgb.max()
        assert rgb.max() - rgb.min() > 30


def test_pictures_share_slice_and_crosshair(compared: Page) -> None:
    to_slice(compared, 4)
    x, y = expected_pixel(compared, "prior", LANDMARK)
    compared.click("prior", x, y)
    compared.key("c")
    compared.settle()
    for role in PANELS:
        at = [float(part) for part in compared.data(role, "crosshair").split()]
        assert at == pytest.approx([x, y], abs=1)
        # Its line is there, yellow, on each.
        row = compared.picture(role)[round(at[1]), 30:90]
        assert (row[:, 0] > row[:, 2] + 40).mean() > 0.9
    compared.mouse("difference", "mouseWheel", 100, 300, deltaX=0, deltaY=120)
    compared.settle()
    slices = {compared.data(role, "slice") for role in PANELS}
    assert slices == {"5"}


def test_blink_shows_the_other_visit_in_the_same_place(compared: Page) -> None:
    to_slice(compared, LANDMARK[0])
    left, top, width, height = compared.box("reference")
    place = (slice(top, top + height), slice(left, left + width))
    first, second = compared.picture("reference"), compared.picture("prior")
    compared.key("b")
    blinked = compared.screen()[place]
    assert compared.box("prior")[:2] == (left, top)
    assert np.abs(blinked - second).mean() < 1 < np.abs(blinked - first).mean()
    compared.key("b")
    assert np.abs(compared.screen()[place] - first).mean() < 1


def test_blinking_by_itself_starts_and_stops(compared: Page) -> None:
    places = set()

    def both() -> bool:
        places.add(compared.box("reference")[0])
        return len(places) == 2

    compared.key("B")
    compared.until(both, 10)
    compared.key("B")
    compared.settle()
    place = compared.box("reference")
    time.sleep(0.8)
    assert compared.box("reference") == place


def test_one_picture_can_be_large_and_blinks_in_place(compared: Page) -> None:
    side_by_side = compared.box("reference")
    compared.key("1")
    compared.settle()
    first = compared.picture("reference")
    assert compared.box("reference")[2] > 2 * side_by_side[2]
    compared.key("b")
    second = compared.picture("reference")
    assert np.abs(second - first).mean() > 0.5
    compared.key("0")
    compared.settle()
    assert compared.box("difference")[2] == pytest.approx(side_by_side[2], abs=1)


def test_a_slab_is_the_mean_or_the_maximum_of_its_slices(compared: Page) -> None:
    z = LANDMARK[0] + 2
    to_slice(compared, z)
    x, y = (round(pixel) for pixel in expected_pixel(compared, "reference", LANDMARK))

    def brightness() -> float:
        return float(compared.picture("reference")[y, x].mean())

    alone = brightness()
    # Three slices of 2 mm.
    compared.set("Slab, mm", "6")
    mean = brightness()
    compared.key("m")
    maximum = brightness()
    assert alone + 10 < mean < maximum - 10
    assert maximum > 200
    compared.key("r")
    assert brightness() == pytest.approx(alone, abs=2)


def test_the_window_follows_the_mouse_the_keys_and_the_inputs(compared: Page) -> None:
    before, level = float(compared.value("Window")), float(compared.value("Level"))
    dark = compared.picture("reference").mean()
    compared.drag("reference", (100, 200), (200, 200), "right")
    wider = float(compared.value("Window"))
    assert wider > 1.5 * before
    compared.drag("prior", (100, 200), (100, 100), "right")
    assert float(compared.value("Level")) < level
    assert compared.picture("reference").mean() > dark
    compared.key("r")
    compared.key("c")
    compared.key("ArrowLeft")
    compared.settle()
    assert float(compared.value("Window")) < before
    compared.set("Level", "0.2")
    compared.settle()
    assert compared.picture("reference")[60:-60, 40:-40].max() < 60


def test_the_grid_and_the_volume_change_are_drawn_over_the_pictures(compared: Page) -> None:
    to_slice(compared, LANDMARK[0])
    plain, difference = compared.picture("reference"), compared.picture("difference")
    compared.key("g")
    grid = compared.picture("reference")
    blue = (grid[..., 2] > grid[..., 0] + 25).mean()
    assert 0.01 < blue < 0.4
    assert (plain[..., 2] > plain[..., 0] + 25).mean() < 0.001
    compared.key("g")
    compared.key("j")
    change = compared.picture("reference")
    colourful = (change.max(axis=2) - change.min(axis=2) > 15).mean()
    assert colourful > 0.1
    assert np.array_equal(compared.picture("difference"), difference)
    compared.set("Opacity", "0", "input")
    assert np.abs(compared.picture("reference") - plain).max() < 3


def test_without_a_map_nothing_is_said_of_it(compared: Page) -> None:
    before = compared.picture("reference")
    compared.key("u")
    assert np.array_equal(compared.picture("reference"), before)
    assert not compared.script("return document.querySelector('[name=Uncertainty]')")


def test_every_view_and_turn_keeps_the_point(compared: Page) -> None:
    to_slice(compared, LANDMARK[0])
    compared.click("reference", *expected_pixel(compared, "reference", LANDMARK))
    readout = "return document.querySelector('[data-role=reference] .readout').textContent"
    told = compared.script(readout)
    assert told.startswith("0.090")
    for key in ("t", "t", "t", "t", "v", "v", "v"):
        compared.key(key)
        compared.settle()
        assert compared.script(readout) == told
        x, y = (round(float(part)) for part in compared.data("reference", "crosshair").split())
        assert compared.picture("reference")[y, x].min() > 200


def test_help_opens_and_closes(compared: Page) -> None:
    is_open = "return document.querySelector('dialog.help').open"
    compared.key("?")
    assert compared.script(is_open)
    compared.key("?")
    assert not compared.script(is_open)


def test_the_page_fits_and_the_text_can_be_hidden(compared: Page) -> None:
    assert compared.script("return document.documentElement.scrollWidth") <= WIDTH
    assert all(compared.box(role)[2] > 250 and compared.box(role)[3] > 400 for role in PANELS)
    width = compared.box("reference")[2]
    compared.key("i")
    compared.settle()
    assert compared.box("reference")[2] > width + 80
    compared.key("i")
    compared.settle()
    assert compared.box("reference")[2] == width


def test_nothing_leaves_the_page_and_nothing_goes_wrong(driver: Any, compared_path: Path) -> None:
    page = Page(driver, compared_path)
    for key in ("g", "j", "b", "b", "v", "t", "s", "m", "r", "1", "b", "0", "?", "?"):
        page.key(key)
        page.settle()
    assert page.driver.get_log("browser") == []
    page_itself, *others = page.requests()
    assert page_itself == compared_path.as_uri()
    assert [url[:40] for url in others if not url.startswith(("data:", "blob:"))] == []
    # The policy holds: what a script would ask for is refused.
    refused = page.driver.execute_async_script(
        "fetch('http://127.0.0.1:9/').then(() => arguments[0](false), () => arguments[0](true))"
    )
    assert refused
    assert any("Content Security Policy" in entry["message"] for entry in page.driver.get_log("browser"))
    assert not any("127.0.0.1:9" in url for url in page.requests())
    assert HOSTILE in page.script("return document.getElementById('text').textContent")
    assert page.script("return document.images.length") == 0


def test_how_sure_the_motion_is_stands_at_the_crosshair_and_over_the_pictures(
    driver: Any, tmp_path: Path
) -> None:
    motion = spline()
    known = sure(motion, up_to_x_mm=8.0)
    page = Page(driver, write_page(save(tmp_path, result(motion=motion, uncertainties=(known,)))))
    page.key("c")
    to_slice(page, LANDMARK[0])
    readout = "return document.querySelector(`[data-role=${arguments[0]}] .readout`).textContent"
    # x goes downwards: the landmark lies where the motion is determined, and MOVED does not.
    page.click("prior", *expected_pixel(page, "prior", LANDMARK))
    told = page.script(readout, "prior").splitlines()
    assert told[1] == "visit 2: \u00b10.2 mm in plane, 1.1 mm in depth"
    where, place = page.script(readout, "reference").splitlines()
    assert where.endswith(" 1/mm")
    assert place.startswith("in visit 2: x ")
    assert place.endswith(" mm at 90 %")
    page.click("prior", *expected_pixel(page, "prior", MOVED))
    assert page.script(readout, "prior").endswith("\nvisit 2: motion not determined here")
    assert page.box("prior")[3] == page.box("reference")[3]
    plain, difference = page.picture("reference"), page.picture("difference")
    page.key("u")
    over = page.picture("reference")
    x, y = (round(pixel) for pixel in expected_pixel(page, "reference", (5, 20, 8)))
    red, green, blue = over[y, x] - plain[y, x]
    assert green > blue > red
    x, y = (round(pixel) for pixel in expected_pixel(page, "reference", (5, 28, 38)))
    assert plain[y, x].max() < 20
    assert over[y, x].min() > 30
    assert over[y, x].max() - over[y, x].min() < 5
    assert np.array_equal(page.picture("difference"), difference)
    legend = page.script("return document.querySelector('.legend').textContent")
    assert "motion of visit 2 off by 2 mm or more" in legend
    assert "not determined" in legend
    assert page.driver.get_log("browser") == []


def test_the_page_begins_in_the_middle_of_the_breast(driver: Any, tmp_path: Path) -> None:
    volume = body(LANDMARK)
    volume[:, :, : GRID.shape[2] // 2] = 0
    inside = np.argwhere(inside_breast(volume.numpy(), GRID))
    z, y, x = ((inside.min(axis=0) + inside.max(axis=0)) / 2).tolist()
    page = Page(driver, write_page(save(tmp_path, result(compared=False, volume=volume))))
    assert x > GRID.shape[2] / 2 + 3
    at = [float(part) for part in page.data("reference", "crosshair").split()]
    assert at == pytest.approx(expected_pixel(page, "reference", (z, y, x)), abs=1)
    assert float(page.data("reference", "slice")) == pytest.approx(z, abs=0.6)


def test_one_visit_has_one_panel(driver: Any, tmp_path: Path) -> None:
    page = Page(driver, write_page(save(tmp_path, result(compared=False), quality=None)))
    assert page.script("return document.querySelectorAll('.panel').length") == 1
    assert page.picture("reference").max() > 200
    page.key("b")
    page.settle()
    assert page.driver.get_log("browser") == []
