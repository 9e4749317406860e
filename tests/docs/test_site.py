"""The site needs no network, its reference has every public name, and pages name only options that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from duotomo.cli.bench import _SHAPES
from tests.cli.commands import duotomo

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("index.md", "quick_start.md", "how_to/simulating.md", "how_to/converting.md", "how_to/timing.md")
PACKAGES = sorted(path.stem for path in (DOCS / "api").glob("*.md") if path.stem not in ("duotomo", "dicom"))
ALIASES = {"OnRecord", "Product", "Update"}
"""Names of types, which their users' signatures explain."""


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
    module = importlib.import_module(f"duotomo.{package}")
    page = (site / "api" / f"{package}.html").read_text(encoding="utf-8")
    headings = set(re.findall(r'id="duotomo\.[\w.]*?(\w+)"', page))
    described = {name for name in module.__all__ if callable(getattr(module, name))} - ALIASES
    assert {name for name in described if not {name, f"draw_{name}"} & headings} == set()
    # Examples are code, not quotations.
    assert "<blockquote>" not in page


@pytest.mark.parametrize("page", PAGES)
def test_every_option_named_on_a_page_exists(page: str) -> None:
    text = (DOCS / page).read_text()
    commands = re.findall(r"^ {4}duotomo (\w+)(.*)$", text, flags=re.MULTILINE)
    assert commands
    helps = {name: duotomo(name, "--help").out for name, _ in commands}
    for name, words in commands:
        for option in re.findall(r"--[a-z][a-z-]+", words):
            assert option in helps[name], (name, option)
    everything = "".join(helps.values()) + duotomo("info", "--help").out + duotomo("simulate", "--help").out
    for option in re.findall(r"`(--[a-z][a-z-]+)[ `]", text):
        assert option in everything, option


def test_the_sizes_of_the_benchmark_are_those_of_the_page() -> None:
    text = (DOCS / "how_to" / "timing.md").read_text()
    for size, (shape, _, n_views, pixels, _) in _SHAPES.items():
        voxels, views = (" x ".join(map(str, counts)) for counts in (shape, pixels))
        assert f"| `{size.value}` | {voxels} | {n_views} of {views} |" in text
