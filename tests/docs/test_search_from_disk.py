"""The site's search, opened from disk in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.chromium import start_browser

FOUND = "return [...document.querySelectorAll('.md-search-result__link')].map((one) => one.href)"


@pytest.fixture
def driver() -> Iterator[Any]:
    browser = start_browser()
    yield browser
    browser.quit()


def test_the_search_finds_pages_without_a_server(driver: Any, site: Path) -> None:
    # From a page that lies deeper than the index.
    driver.get((site / "api" / "io.html").as_uri())
    field = driver.find_element("css selector", "input.md-search__input")
    driver.execute_script("arguments[0].focus()", field)
    field.send_keys("report page")
    end = time.monotonic() + 60
    while not (found := driver.execute_script(FOUND)) and time.monotonic() < end:
        time.sleep(0.2)
    assert any(link.startswith((site / "report_page.html").as_uri()) for link in found), found
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "chrome:"))] == []
