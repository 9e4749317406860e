"""Only the command line speaks of options: what stands below it names parameters, in backticks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import duotomo

SOURCE = Path(duotomo.__file__).parent
OPTION = re.compile(r"(?:^|[\s\"'`(])--[a-z][\w-]*")
OF_OTHERS = ("gdcmconv --raw",)
"""Options of other programs."""


def options_in(text: str) -> list[str]:
    for other in OF_OTHERS:
        text = text.replace(other, "")
    return OPTION.findall(text)


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "cli"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_nothing_below_names_an_option(path: Path) -> None:
    assert options_in(path.read_text(encoding="utf-8")) == []


def test_options_are_recognised() -> None:
    for text in ("Pass --gap.", "--gap", "use `--gap`", "('--gap')", 'f"--{a}" or "--gap"'):
        assert options_in(text)
    for text in ("a -- b", "2020--2021", "-----", "Pass `gap_mm`.", "x--y", "with gdcmconv --raw"):
        assert not options_in(text)
