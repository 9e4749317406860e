"""The state of a method in an HDF5 file, so that a run that was killed can go on."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.io.file_error import FileError
from duotomo.io.fingerprint import differing
from duotomo.io.hdf5 import Kind, numbered, numbers, part, put, put_text, reading, tensor, text, writing
from duotomo.io.paths import AnyPath
from duotomo.methods.state import Record, State
from duotomo.solvers import Status

KIND = Kind(format="duotomo checkpoint", version=1)

_PLAIN = ("stage", "block", "model", "reason", "applications", "seconds")
_DTYPES = {"int": np.int64, "float": np.float64}


@dataclass(frozen=True)
class CheckpointFile:
    """A `Checkpoint` at a path that ends in `.h5`.

    Whenever a run is killed, the file holds the last state that was saved, whole and bit for bit.

    fingerprint: of the computation, as from `fingerprint`; a state of another computation is refused.
    device: where the volumes are restored to.
    """

    path: AnyPath
    fingerprint: str
    _: KW_ONLY
    device: torch.device | str = "cpu"

    def save(self, state: State) -> None:
        """Put a state in place of the last one."""
        with writing("CheckpointFile", self.path, KIND) as file:
            put_text(file, "fingerprint", self.fingerprint)
            plain = {name: getattr(state, name) for name in _PLAIN}
            plain |= {"coarsen": list(state.coarsen), "status": state.status.value}
            put_text(file, "state", json.dumps(plain))
            volumes, params, history = (file.create_group(name) for name in ("volumes", "params", "history"))
            for number, (name, volume) in enumerate(state.volumes.items()):
                put(volumes, str(number), volume)
                put_text(volumes[str(number)], "name", name)
            for number, row in enumerate(state.params):
                put(params, str(number), row)
            _put_history(history, state.history)

    def load(self) -> State | None:
        """Return the last state saved, or None if there is none; raise if another computation saved it."""
        where = "CheckpointFile"
        if not Path(self.path).exists():
            return None
        with reading(where, self.path, KIND) as file:
            self._check(text(file, "fingerprint"))
            plain = json.loads(text(file, "state"))
            z, y, x = plain["coarsen"]
            state = State(
                **{name: plain[name] for name in _PLAIN},
                coarsen=(z, y, x),
                status=Status(plain["status"]),
                volumes={
                    text(data, "name"): tensor(part(file, "volumes"), str(number), ("z", "y", "x"))
                    for number, data in enumerate(numbered(part(file, "volumes")))
                },
                params=tuple(
                    tensor(part(file, "params"), str(number), ("parameter",))
                    for number in range(len(numbered(part(file, "params"))))
                ),
                history=_history(part(file, "history")),
            )
        for name, volume in state.volumes.items():
            state.volumes[name] = volume.to(self.device)
        return state

    def remove(self) -> None:
        """Remove the file, if it is there: the computation is complete."""
        Path(self.path).unlink(missing_ok=True)

    def _check(self, found: str) -> None:
        if found != self.fingerprint:
            other = " and another ".join(differing(found, self.fingerprint) or ["fingerprint"])
            raise FileError(
                f"expected the state of this computation; got that of one with another {other}. "
                f"Choose another folder, or remove the file to begin anew without it."
            )


def _put_history(group: Any, history: tuple[Record, ...]) -> None:
    """Write one array for each number of a record, and the few texts as numbers into a list."""
    for field in fields(Record):
        values = [getattr(record, field.name) for record in history]
        if field.type in _DTYPES:
            put(group, field.name, np.array(values, dtype=_DTYPES[str(field.type)]))
            continue
        names = list(dict.fromkeys(values))
        put(group, field.name, np.array([names.index(value) for value in values], dtype=np.int64))
        put_text(group[field.name], "names", json.dumps(names))


def _history(group: Any) -> tuple[Record, ...]:
    columns: dict[str, list[Any]] = {}
    for field in fields(Record):
        data = part(group, field.name)
        columns[field.name] = numbers(group, field.name).tolist()
        if field.type not in _DTYPES:
            names = json.loads(text(data, "names"))
            columns[field.name] = [names[index] for index in columns[field.name]]
    rows = zip(*columns.values(), strict=True)
    return tuple(Record(**dict(zip(columns, row, strict=True))) for row in rows)
