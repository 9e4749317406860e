"""The steps of a method as a table of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from duotomo.io.file_error import FileError
from duotomo.methods.state import Record

COLUMNS = tuple(field.name for field in fields(Record))

_READ = {"int": int, "float": float}


def history_text(history: Sequence[Record]) -> str:
    """Return comma-separated values: a line of names, then one line for each step.

    Numbers are written so that they are read back exactly.

    >>> record = Record(stage=0, what="rigid at 4 mm", step=1, objective=0.1, gradient_norm=2.0,
    ...                 step_size=1.0, applications=4, seconds=0.5)
    >>> print(history_text([record]), end="")
    stage,what,step,objective,gradient_norm,step_size,applications,seconds
    0,rigid at 4 mm,1,0.1,2.0,1.0,4,0.5
    >>> history_from(history_text([record])) == (record,)
    True
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([getattr(record, name) for name in COLUMNS] for record in history)
    return text.getvalue()


def history_from(text: str) -> tuple[Record, ...]:
    """Return the steps that `history_text` wrote."""
    names, *rows = csv.reader(io.StringIO(text)) if text else [[]]
    if tuple(names) != COLUMNS:
        raise FileError(f"expected the columns {','.join(COLUMNS)}; got {','.join(names)}. Restore the file.")
    return tuple(_record(row) for row in rows)


def _record(row: list[str]) -> Record:
    try:
        values: dict[str, Any] = {
            field.name: _READ.get(str(field.type), str)(value)
            for field, value in zip(fields(Record), row, strict=True)
        }
    except ValueError as error:
        raise FileError(f"expected one value for each column; got {row}. Restore the file.") from error
    return Record(**values)
