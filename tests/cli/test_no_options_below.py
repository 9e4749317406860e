"""Only the command line speaks of options: messages below it name parameters, in backticks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import duotomo

SOURCE = Path(duotomo.__file__).parent
OPTION = re.compile(r"(?:^|[\s\"'`(])--[a-z]")


def texts(path: Path) -> list[tuple[int, str]]:
    """Return the texts in a module that are not docstrings, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in told)
    return [(node.lineno, node.value) for node in found if isinstance(node.value, str)]


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "cli"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_no_message_below_names_an_option(path: Path) -> None:
    assert [(line, text) for line, text in texts(path) if OPTION.search(text)] == []


def test_options_are_recognised() -> None:
    for text in ("Pass --gap.", "--gap", "use `--gap`", "('--gap')"):
        assert OPTION.search(text)
    for text in ("a -- b", "2020--2021", "-----", "Pass `gap_mm`."):
        assert not OPTION.search(text)
