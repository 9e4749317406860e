"""What a benchmark of programs finds: rows, their table, their file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation of one program on one case.

    error: relative, in the Euclidean norm, against what is exact. gap: |<Ax, y> - <x, A'y>| / (|Ax| |y|),
    with the adjoint. failed: why there are no times.
    """

    device: str
    case: str
    operation: str
    program: str
    best_ms: float | None = None
    median_ms: float | None = None
    error: float | None = None
    gap: float | None = None
    failed: str = ""


COLUMNS = {
    "device": 6,
    "case": 8,
    "operation": 18,
    "program": 21,
    "best ms": 10,
    "median ms": 10,
    "to duotomo": 10,
    "error": 8,
    "adjoint gap": 11,
}
"""What the table shows, and how wide. The ratio to duotomo is that of the best times."""


def print_header(title: str) -> None:
    """Begin a table."""
    print(f"\n{title}")
    _print_line(tuple(COLUMNS))


def print_rows(rows: Sequence[Row]) -> None:
    """Go on with a table: all rows of one case, one line each; a reason for failing follows its row."""
    for row in rows:
        _print_line(_cells(row, rows))
        if row.failed:
            print(f"  {row.program}: {row.failed}", flush=True)


def _print_line(cells: Sequence[str]) -> None:
    print(
        "  ".join(cell.rjust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True)), flush=True
    )


def _cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    return (
        *(row.device, row.case, row.operation, row.program),
        "failed" if row.failed else _number(row.best_ms, ".3f"),
        _number(row.median_ms, ".3f"),
        _number(ratio_to_duotomo(row, rows), ".2f"),
        _number(row.error, ".2e"),
        _number(row.gap, ".1e"),
    )


def ratio_to_duotomo(row: Row, rows: Sequence[Row]) -> float | None:
    """Return a row's best time over duotomo's of the same device, case and operation."""
    task = (row.device, row.case, row.operation)
    own = (r.best_ms for r in rows if (r.device, r.case, r.operation) == task and r.program == "duotomo")
    base = next(own, None)
    return row.best_ms / base if row.best_ms is not None and base is not None else None


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (header, *rows)]
    print(f"\n{title}")
    for row, line in zip((header, *rows), lines, strict=True):
        print("  ".join([row[0].ljust(widths[0]), *line[1:]]), flush=True)


def write_rows(path: Path, rows: Sequence[Row], about: Mapping[str, object]) -> None:
    """Write the rows, with their ratios, after what is to be known about them."""
    lines = [{**asdict(row), "ratio_to_duotomo": ratio_to_duotomo(row, rows)} for row in rows]
    path.write_text(json.dumps({**about, "rows": lines}, indent=2) + "\n")
