"""Formulas are typeset, with fonts that are part of the site, and a wrong one is an error."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

PAGES = ("theory", "conventions")


@pytest.mark.parametrize("page", PAGES)
def test_formulas_are_typeset(site: Path, page: str) -> None:
    text = (site / f"{page}.html").read_text()
    marked = re.findall(r'class="arithmatex">(.{20})', text)
    assert len(marked) > 20
    assert all(one.startswith('<span class="katex') for one in marked)
    assert 'href="katex/katex.min.css"' in text
    # Readers that speak get MathML.
    assert text.count("<math ") == len(marked)


def test_fonts_are_part_of_the_site(site: Path) -> None:
    style = (site / "katex" / "katex.min.css").read_text()
    named = re.findall(r"url\(([^)]+\.woff2)\)", style)
    assert len(named) == 20
    assert all((site / "katex" / font).stat().st_size > 1000 for font in named)
    assert not re.search(r"url\(['\"]?(?:https?:)?//", style)
    assert "MIT License" in (site / "katex" / "LICENSE").read_text()


def test_a_formula_that_is_wrong_is_an_error(site: Path) -> None:
    from docs.extensions.formulas import PluginError, on_post_page

    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    marked = r'<p><span class="arithmatex">\({}\)</span></p>'
    assert "katex" in on_post_page(marked.replace("{}", "a &lt; b"), page, None)
    with pytest.raises(PluginError, match=r"expected formulas of page\.md to succeed; got:[\s\S]*Undefined"):
        on_post_page(marked.replace("{}", r"\nonsense"), page, None)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """Start a browser; skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("Chromium and its driver are not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,2000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield browser
    browser.quit()


@pytest.mark.parametrize("page", PAGES)
def test_a_browser_draws_them_without_a_network(site: Path, page: str, driver: Any) -> None:
    driver.get_log("performance")
    driver.get((site / f"{page}.html").as_uri())
    fonts = "[...document.fonts].filter(font => font.status == 'loaded').map(font => font.family)"
    loaded = driver.execute_async_script(f"document.fonts.ready.then(() => arguments[0]({fonts}))")
    assert {"KaTeX_Main", "KaTeX_Math"} <= set(loaded)
    formula = driver.find_element("css selector", ".katex-display .katex-html")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", formula)
    with Image.open(io.BytesIO(formula.screenshot_as_png)) as image:
        ink = np.asarray(image.convert("L")) < 128
    assert ink.any(axis=0).mean() > 0.3
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    asked = {
        one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"
    }
    assert asked
    assert {url for url in asked if not url.startswith(("file:", "data:", "blob:"))} == set()
