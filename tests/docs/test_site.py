"""The site needs no network, and its reference has every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_docstrings import PACKAGES, public


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    fetched = (
        r"<(?:script|img|iframe|source)[^>]+src=[\"']?(?:https?:)?//|<link[^>]+href=[\"']?(?:https?:)?//"
    )
    for page in pages:
        assert not re.search(fetched, page.read_text(encoding="utf-8")), page


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(site: Path, package: str) -> None:
    page = (site / "api" / f"{package.rpartition('.')[2]}.html").read_text(encoding="utf-8")
    headings = set(re.findall(r'id="duotomo\.[\w.]*?(\w+)"', page))
    # What has no docstring is not shown; that is a fault by itself.
    described = {
        name for name, member in public(package).items() if member is not None and member.has_docstring
    }
    assert {name for name in described if not {name, f"draw_{name}"} & headings} == set()
    # Examples are code, not quotations.
    assert "<blockquote>" not in page
