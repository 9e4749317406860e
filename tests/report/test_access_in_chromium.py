"""The page by keyboard, by ear and on a phone, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duotomo.report.page import write_page
from tests.report.axe import faults
from tests.report.chromium import PANELS, Page
from tests.report.page_changes import change
from tests.report.page_results import LANDMARK, MOVED, body, result, save, spline, sure

PHONE = (390, 844)
SHOWN = (
    "return [...document.querySelectorAll('.panel')]"
    ".filter((one) => getComputedStyle(one).visibility === 'visible').map((one) => one.dataset.role)"
)
HELP_IS_OPEN = "return document.querySelector('dialog.help').open"
ESCAPE, ENTER, TAB = "\ue00c", "\ue007", "\ue004"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    motion = spline()
    others = {"visit_1": body(LANDMARK), "visit_2_registered": body(MOVED), "visit_2": body(MOVED)}
    made = result(motion=motion, uncertainties=(sure(motion),), others=others)
    return write_page(save(tmp_path_factory.mktemp("access"), made, change=change()))


def press(page: Page, *keys: str) -> None:
    """Press keys as a keyboard does: the element that has the focus gets them first."""
    page.driver.switch_to.active_element.send_keys(*keys)
    page.settle()


def test_axe_finds_no_fault(driver: Any, path: Path) -> None:
    page = Page(driver, path)
    for key in ("a", "d", "l", "L", "g", "z"):
        page.key(key)
    page.settle()
    assert faults(page) == []
    page.key("?")
    assert faults(page) == []
    page = Page(driver, path, size=PHONE, touch=True)
    assert faults(page) == []
    page.script("document.querySelector('.opener').click()")
    assert faults(page) == []
    # It would find one.
    page.script("document.querySelector('.opener').textContent = ''")
    assert [one[1] for one in faults(page)] == ["button-name"]


def test_escape_closes_the_help_and_no_key_acts_behind_it(driver: Any, path: Path) -> None:
    page = Page(driver, path)
    at = page.data("reference", "slice")
    press(page, "1")
    assert page.script(SHOWN) == ["reference"]
    press(page, "?")
    assert page.script(HELP_IS_OPEN)
    for key in ("\ue015", "c", "0", "b"):
        press(page, key)
    assert page.data("reference", "slice") == at
    assert page.script(SHOWN) == ["reference"]
    assert page.script("return document.querySelector('[name=Crosshair]').ariaPressed") == "true"
    press(page, ESCAPE)
    assert not page.script(HELP_IS_OPEN)
    # The key that closed it did nothing else.
    assert page.script(SHOWN) == ["reference"]
    press(page, ESCAPE)
    assert page.script(SHOWN) == list(PANELS)


def test_tab_reaches_controls_and_keeps_its_place(driver: Any, path: Path) -> None:
    page = Page(driver, path)
    name = "return document.activeElement.name ?? document.activeElement.className"
    found = []
    for _ in range(8):
        press(page, TAB)
        found.append(page.script(name))
    assert found[:6] == ["Slice", "View", "Turn", "Slab, mm", "Slab shows", "MIP"]
    page.script("document.querySelector('[name=Grid]').focus()")
    press(page, ENTER)
    assert page.script(name) == "Grid"
    assert page.script("return document.activeElement.ariaPressed") == "true"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.script(outline) == "solid"
    # A click gives the keys back to the pictures.
    page.driver.find_element("name", "Grid").click()
    assert page.script("return document.activeElement === document.body")


def test_the_crosshair_is_moved_and_heard_without_a_mouse(driver: Any, path: Path) -> None:
    page = Page(driver, path)
    page.script("document.querySelector('[data-role=reference] .over').focus()")
    x, y = (float(part) for part in page.data("reference", "crosshair").split())
    press(page, "\ue008", "\ue014", "\ue008")
    x1, y1 = (float(part) for part in page.data("reference", "crosshair").split())
    assert x1 > x + 1
    assert y1 == y
    spoken = "return document.querySelector('[role=status]').textContent"
    page.until(lambda: "Slice 7 of 12" in page.script(spoken), 5)
    told = page.script(spoken)
    assert "Visit 1 (reference): 0.0500 1/mm" in told
    assert "Visit 2, registered" in told
    described = page.script(
        "const over = document.querySelector('[data-role=prior] .over');"
        "return [over.ariaLabel, document.getElementById(over.getAttribute('aria-describedby')).textContent]"
    )
    assert described[0] == "Visit 2, registered"
    assert described[1].startswith("0.0500 1/mm")


def touch(page: Page, *places: tuple[float, float]) -> None:
    """Lay a finger down at the first place, and lift it at the last."""
    kinds = ["touchStart", *["touchMove"] * (len(places) - 1), "touchEnd"]
    for kind, place in zip(kinds, [*places, None], strict=True):
        points = [] if place is None else [{"x": place[0], "y": place[1]}]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.settle()


def test_a_phone_shows_one_picture_and_swipes_to_the_next(driver: Any, path: Path) -> None:
    page = Page(driver, path, size=PHONE, touch=True)
    bar = "return document.querySelector('.controls').getBoundingClientRect().height"
    assert page.script(bar) < 0.15 * PHONE[1]
    assert page.script("return document.documentElement.scrollWidth") <= PHONE[0]
    assert page.script(SHOWN) == ["reference"]
    left, top, width, height = page.box("reference")
    assert width > 380
    assert height > 0.5 * PHONE[1]
    x, y = left + width / 2, top + height / 2
    for role in ("prior", "difference", "reference"):
        touch(page, (x + 60, y), (x, y + 5), (x - 60, y + 8))
        assert page.script(SHOWN) == [role]
    touch(page, (x - 60, y), (x, y), (x + 60, y))
    assert page.script(SHOWN) == ["difference"]
    tabs = "return [...document.querySelectorAll('.tabs button')].map((one) => one.ariaPressed)"
    assert page.script(tabs) == ["false", "false", "true"]
    # Up and down goes through the slices, a tap points.
    at = int(page.data("difference", "slice"))
    touch(page, (x, y), (x, y + 20), (x, y + 45))
    assert int(page.data("difference", "slice")) == at + 3
    touch(page, (x - 50, y - 30))
    where = [float(part) for part in page.data("difference", "crosshair").split()]
    assert where == pytest.approx([width / 2 - 50, height / 2 - 30], abs=1)
    assert page.driver.get_log("browser") == []


def test_a_phone_has_its_tools_behind_a_button(driver: Any, path: Path) -> None:
    page = Page(driver, path, size=PHONE, touch=True)
    opener = page.driver.find_element("class name", "opener")
    grid = page.driver.find_element("name", "Grid")
    assert not grid.is_displayed()
    before = page.box("reference")
    opener.click()
    assert grid.is_displayed()
    assert opener.get_attribute("aria-expanded") == "true"
    # They lie over the picture, which stays as it was.
    assert page.box("reference") == before
    grid.send_keys(ESCAPE)
    assert not grid.is_displayed()
    assert page.script("return document.activeElement.className") == "opener"


def test_with_room_again_all_pictures_are_there(driver: Any, path: Path) -> None:
    page = Page(driver, path, size=PHONE)
    assert page.script(SHOWN) == ["reference"]
    page = Page(driver, path)
    assert page.script(SHOWN) == list(PANELS)
