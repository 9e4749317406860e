"""Manifests: which cases a cohort has, as CSV or TOML. All that is wrong is said, by row and column."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from duotomo.cohort.case import Case, Command, Value, column
from duotomo.errors import DuotomoError
from duotomo.io.paths import AnyPath, FileError, source

MOST_BYTES, MOST_CASES, MOST_VISITS = 50_000_000, 100_000, 20
"""A manifest with more is none."""

SEVERAL = "|"
"""Between the values of an option that may be given several times, in a cell of CSV."""

_SHOWN = 20
_WHERE = "read_manifest"
_OWN = ("case", "command")

Problems = list[str]


def read_manifest(
    path: AnyPath, *, root: AnyPath | None = None, command: Command = Command.JOINT
) -> tuple[Case, ...]:
    """Return the cases of a CSV or TOML file.

    Columns of CSV are `case`, `current`, `prior`, `visit_3` and so on, `command` (joint or change), and
    options of that command, such as `thickness`; an empty cell says nothing. In TOML, each `[[case]]` has the
    same keys, and a table `[options]` holds for all cases.

    Parameters
    ----------
    path : str or path
        Of the manifest.
    root : str or path, optional
        The folder in which all scans are: paths are relative to it, and may not leave it. The manifest's
        own, unless given.
    command : Command
        Of cases that name none.

    Returns
    -------
    tuple of Case
        In the order of the file. Whether their scans are there is not looked at.

    Raises
    ------
    FileError
        Unless every row is as it should be; each that is not is named, with its column.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "women.csv")
    ...     _ = path.write_text("case,current,prior,thickness\\nwoman-1,a.dcm,b.dcm,52\\n")
    ...     (case,) = read_manifest(path)
    >>> case.name, [scan.name for scan in case.visits], dict(case.options)
    ('woman-1', ['a.dcm', 'b.dcm'], {'thickness': '52'})
    """
    path = source(_WHERE, path, (".csv", ".toml"))
    if path.stat().st_size > MOST_BYTES:
        raise FileError(f"{_WHERE}: expected at most {MOST_BYTES} bytes in {path}; got more. Check the path.")
    inside = (path.parent if root is None else Path(root)).resolve()
    if not inside.is_dir():
        raise FileError(f"{_WHERE}: expected a folder at {inside}; got none. Check `root`.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows, problems = (_csv if path.suffix == ".csv" else _toml)(text)
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        raise FileError(
            f"{_WHERE}: expected {path.suffix[1:].upper()} in {path}; got: {error}. Check the file."
        ) from error
    cases, seen = [], dict[str, str]()
    for where, row in rows:
        case = _case(where, row, inside, command, problems)
        if case is None:
            continue
        # On some file systems, names that differ in case are one.
        first = seen.setdefault(case.name.lower(), where)
        if first != where:
            problems.append(f"{where}, column case: expected a name of its own; got that of {first}")
        cases.append(case)
    if not rows and not problems:
        problems.append("expected at least one case; got none")
    if len(rows) > MOST_CASES:
        problems.append(f"expected at most {MOST_CASES} cases; got {len(rows)}")
    if problems:
        raise refusal(_WHERE, path, problems)
    return tuple(cases)


def refusal(where: str, path: Path | str, problems: Sequence[str]) -> FileError:
    """Return the error that names all problems of a manifest, or the first of many."""
    shown = [f"  {problem}" for problem in problems[:_SHOWN]]
    more = [f"  and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return FileError(
        "\n".join(
            [
                f"{where}: expected a manifest without fault; got {count} in {path}:",
                *shown,
                *more,
                "Correct them: nothing was started.",
            ]
        )
    )


def _csv(text: str) -> tuple[list[tuple[str, dict[str, Any]]], Problems]:
    """Return the rows of CSV, and what is wrong with its columns."""
    first = text.partition("\n")[0]
    # Some spreadsheets write semicolons or tabs.
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = [_key(name) for name in next(reader, [])]
    problems = [
        f"row 1: expected a column {name}; got {', '.join(names)[:200] or 'none'}"
        for name in ("case", "current")
        if name not in names
    ]
    problems += [
        f"row 1, column {number}: expected a name; got none" for number, n in enumerate(names, 1) if not n
    ]
    problems += [
        f"row 1: expected each column once; got {name!r} twice"
        for name in {one for one in names if one and names.count(one) > 1}
    ]
    rows = []
    for cells in reader:
        where = f"row {reader.line_num}"
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(names):
            problems.append(f"{where}: expected {len(names)} cells; got {len(cells)}")
            continue
        values = {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()}
        visits = {name for name in values if _visit(name)}
        split = {
            name: tuple(part.strip() for part in value.split(SEVERAL))
            if SEVERAL in value and name not in visits
            else value
            for name, value in values.items()
        }
        rows.append((where, split))
    return ([] if problems and not rows else rows), problems


def _toml(text: str) -> tuple[list[tuple[str, dict[str, Any]]], Problems]:
    """Return the tables of TOML, and what is wrong with the file."""
    content = tomllib.loads(text)
    shared, found = content.get("options", {}), content.get("case", [])
    problems = [
        f"table {name}: expected [options] and [[case]]; got that"
        for name in content
        if name not in ("options", "case")
    ]
    if not isinstance(shared, dict) or not isinstance(found, list):
        raise ValueError("[options] is no table, or [[case]] no list of tables")
    rows = []
    for number, table in enumerate(found, start=1):
        where = f"case {number}"
        if not isinstance(table, dict):
            problems.append(f"{where}: expected a table; got something else")
        else:
            rows.append((where, {**_keys(shared), **_keys(table)}))
    return rows, problems


def _keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {_key(name): value for name, value in table.items()}


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _visit(name: str) -> int | None:
    """Return the number of the visit that a column is of, None if it is of none."""
    found = re.fullmatch(r"visit_([1-9]\d?)", name)
    if found:
        return int(found[1])
    return {"current": 1, "prior": 2}.get(name)


def _case(
    where: str, row: Mapping[str, Any], root: Path, command: Command, problems: Problems
) -> Case | None:
    """Return the case of a row, None if it cannot be; problems: added to."""
    before = len(problems)
    for name in ("case", "current"):
        if name not in row:
            problems.append(f"{where}, column {name}: expected a value; got none")
    visits = dict(_visits(where, row, root, problems))
    if {*visits} != {*range(1, len(visits) + 1)} and len(problems) == before:
        missing = next(n for n in range(1, MOST_VISITS + 1) if n not in visits)
        problems.append(f"{where}, column {column(missing)}: expected a scan, as a later visit has; got none")
    try:
        command = Command(row.get("command", command.value))
    except ValueError:
        known = " or ".join(one.value for one in Command)
        got = str(row["command"])[:80]
        problems.append(f"{where}, column command: expected {known}; got {got!r}")
    options = dict(_options(where, row, problems))
    if len(problems) > before:
        return None
    try:
        ordered = tuple(visits[number] for number in sorted(visits))
        return Case(name=str(row["case"]), visits=ordered, command=command, options=options, where=where)
    except DuotomoError as error:
        said = str(error).removeprefix("Case: ")
        problems.append(f"{where}{', column case' if 'a name of' in said else ''}: {said}")
        return None


def _visits(where: str, row: Mapping[str, Any], root: Path, problems: Problems) -> Iterator[tuple[int, Path]]:
    for name, value in row.items():
        number = _visit(name)
        if number is None:
            continue
        if not isinstance(value, str) or not value or number > MOST_VISITS or "\0" in value:
            problems.append(f"{where}, column {name}: expected a path; got {str(value)[:80]!r}")
            continue
        try:
            # Links are followed: they may lead out of the folder, too.
            inside = (root / value).resolve().is_relative_to(root)
        except (OSError, RuntimeError):
            inside = False
        if not inside:
            problems.append(
                f"{where}, column {name}: expected a path in {root}; got {value[:200]!r}, which leaves it. "
                f"Pass `root`, the folder that holds all scans"
            )
            continue
        yield number, root / value


def _options(where: str, row: Mapping[str, Any], problems: Problems) -> Iterator[tuple[str, Value]]:
    for name, value in row.items():
        if name in _OWN or _visit(name) is not None:
            continue
        values = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(one, (str, bool, int, float)) for one in values):
            problems.append(f"{where}, column {name}: expected a number, a text or true; got a table")
            continue
        yield name, tuple(values) if isinstance(value, (list, tuple)) else value
