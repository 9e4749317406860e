"""Tables as plain text: aligned, never cut, and no wider than asked for where that can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = "  "


def aligned(rows: Sequence[Sequence[str]], *, width: int) -> Iterator[str]:
    """Give the lines of a table whose first row are the names of its columns.

    Columns that do not fit beside the others follow in a further block, behind the first column again. A
    single column that is too wide stays whole.

    >>> for line in aligned([["method", "error", "steps"], ["ours", "0.1", "12"]], width=13):
    ...     print(line)
    method  error
    ------  -----
    ours      0.1
    <BLANKLINE>
    method  steps
    ------  -----
    ours       12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    block: list[int] = []
    blocks = [block]
    for column in range(1, len(widths)):
        if block and sum(len(GAP) + widths[one] for one in (*block, column)) > width - widths[0]:
            block = []
            blocks.append(block)
        block.append(column)
    for number, columns in enumerate(blocks):
        if number:
            yield ""
        head, *body = rows
        for row in (head, ["-" * one for one in widths], *body):
            cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in columns)]
            yield GAP.join(cells).rstrip()
