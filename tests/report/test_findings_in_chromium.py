"""The findings in a real browser: they lead to their places, and follow the threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duotomo.change import Change
from duotomo.report import page as pages
from duotomo.report.page_findings import expected_at
from tests.report.chromium import PANELS, Page, expected_pixel, to_slice
from tests.report.page_changes import CURVE, FINDINGS, change
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result, save, spline

EXPECTED = "return document.querySelectorAll('.threshold output')[0].textContent"
COUNT = "return document.querySelectorAll('.threshold output')[1].textContent"
LISTED = (
    "return [...document.querySelectorAll('.findings > li')]"
    ".filter((one) => one.offsetHeight > 0).map((one) => Number(one.dataset.number))"
)
READOUT = "return document.querySelector(`[data-role=${arguments[0]}] .readout`).textContent"


def opened(driver: Any, folder: Path, made: Change, **changes: Any) -> Page:
    return Page(driver, pages.write_page(save(folder, result(motion=spline(), **changes), change=made)))


def press(page: Page, number: int, key: str | None = None) -> None:
    """Click on a finding, or press a key on it."""
    button = page.driver.find_element("css selector", f".findings > li[data-number='{number}'] button")
    button.send_keys(key) if key else button.click()
    page.settle()


def circles(page: Page, role: str) -> dict[int, tuple[float, float, float]]:
    """Return of each circle drawn in a picture its middle and radius, by the finding's number."""
    rows = [row.split() for row in page.data(role, "circles").split("; ") if row]
    return {int(number): (float(x), float(y), float(r)) for number, x, y, r in rows}


def test_a_finding_leads_to_its_place_in_both_visits(driver: Any, tmp_path: Path) -> None:
    page = opened(driver, tmp_path, change())
    page.key("Home")
    page.settle()
    assert circles(page, "reference") == {}
    press(page, 1)
    scale = min(page.box("reference")[2] / GRID.size_mm[1], page.box("reference")[3] / GRID.size_mm[2])
    for role in PANELS:
        assert page.data(role, "slice") == str(FINDINGS[0].slice_index)
        expected = expected_pixel(page, role, LANDMARK)
        assert [float(part) for part in page.data(role, "crosshair").split()] == pytest.approx(
            expected, abs=1
        )
        x, y, radius = circles(page, role)[1]
        assert (x, y) == pytest.approx(expected, abs=1)
        assert radius == pytest.approx(FINDINGS[0].size_mm / 2 * scale, abs=0.2)
        # It is drawn: orange at its rim.
        around = page.picture(role)[round(y - 0.71 * radius), round(x - 0.71 * radius)]
        assert around[0] > around[2] + 100
    current = "return document.querySelector('[aria-current=true]').parentElement.dataset.number"
    assert page.script(current) == "1"
    assert page.script(READOUT, "difference").endswith("\nz = +6.8")
    # By keyboard, and back.
    press(page, 2, "\ue007")
    assert page.script(current) == "2"
    expected = expected_pixel(page, "prior", MOVED)
    assert [float(part) for part in page.data("prior", "crosshair").split()] == pytest.approx(expected, abs=1)
    page.key("n")
    page.settle()
    assert page.script(current) == "1"
    page.key("f")
    page.settle()
    assert circles(page, "reference") == {}
    assert page.driver.get_log("browser") == []


def test_the_threshold_filters_the_list_and_says_what_to_expect(driver: Any, tmp_path: Path) -> None:
    page = opened(driver, tmp_path, change())
    press(page, 1)
    assert page.script(LISTED) == [1, 2]
    assert page.script(EXPECTED) == "False findings to expect per breast at this threshold: 0.63"
    page.set("Threshold", "5.5", "input")
    assert page.script(LISTED) == [1]
    assert set(circles(page, "reference")) == {1}
    assert float(page.script(EXPECTED).split()[-1]) == pytest.approx(expected_at(CURVE, 5.5), rel=0.01)
    assert page.script(COUNT) == "1 of 2 findings"
    page.set("Threshold", "7", "input")
    assert page.script(LISTED) == []
    assert page.script(COUNT) == "No change found above |z| = 7.0."
    page.set("Threshold", "3.5", "input")
    assert page.script(LISTED) == [1, 2]
    assert "only the map follows" in page.script(COUNT)
    assert page.driver.get_log("browser") == []


