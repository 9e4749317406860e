"""Names and values as an HTML table."""

from __future__ import annotations

from html import escape

from duotomo.report.page_words import Rows


def table(rows: Rows) -> str:
    """Return a table of names and values.

    >>> table([("a", "<b>")])
    '<table><tr><th scope="row">a</th><td>&lt;b&gt;</td></tr></table>'
    """
    lines = (f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f"<table>{''.join(lines)}</table>"
