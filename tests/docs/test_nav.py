"""The table of contents has every page once, and every part of the library has a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docstrings import PACKAGES

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
LEFT_OUT = {"decisions/0*.md": "decisions/index.md lists them"}
"""Pages that are not in the table of contents on purpose."""


def pages(nav: Any) -> Iterator[str]:
    """Yield the paths in a table of contents."""
    match nav:
        case str():
            yield nav
        case dict():
            for entry in nav.values():
                yield from pages(entry)
        case list():
            for entry in nav:
                yield from pages(entry)


NAV = Counter(pages(CONFIG["nav"]))
FILES = {
    str(path.relative_to(DOCS))
    for path in DOCS.rglob("*.md")
    if "node_modules" not in path.relative_to(DOCS).parts
}


def test_no_page_is_listed_twice() -> None:
    assert {page for page, count in NAV.items() if count > 1} == set()


def test_every_page_listed_exists() -> None:
    assert set(NAV) - FILES == set()


def test_every_page_is_listed() -> None:
    assert {page for page in FILES - set(NAV) if not any(fnmatch(page, one) for one in LEFT_OUT)} == set()


@pytest.mark.parametrize("key", ["exclude_docs", "not_in_nav"])
def test_what_is_left_out_exists(key: str) -> None:
    for pattern in CONFIG[key].split():
        assert any(DOCS.rglob(pattern.strip("/"))), pattern


@pytest.mark.parametrize("package", PACKAGES)
def test_every_part_has_a_page(package: str) -> None:
    assert f"::: duotomo.{package}" in (DOCS / "api" / f"{package.rpartition('.')[2]}.md").read_text()
