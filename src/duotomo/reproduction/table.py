"""The table that an experiment writes into its folder, checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from duotomo.errors import DuotomoError
from duotomo.io.durable import durable
from duotomo.io.paths import FileError, reason
from duotomo.reproduction.experiment import Published
from duotomo.reproduction.measures import Errors

WHERE = "reproduce"

TABLE = "table.json"

Row = dict[str, Any]
Item = TypeVar("Item")

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


N_ENTRIES = 12
FAMILIES = ("sequential", "iterative", "simultaneous", "known motion")
ORIGINS = ("ours", "paper")
PLAIN = "plain-"
"""How names of the paper's own algorithms start."""


@dataclass(frozen=True, kw_only=True)
class TableMethod:
    """A `ComparedMethod`, as the table of its experiment has it."""

    name: str
    label: str
    family: str
    origin: str

    @property
    def model(self) -> str:
        """The model that the name ends with, where an experiment has several, or else nothing.

        >>> TableMethod(name="iterative-affine", label="", family="iterative", origin="ours").model
        'affine'
        """
        name, family = self.name.removeprefix(PLAIN), self.family.replace(" ", "-")
        return name.removeprefix(f"{family}-") if name.startswith(f"{family}-") else ""


@dataclass(frozen=True, kw_only=True)
class TableRow(Errors):
    """One method on one case: its errors, and what they cost."""

    case: int
    method: str
    about: Mapping[str, Any]
    start_tre_mm: float
    status: str
    reason: str
    applications: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TableHead:
    """What every table says of its experiment."""

    experiment: str
    title: str
    level: str
    quick: bool
    device: str
    about: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def name(self) -> str:
        """Experiment and level, as files are named."""
        return f"{self.experiment}-{self.level}{'-quick' if self.quick else ''}"


@dataclass(frozen=True, kw_only=True)
class Table(TableHead):
    """An experiment at one level: what was compared, and how far each method was off on each case.

    shown: the case whose volumes are in the folder. n_cases: of the experiment; some may not have run yet.
    """

    paper: Published | None
    methods: tuple[TableMethod, ...]
    shown: int
    n_cases: int
    rows: tuple[TableRow, ...]

    @property
    def n_run(self) -> int:
        """Cases that any method ran."""
        return len({row.case for row in self.rows})

    @property
    def n_whole(self) -> int:
        """Cases that all methods ran."""
        return sum(count == len(self.methods) for count in Counter(row.case for row in self.rows).values())

    def of(self, method: TableMethod) -> dict[int, TableRow]:
        """Return the rows of a method by case, in the order of the cases."""
        found = {row.case: row for row in self.rows if row.method == method.name}
        return dict(sorted(found.items()))


def read_table(folder: Path) -> Table:
    """Return the table that `reproduce` wrote, in this version or an earlier; raise unless it is whole."""
    path = Path(folder) / TABLE
    if not path.is_file():
        raise FileError(
            f"read_table: expected an experiment's table at {path}; got nothing there. "
            f"Check the path, or run `reproduce` first."
        )
    return read_json("read_table", path, _table, writer="reproduce")


def read_json(where: str, path: Path, make: Callable[[Row], Item], *, writer: str) -> Item:
    """Return what `make` makes of a file of JSON; raise unless it is as the writer left it."""
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        came = f"no {error}" if isinstance(error, KeyError) else reason(error)
        raise FileError(
            f"{where}: expected {path} as `{writer}` wrote it; got: {came}. Run it again."
        ) from error


def _table(plain: dict[str, Any]) -> Table:
    plain = renamed(plain)
    methods = tuple(_only(TableMethod, renamed(method)) for method in plain["methods"])
    paper = None if plain["paper"] is None else _only(Published, plain["paper"])
    rows = tuple(_row(renamed(row)) for row in plain["rows"])
    table: Table = _only(Table, {**plain, "methods": methods, "paper": paper, "rows": rows})
    _check(table)
    return table


def _row(plain: dict[str, Any]) -> TableRow:
    entries = plain["entries"]
    row: TableRow = _only(
        TableRow, {**plain, "entries": None if entries is None else tuple(map(float, entries))}
    )
    for field in fields(TableRow):
        value = getattr(row, field.name)
        numeric = str(field.type).startswith(("int", "float"))
        if numeric and not (isinstance(value, int | float) or (value is None and "None" in str(field.type))):
            raise ValueError(f"{field.name} {value!r} of case {row.case}, which is no number")
    if row.entries is not None and len(row.entries) != N_ENTRIES:
        raise ValueError(f"{len(row.entries)} entries of case {row.case}, not {N_ENTRIES}")
    return row


def _only(kind: type[Any], plain: dict[str, Any]) -> Any:
    """Return the fields that are known; what a later duotomo adds is passed over."""
    known = (field for field in fields(kind) if field.name in plain or field.name not in ("remark",))
    return kind(**{field.name: plain[field.name] for field in known})


def _check(table: Table) -> None:
    names = [method.name for method in table.methods]
    if not table.rows or len(set(names)) < len(names):
        raise ValueError("no rows, or methods of the same name")
    for method in table.methods:
        if method.family not in FAMILIES or method.origin not in ORIGINS:
            raise ValueError(
                f"the method {method.name!r} of family {method.family!r} and origin {method.origin!r}"
            )
    places = [(row.case, row.method) for row in table.rows]
    if len(set(places)) < len(places):
        raise ValueError("two rows of one method on one case")
    strange = {row.method for row in table.rows} - set(names)
    if strange:
        raise ValueError(f"rows of {sorted(strange)}, which are not among the methods {names}")
