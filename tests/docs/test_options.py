"""Pages name only commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.commands import duotomo

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("index.md", "quick_start.md", "how_to/simulating.md", "how_to/converting.md")
PAGES = (*PAGES, "how_to/design_a_protocol.md")


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
