"""The table of the names that `duotomo` itself has, each with a link to where it is described."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGE = "api/duotomo.md"
MARK = "<!-- names -->"
SOURCE = Path(__file__).parents[2] / "src"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the table where the page wants it."""
    return markdown.replace(MARK, table()) if page.file.src_uri == PAGE else markdown


def table() -> str:
    """Return a row for each public name: link, package, and the first sentence of its docstring."""
    package = griffe.load("duotomo", search_paths=[str(SOURCE)])
    lines = ["| name | part | is |", "| --- | --- | --- |"]
    for name in sorted({str(name) for name in package.exports or ()} - {"__version__"}, key=str.lower):
        target = package.members[name].final_target
        # A module of the same name hides what it defines.
        described = target.members[name] if target.is_module else target
        part = described.path.split(".")[1]
        text = described.docstring.value if described.docstring else ""
        summary = text.partition("\n\n")[0].replace("\n", " ")
        # In code a bar is a bar; elsewhere it would end the cell.
        summary = re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", summary)
        lines.append(f"| [`{name}`][{described.path}] | [{part}]({part}.md) | {summary} |")
    return "\n".join(lines)