def test_the_map_is_warm_where_tissue_is_new_and_cool_where_it_is_gone(driver: Any, tmp_path: Path) -> None:
    page = opened(driver, tmp_path, change())
    for key in ("c", "f"):
        page.key(key)
    to_slice(page, LANDMARK[0])
    plain = page.picture("reference")
    page.key("z")
    over = page.picture("reference")
    for voxel, warm in ((LANDMARK, True), (MOVED, False)):
        x, y = (round(pixel) for pixel in expected_pixel(page, "prior", voxel))
        rgb = page.picture("prior")[y, x]
        assert (rgb[0] > rgb[2] + 30) if warm else (rgb[2] > rgb[0] + 30)
    # Hatched in air, and as it was in tissue that did not change.
    x, y = (round(pixel) for pixel in expected_pixel(page, "reference", (5, 28, 38)))
    patch = (slice(y - 8, y + 8), slice(x - 8, x + 8))
    assert plain[patch].max() < 20
    assert 0.05 < (over[patch].max(axis=2) > 40).mean() < 0.6
    x, y = (round(pixel) for pixel in expected_pixel(page, "reference", (5, 4, 20)))
    assert np.abs(over[y, x] - plain[y, x]).max() < 3
    legend = page.script("return document.querySelector('.legend').textContent")
    assert "new, line: z = 4.5" in legend
    assert "hatched: nothing is said" in legend
    assert page.driver.get_log("browser") == []


def test_the_difference_does_not_show_the_skin(driver: Any, tmp_path: Path) -> None:
    made = change()
    thick = body(MOVED)
    thick[(made.silent == 1) & (thick > 0)] += 0.5
    others = {"visit_1": body(LANDMARK), "visit_2_registered": thick}
    page = opened(driver, tmp_path, made, others=others)
    for key in ("c", "f"):
        page.key(key)
    to_slice(page, LANDMARK[0])

    def bright() -> float:
        # Brighter than the hatch, and without what is written at the upper and the lower edge.
        return float((page.picture("difference")[40:-45].max(axis=2) > 140).mean())

    page.key("h")
    shown = bright()
    page.key("h")
    masked = bright()
    assert masked < 0.3 * shown
    for slab_mm in ("14", "0"):
        page.set("Slab, mm", slab_mm)
        for _ in range(2):
            page.key("m")
            assert bright() < 0.4 * shown
    rim = tuple(int(i) for i in np.argwhere(((made.silent == 1) & (thick > 0)).numpy()[5])[-1])
    page.click("difference", *expected_pixel(page, "difference", (5, rim[0], rim[1])))
    assert page.script(READOUT, "difference") == (
        "not shown\nnothing is said here: outside of the breast, or at its skin"
    )
    page.click("difference", *expected_pixel(page, "difference", (5, 0, 20)))
    assert page.script(READOUT, "difference").endswith("nothing is said here: at the chest wall")
    assert page.driver.get_log("browser") == []


def test_research_use_is_always_in_sight(driver: Any, tmp_path: Path) -> None:
    page = opened(driver, tmp_path, change(findings=(), reason="The motion folds."))
    inside = (
        "const b = document.querySelector('footer').getBoundingClientRect();"
        "return b.top >= 0 && b.height > 10 && b.bottom <= innerHeight"
    )
    for width in (1280, 390):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        page.settle()
        for place in ("0", "document.documentElement.scrollHeight"):
            page.script(f"scrollTo(0, {place})")
            assert page.script(inside)
        assert page.script("return document.documentElement.scrollWidth") <= width
    assert "The motion folds." in page.script("return document.querySelector('.reason').textContent")
    assert page.script("return document.querySelector('[name=Scores]')") is None
    assert page.driver.get_log("browser") == []
