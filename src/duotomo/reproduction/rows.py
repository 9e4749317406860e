"""Rows of a table that are finished, one file each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.io.durable import durable

WHERE = "reproduce"

TABLE = "table.json"

Row = dict[str, Any]

_VERSION_1 = {"way": "method", "ways": "methods", "whose": "origin"}
"""Columns that had other names in rows and tables of version 1."""


def write_row(path: Path, key: str, row: Row) -> None:
    """Write a finished row. key: what it was made with."""
    write_json(path, {"key": key, **row})


def read_row(path: Path, keys: tuple[str, ...]) -> Row | None:
    """Return the row that an earlier run left, or None; raise unless it was made with one of the keys."""
    if not path.exists():
        return None
    try:
        row: Row = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DuotomoError(
            f"{WHERE}: expected a finished row in {path}; got {error}. Remove it to compute it again."
        ) from error
    if row.pop("key", None) not in keys:
        raise DuotomoError(
            f"{WHERE}: expected {path} to come from the same settings and device; got another run's. Choose "
            f"another folder, or remove it to compute it again."
        )
    return renamed(row)


def renamed(row: Row) -> Row:
    """Return a row or a table with the names that columns have now.

    >>> renamed({"way": "sequential", "case": 1})
    {'method': 'sequential', 'case': 1}
    """
    return {_VERSION_1.get(name, name): value for name, value in row.items()}


def write_json(path: Path, content: Row) -> None:
    """Write a row or a table so that it is whole or not there."""
    with durable(WHERE, path) as fresh:
        fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
