"""One row for each case of a cohort, read from its folders; as CSV and as Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from duotomo.cohort.folder import (
    CASES,
    CHECKPOINT,
    CSV,
    PARQUET,
    Entry,
    State,
    case_folder,
    read_state,
)
from duotomo.cohort.folder import has_result as has_one
from duotomo.cohort.folder import read_index as read_cohort
from duotomo.io.durable import durable
from duotomo.io.paths import AnyPath, FileError
from duotomo.io.result_index import checked
from duotomo.io.result_index import read_index as read_result_index

DONE, NOT_TRUSTED, FAILED, UNFINISHED, WAITING = "done", "not trusted", "failed", "unfinished", "waiting"
STATUSES = (DONE, NOT_TRUSTED, FAILED, UNFINISHED, WAITING)
"""Of a case: a result that its checks trust, or do not; none, and why; a checkpoint; nothing yet."""

_WHERE = "read_table"
_BAD_END = ("diverged", "breakdown")


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came out of a case; numbers of several motions are the largest ones.

    Parameters
    ----------
    case, command : str
        Its name, and what was computed.
    status : str
        One of `STATUSES`.
    reason : str
        Why it failed, why it is not trusted, or why the method ended.
    model : str
        The transforms that were found.
    mean_displacement_mm, largest_displacement_mm : float, optional
        Of the motion.
    tre_in_plane_mm, tre_in_depth_mm : float, optional
        How sure the motion is: the median over the breast of the expected target registration error.
    new, gone : int, optional
        Findings, where it was computed what changed.
    differ : str
        In what the visits do not belong together although that was allowed.
    seconds, wall_s : float, optional
        Of computing, and of the last run with all that is around it.
    attempts : int
        Processes that it took in the last run.
    memory_gb : float, optional
        About what it needed.
    where, folder : str
        Its place in the manifest; its folder in the cohort's, "" without a result.

    Examples
    --------
    >>> Row(case="woman-1", command="joint", status="waiting").folder
    ''
    """

    case: str
    command: str
    status: str
    reason: str = ""
    model: str = ""
    mean_displacement_mm: float | None = None
    largest_displacement_mm: float | None = None
    tre_in_plane_mm: float | None = None
    tre_in_depth_mm: float | None = None
    new: int | None = None
    gone: int | None = None
    differ: str = ""
    seconds: float | None = None
    wall_s: float | None = None
    attempts: int = 0
    memory_gb: float | None = None
    where: str = ""
    folder: str = ""


def read_table(out: AnyPath) -> tuple[Row, ...]:
    """Return a row for each case of the cohort in a folder, in the order of its manifest.

    Parameters
    ----------
    out : str or path
        That `cohort` wrote to.

    Returns
    -------
    tuple of Row
        Read from the folders of the cases alone.

    Raises
    ------
    FileError
        If there is no cohort.
    """
    folder = Path(out)
    return tuple(_row(folder, entry) for entry in read_cohort(folder))


def _row(out: Path, entry: Entry) -> Row:
    state = read_state(out, entry.case)
    known: dict[str, Any] = {"case": entry.case, "command": entry.command, "where": entry.where}
    if state is not None:
        known |= _of_state(state)
    if state is not None and state.error:
        return Row(**known, status=FAILED, reason=state.error)
    if has_one(out, entry.case):
        try:
            return Row(**known, **_of_result(case_folder(out, entry.case)), folder=f"{CASES}/{entry.case}")
        except (FileError, KeyError, TypeError, ValueError, AttributeError) as error:
            return Row(**known, status=FAILED, reason=f"expected its result as it was written; got: {error}")
    begun = (case_folder(out, entry.case) / CHECKPOINT).is_file()
    return Row(**known, status=UNFINISHED if begun else WAITING)


def _of_state(state: State) -> dict[str, Any]:
    memory = state.memory_bytes / 1e9
    return {"wall_s": state.wall_s, "attempts": state.attempts, "memory_gb": memory or None}


def _of_result(folder: Path) -> dict[str, Any]:
    index = read_result_index(_WHERE, folder)
    quality = index["quality"]
    trust = quality.get("trust") or {}
    trusted = trust.get("trusted", True) and index["status"] not in _BAD_END
    doubt = trust.get("reason", "") if trust.get("trusted") is False else index["reason"]
    sure = quality.get("uncertainty") or []
    conflicts = (index["settings"].get("agreement") or {}).get("conflicts") or []
    return {
        "status": DONE if trusted else NOT_TRUSTED,
        "reason": str(index["reason"] if trusted else doubt),
        "model": ", ".join(str(motion["model"]) for motion in index["motions"]),
        "mean_displacement_mm": _most(quality.get("mean_displacement_mm")),
        "largest_displacement_mm": _most(quality.get("largest_displacement_mm")),
        "tre_in_plane_mm": _most([_median(row, "in_plane") for row in sure]),
        "tre_in_depth_mm": _most([_median(row, "in_depth") for row in sure]),
        "differ": "; ".join(str(one["words"]) for one in conflicts),
        "seconds": float(index["seconds"]),
        **_findings(folder, index),
    }


def _median(row: Mapping[str, Any], name: str) -> float | None:
    spread = row.get(name)
    return None if not spread else float(spread["median_mm"])


def _most(values: Any) -> float | None:
    known = [float(value) for value in values or () if isinstance(value, (int, float))]
    return max(known, default=None)


def _findings(folder: Path, index: Mapping[str, Any]) -> dict[str, int]:
    if not index.get("change"):
        return {}
    path = checked(folder, index, index["change"]["findings"])
    kinds = [one["kind"] for one in json.loads(path.read_text(encoding="utf-8"))["findings"]]
    return {kind: kinds.count(kind) for kind in ("new", "gone")}


def write_tables(out: AnyPath) -> list[str]:
    """Write all rows of the cohort in a folder as CSV and, where pyarrow is installed, as Parquet.

    Parameters
    ----------
    out : str or path
        That `cohort` wrote to.

    Returns
    -------
    list of str
        The names of the files.

    Raises
    ------
    FileError
        If there is no cohort, or a file cannot be written.
    """
    folder = Path(out)
    rows = [asdict(row) for row in read_table(folder)]
    names = [one.name for one in fields(Row)]
    with (
        durable("write_tables", folder / CSV) as fresh,
        fresh.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    if find_spec("pyarrow") is None:
        return [CSV]
    import pyarrow
    from pyarrow import parquet

    kinds = {"str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64()}
    schema = pyarrow.schema([(one.name, kinds[str(one.type).partition(" ")[0]]) for one in fields(Row)])
    with durable("write_tables", folder / PARQUET) as fresh:
        parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), fresh)
    return [CSV, PARQUET]


def _cell(value: Any) -> Any:
    """Return a value for CSV; texts that a spreadsheet would take for a formula begin with an apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return value
