"""The state of a method in an HDF5 file, so that a run that was killed can go on; its history as text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.io.hdf5 import (
    FileFormat,
    group_at,
    has,
    numbered,
    numbers,
    part,
    put,
    put_text,
    reading,
    tensor,
    text,
    writing,
)
from duotomo.io.paths import AnyPath, FileError, damage
from duotomo.io.run_fingerprint import RunFingerprint
from duotomo.io.schemas import NamesSchema, StateSchema, check_schema
from duotomo.io.solve_files import SolveFiles
from duotomo.methods.state import State
from duotomo.solvers import Status, Step

FORMAT = FileFormat(name="duotomo checkpoint", version=4, older=(1, 2, 3), sealed=(3,))

_PLAIN = ("stage", "block", "model", "reason", "applications", "seconds")
_DTYPES: dict[Any, Any] = {int: np.int64, float: np.float64}


@dataclass(frozen=True)
class CheckpointFile:
    """A `Checkpoint` at a path that ends in `.h5`.

    Whenever a run is killed, the file holds the last state that was saved, whole and bit for bit. Files of
    earlier versions are read too.

    Parameters
    ----------
    path : str or path
        Of the file.
    fingerprint : RunFingerprint
        Of the computation; a state of another computation is refused.
    device : torch.device or str
        Where the volumes are restored to.
    """

    path: AnyPath
    fingerprint: RunFingerprint
    _: KW_ONLY
    device: torch.device | str = "cpu"

    def save(self, state: State) -> None:
        """Put a state in place of the last one.

        Parameters
        ----------
        state : State
            After a block of steps.

        Raises
        ------
        FileError
            If the file cannot be written; the last state stays.
        """
        with writing("CheckpointFile", self.path, FORMAT) as file:
            put_text(file, "fingerprint", str(self.fingerprint))
            _put_state(file, state)
            starts = file.create_group("starts")
            for number, start in enumerate(state.starts):
                _put_state(starts.create_group(str(number)), start)

    def load(self) -> State | None:
        """Return the last state saved.

        Returns
        -------
        State or None
            None if there is no file.

        Raises
        ------
        FileError
            If the file is damaged, or another computation saved it.
        """
        where = "CheckpointFile"
        if not Path(self.path).exists():
            return None
        with reading(where, self.path, FORMAT) as file:
            self.fingerprint.check(text(file, "fingerprint"))
            # Before version 4 a run began anew unless all starts had ended.
            starts = numbered(group_at(file, "starts")) if has(file, "starts") else []
            state = _state(file, self.device)
            return replace(state, starts=tuple(_state(start, self.device) for start in starts))

    @property
    def solves(self) -> SolveFiles:
        """Where solves that follow the last state are kept: a folder beside the file."""
        path = Path(self.path)
        return SolveFiles(path.with_name(f"{path.stem}_solves"), self.fingerprint, device=self.device)

    def remove(self) -> None:
        """Remove the file, if it is there, and its solves: the computation is complete."""
        self.solves.remove()
        Path(self.path).unlink(missing_ok=True)


def _put_state(group: Any, state: State) -> None:
    plain = {name: getattr(state, name) for name in _PLAIN}
    plain |= {"coarsen": list(state.coarsen), "status": state.status.value}
    put_text(group, "state", json.dumps(plain))
    volumes, params, history = (group.create_group(name) for name in ("volumes", "params", "history"))
    for number, (name, volume) in enumerate(state.volumes.items()):
        put(volumes, str(number), volume)
        put_text(volumes[str(number)], "name", name)
    for number, row in enumerate(state.params):
        put(params, str(number), row)
    _put_history(history, state.history)


def _state(group: Any, device: torch.device | str) -> State:
    plain = json.loads(text(group, "state"))
    check_schema(StateSchema, plain)
    z, y, x = plain["coarsen"]
    volumes, params = group_at(group, "volumes"), group_at(group, "params")
    return State(
        **{name: plain[name] for name in _PLAIN},
        coarsen=(z, y, x),
        status=Status(plain["status"]),
        volumes={
            text(data, "name"): tensor(volumes, str(number), ("z", "y", "x")).to(device)
            for number, data in enumerate(numbered(volumes))
        },
        params=tuple(tensor(params, str(number), ("parameter",)) for number in range(len(numbered(params)))),
        history=_history(group_at(group, "history")),
    )


def _put_history(group: Any, history: Sequence[Step]) -> None:
    """Write one array for each number of a step, and the few texts as numbers into a list."""
    for name, kind in COLUMNS.items():
        values = [getattr(step, name) for step in history]
        if kind in _DTYPES:
            put(group, name, np.array(values, dtype=_DTYPES[kind]))
            continue
        names = list(dict.fromkeys(values))
        put(group, name, np.array([names.index(value) for value in values], dtype=np.int64))
        put_text(group[name], "names", json.dumps(names))


def _history(group: Any) -> tuple[Step, ...]:
    older = {present: name for name, present in VERSION_1.items() if has(group, name)}
    columns: dict[str, list[Any]] = {}
    for name, kind in COLUMNS.items():
        stored = older.get(name, name)
        data, values = part(group, stored), numbers(group, stored)
        if values.ndim != 1 or values.dtype.kind not in ("f" if kind is float else "iu"):
            raise FileError(
                f"expected one {'number' if kind is float else 'whole number'} for each step in the column "
                f"{stored}; got {values.dtype} of shape {values.shape}. Restore the file."
            )
        columns[name] = values.tolist()
        if kind not in _DTYPES:
            names = json.loads(text(data, "names"))
            check_schema(NamesSchema, {"names": names})
            if columns[name] and not 0 <= min(columns[name]) <= max(columns[name]) < len(names):
                raise FileError(
                    f"expected {stored} of every step among {len(names)} names; got {min(columns[name])} to "
                    f"{max(columns[name])}. Restore the file."
                )
            columns[name] = [names[index] for index in columns[name]]
    rows = zip(*columns.values(), strict=True)
    return tuple(Step(**dict(zip(columns, row, strict=True))) for row in rows)


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
    with damage(csv.Error, what="a table"):
        names, *rows = csv.reader(io.StringIO(text)) if text else [[]]
    if [VERSION_1.get(name, name) for name in names] != list(COLUMNS):
        raise FileError(
            f"expected the columns {','.join(COLUMNS)}; got {','.join(names)[:200]}. Restore the file."
        )
    return tuple(map(_step, rows))


def _step(row: list[str]) -> Step:
    try:
        pairs = zip(COLUMNS.items(), row, strict=True)
        return Step(**{name: read(value) for (name, read), value in pairs})
    except ValueError as error:
        raise FileError(
            f"expected one value for each column; got {str(row)[:200]}. Restore the file."
        ) from error
