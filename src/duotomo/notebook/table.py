"""Names and values as a table of HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping


def table_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a title and a table of two columns; every text is escaped.

    Parameters
    ----------
    title : str
        Above the table.
    facts : mapping of str to str
        Name to value, one line each.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> table_html("Result", {"status": "a < b"}).count("&lt;")
    1
    """
    rows = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"
