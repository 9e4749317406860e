"""Examples that stand in the text of a docstring, and not in its section Examples, become code blocks."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Fences the `>>>` examples of docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring whose examples stand in code blocks; an example ends with an empty line."""
    lines: list[str] = []
    inside = False
    # The section has its own reader.
    text, heading, section = text.partition("Examples\n--------\n")
    for line in text.splitlines():
        starts = line.startswith(">>>")
        if starts and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    if inside:
        lines.append("```")
    return "\n".join([*lines, heading + section])
