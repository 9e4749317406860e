"""The folder of a cohort: its index, a folder for each case, and how each case ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duotomo.cohort.case import Case
from duotomo.io.durable import durable
from duotomo.io.json_digest import check_digest, with_digest
from duotomo.io.paths import FileError, reason

INDEX, PAGE, CSV, PARQUET = "cohort.json", "cohort.html", "cohort.csv", "cohort.parquet"
CASES, STATES, LOGS, OPTIONS, SESSION = "cases", "states", "logs", "options", ".session"
FOLDERS = (CASES, STATES, LOGS, OPTIONS)

RESULT, CHECKPOINT = "result.json", "checkpoint.h5"
"""In the folder of a case: whole, or to be gone on with. The commands' own names."""

FORMAT, VERSION = "duotomo cohort", 1

Name = Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z")]
_Words = Annotated[str, Field(max_length=20_000)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Schema(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Entry(_Schema):
    """A case in the index: nothing that names a file."""

    case: Name
    command: Literal["joint", "change"]
    where: Annotated[str, Field(max_length=200)] = ""


class State(_Schema):
    """How a case ended. made_of: a digest of its inputs and options. error: "" where it has a result."""

    case: Name
    made_of: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    code: int
    error: _Words
    attempts: Annotated[int, Field(ge=0, le=10_000)]
    wall_s: _Amount
    work: _Amount
    memory_bytes: _Amount


class _Index(_Schema):
    format: Literal["duotomo cohort"]
    version: Literal[1]
    cases: Annotated[list[Entry], Field(max_length=100_000)]
    sha256: str


def case_folder(out: Path, name: str) -> Path:
    """Return where the result of a case is."""
    return out / CASES / name


def has_result(out: Path, name: str) -> bool:
    """Return whether a case has a result."""
    return (case_folder(out, name) / RESULT).is_file()


def made_of(case: Case, options: Mapping[str, Any]) -> str:
    """Return a digest of what a case is computed from: command, options, and size and age of its files."""
    files = [_facts(one) for path in case.visits for one in (path, *_within(path))]
    content = [case.command.value, sorted((name, _plain(value)) for name, value in options.items()), files]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _within(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir()) if path.is_dir() else []
    except OSError:
        return []


def _facts(path: Path) -> list[Any]:
    try:
        found = path.stat()
    except OSError:
        return [str(path), None, None]
    return [str(path), found.st_size, found.st_mtime_ns]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def write_index(out: Path, cases: Sequence[Case]) -> None:
    """Write which cases a cohort has, in their order."""
    rows = [{"case": one.name, "command": one.command.value, "where": one.where} for one in cases]
    with durable("cohort", out / INDEX) as fresh:
        content = {"format": FORMAT, "version": VERSION, "cases": rows}
        fresh.write_text(with_digest(content), encoding="utf-8")


def read_index(out: Path) -> tuple[Entry, ...]:
    """Return the cases of the cohort in a folder; raise unless its index is as it was written."""
    path = out / INDEX
    if not path.is_file():
        raise FileError(f"read_table: expected a cohort in {out}; got no {INDEX} there. Check the path.")
    try:
        data = path.read_bytes()
        check_digest(data)
        return tuple(_Index.model_validate_json(data).cases)
    except (OSError, ValueError) as error:
        raise FileError(
            f"read_table: expected {path} as it was written; got: {reason(error)}. Run duotomo cohort with "
            f"its manifest again."
        ) from error


def write_state(out: Path, state: State) -> None:
    """Write how a case ended."""
    with durable("cohort", out / STATES / f"{state.case}.json") as fresh:
        fresh.write_text(with_digest(state.model_dump()), encoding="utf-8")


def read_state(out: Path, name: str) -> State | None:
    """Return how a case ended, None if it did not, or nobody can tell."""
    path = out / STATES / f"{name}.json"
    try:
        data = path.read_bytes()
        check_digest(data)
        content = json.loads(data)
        content.pop("sha256")
        found = State.model_validate(content)
    except (OSError, ValueError, KeyError, AttributeError, ValidationError):
        return None
    return found if found.case == name else None
