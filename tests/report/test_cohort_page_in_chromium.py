"""The page of a cohort in a real browser, of a screen and of a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duotomo.cohort import Row
from duotomo.cohort.thumbnail import thumbnail_of
from duotomo.report.cohort_page import cohort_html
from tests.report.axe import faults
from tests.report.chromium import Page

PHONE = (390, 844)
EVIL = "<img src=x onerror=\"document.title='run'\">"
ORDER = (
    "return [...document.querySelectorAll('#cases tbody tr:not([hidden])')]"
    ".map((row) => row.cells[1].textContent)"
)
ROWS = (
    Row(case="ada", command="joint", status="done", tre_in_plane_mm=0.31, wall_s=12.0, folder="cases/ada"),
    Row(
        case="bea",
        command="change",
        status="not trusted",
        reason="Did it fold?",
        tre_in_plane_mm=1.25,
        wall_s=9.0,
        new=1,
        gone=0,
        folder="cases/bea",
    ),
    Row(case="cleo", command="joint", status="failed", reason=f"row 4: {EVIL}", where="row 4"),
    Row(case="dora", command="joint", status="done", tre_in_plane_mm=0.12, wall_s=101.0, folder="cases/dora"),
    Row(case="eva", command="joint", status="waiting"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    folder = tmp_path_factory.mktemp("cohort")
    (folder / "cases" / "ada").mkdir(parents=True)
    (folder / "cases" / "ada" / "report.html").write_text("her page")
    picture = thumbnail_of(folder, "ada")
    picture.parent.mkdir()
    Image.new("L", (32, 20), 128).save(picture)
    (folder / "cohort.html").write_text(cohort_html(ROWS, folder), encoding="utf-8")
    return folder / "cohort.html"


def opened(driver: Any, path: Path, *, phone: bool = False) -> Page:
    size = {"size": PHONE, "touch": True} if phone else {}
    return Page(driver, path, ready="#tools:not([hidden])", **size)  # type: ignore[arg-type]


def choose(page: Page, element: str, value: str) -> None:
    page.script(
        "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('input')); one.dispatchEvent(new Event('change'))",
        element,
        value,
    )


def test_cases_are_sorted_by_any_column_and_what_is_not_known_comes_last(driver: Any, path: Path) -> None:
    page = opened(driver, path)
    names = [row.case for row in ROWS]
    assert page.script(ORDER) == names
    heads = page.driver.find_elements("css selector", "#cases thead button")
    for title, up, down in (
        ("Time (s)", "bea ada dora cleo eva", "dora ada bea cleo eva"),
        ("TRE in plane (mm)", "dora ada bea cleo eva", "bea ada dora cleo eva"),
        ("Case", "ada bea cleo dora eva", "eva dora cleo bea ada"),
    ):
        (head,) = (one for one in heads if one.text.strip() == title)
        for order, said in ((up, "ascending"), (down, "descending")):
            head.click()
            assert page.script(ORDER) == order.split()
            sorted_by = "return document.querySelector('[aria-sort]').getAttribute('aria-sort')"
            assert page.script(sorted_by) == said


def test_cases_are_found_by_words_and_status(driver: Any, path: Path) -> None:
    page = opened(driver, path)
    shown = "return document.querySelector('#shown').textContent"
    choose(page, "#status", "done")
    assert (page.script(ORDER), page.script(shown)) == (["ada", "dora"], "2 of 5 cases")
    choose(page, "#words", "DOR")
    assert (page.script(ORDER), page.script(shown)) == (["dora"], "1 of 5 cases")
    choose(page, "#status", "")
    choose(page, "#words", "fold?")
    assert page.script(ORDER) == ["bea"]


def test_each_case_leads_to_its_page_and_nothing_is_fetched_or_run(driver: Any, path: Path) -> None:
    page = opened(driver, path)
    links = "return [...document.querySelectorAll('#cases a')].map((one) => one.getAttribute('href'))"
    # Only she has a page, and a picture.
    assert page.script(links) == ["cases/ada/report.html"]
    seen = "return [...document.querySelectorAll('#cases img')].map((one) => [one.alt, one.naturalWidth])"
    assert page.script(seen) == [["Middle slice of ada", 32]]
    assert page.driver.title == "duotomo: 5 cases"
    assert EVIL in page.script("return document.querySelector('.reasons').textContent")
    assert {url.partition(":")[0] for url in page.requests()} <= {"file", "data"}
    assert [url for url in page.requests() if "cohort.html" not in url and url.startswith("file")] == []


@pytest.mark.parametrize("phone", [False, True])
def test_axe_finds_no_fault_and_nothing_is_wider_than_the_screen(
    driver: Any, path: Path, phone: bool
) -> None:
    page = opened(driver, path, phone=phone)
    assert faults(page) == []
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    sorter = page.driver.find_element("css selector", "#sort")
    assert sorter.is_displayed() == phone
    if phone:
        # Every case is a card, whose cells have their titles.
        choose(page, "#sort", "8 down")
        assert page.script(ORDER)[0] == "dora"
        title = (
            "return getComputedStyle(document.querySelector('td[data-value=\"101.0\"]'), '::before').content"
        )
        assert page.script(title) == '"Time (s)"'
