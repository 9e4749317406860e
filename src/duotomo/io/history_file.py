"""The steps of a method as a table of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duotomo.io.file_error import FileError
from duotomo.solvers import Step

COLUMNS: Mapping[str, Callable[[str], Any]] = {
    "stage": int,
    "what": str,
    "number": int,
    "objective": float,
    "gradient_norm": float,
    "step_size": float,
    "applications": int,
    "seconds": float,
}
"""The columns of a history in a file, in order, and their types. A `Step` that changes leaves them alone."""

VERSION_1 = {"step": "number", "step_length": "step_size"}
"""Columns that had another name in files of version 1, and their present one."""


def history_text(history: Sequence[Step]) -> str:
    """Return comma-separated values: a line of names, then one line for each step.

    Numbers are written so that they are read back exactly.

    >>> step = Step(stage=0, what="rigid at 4 mm", number=1, objective=0.1, gradient_norm=2.0,
    ...             step_size=1.0, applications=4, seconds=0.5)
    >>> print(history_text([step]), end="")
    stage,what,number,objective,gradient_norm,step_size,applications,seconds
    0,rigid at 4 mm,1,0.1,2.0,1.0,4,0.5
    >>> history_from(history_text([step])) == (step,)
    True
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([getattr(step, name) for name in COLUMNS] for step in history)
    return text.getvalue()


def history_from(text: str) -> tuple[Step, ...]:
    """Return the steps that `history_text` wrote, in this version or an earlier one."""
    names, *rows = csv.reader(io.StringIO(text)) if text else [[]]
    if [VERSION_1.get(name, name) for name in names] != list(COLUMNS):
        raise FileError(f"expected the columns {','.join(COLUMNS)}; got {','.join(names)}. Restore the file.")
    return tuple(map(_step, rows))


def _step(row: list[str]) -> Step:
    try:
        pairs = zip(COLUMNS.items(), row, strict=True)
        return Step(**{name: read(value) for (name, read), value in pairs})
    except ValueError as error:
        raise FileError(f"expected one value for each column; got {row}. Restore the file.") from error
