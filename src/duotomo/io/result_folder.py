"""The result of a method in a folder that other programs can read."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import duotomo
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.displacement import write_displacement
from duotomo.io.durable import durable, sync, sync_folder
from duotomo.io.file_error import FileError, reason
from duotomo.io.history_file import history_from, history_text
from duotomo.io.itk_reader import read_transform
from duotomo.io.itk_writer import write_transform
from duotomo.io.paths import AnyPath
from duotomo.io.result_index import INDEX, checked, entry, read_index, write_index
from duotomo.io.volume_file import read_volume, write_volume
from duotomo.methods.result import Result
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.transforms import Motion

VOLUME, HISTORY, TRANSFORM, DISPLACEMENT = "volume", "history", "transform_{}", "displacement_{}"

MOST_VECTORS = 2_000_000
"""A displacement image has at most about so many voxels; the transform beside it is exact everywhere."""

FEW = 12
"""Up to so many parameters of a transform, what they mean in mm and degrees is written beside them."""

Write = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Extra:
    """A further file of a result: its suffix, and what writes it to a path."""

    suffix: str
    write: Write


# By name: the suffix, the kind, and what writes it.
Writers = dict[str, tuple[str, str, Write]]


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedResult(Result):
    """What a result folder holds: the result, and how it was made.

    Parameters
    ----------
    models : tuple of str
        Names of the transform classes of the method's own motions. `motions` are as the ITK files have them:
        they move points as the method's own did.
    params : tuple of torch.Tensor
        The exact parameters of the method's own motions, each (n_params,), float64.
    settings : dict
        As written.
    versions : dict of str to str
        Of duotomo and of what it depends on.
    quality : dict
        Checks of the result, as `duotomo.methods.Quality` names them; empty if none were made.
    """

    models: tuple[str, ...]
    params: tuple[torch.Tensor, ...] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    versions: dict[str, str]
    quality: dict[str, Any] = field(default_factory=dict, repr=False)


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on.

    >>> sorted(library_versions())
    ['duotomo', 'numpy', 'python', 'torch']
    """
    return {
        "duotomo": duotomo.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def write_result(
    folder: AnyPath,
    result: Result,
    *,
    study: Study | None = None,
    moving_grids: Sequence[VolumeGrid] | None = None,
    settings: Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
    quality: Mapping[str, Any] | None = None,
    extras: Mapping[str, Extra] | None = None,
    displacements: bool = False,
) -> None:
    """Write volumes as NIfTI, transforms for ITK, the history as CSV, and `result.json`, which names them.

    Whenever this is killed, `read_result` gives the older result, if there was one, or this one: files of a
    new result get names of their own, `result.json` is replaced last, and then the older files are removed.

    study: whose moving visits have the transforms; without one, `moving_grids` are their grids. settings:
    whatever JSON can hold. versions: `library_versions()` unless given. quality: checks of the result, by
    name. extras: further files, by name. displacements: also write what each transform does to the voxels, on
    a coarser grid where there are more than about two million.
    """
    where = "write_result"
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{where}: expected a folder at {folder}; got none. Make it first.")
    older: dict[str, Any] = {"generation": 0, "files": {}, "replaced": []}
    if (folder / INDEX).exists():
        older = read_index(where, folder)
    generation = older["generation"] + 1
    files = {}
    grids = _moving_grids(where, result, study, moving_grids)
    for name, (suffix, kind, write) in _writers(where, result, grids, extras or {}, displacements).items():
        path = folder / (f"{name}{suffix}" if generation == 1 else f"{name}.{generation}{suffix}")
        write(path)
        sync(path)
        files[name] = entry(path) | {"kind": kind}
    sync_folder(folder)
    # Should this process end before it removes them, the next one does.
    replaced = [*older["replaced"], *(file["file"] for file in older["files"].values())]
    index = {
        "generation": generation,
        "method": result.method,
        "status": result.status.value,
        "reason": result.reason,
        "grid": json.loads(result.grid.to_json()),
        "applications": result.applications,
        "seconds": result.seconds,
        "transforms": [_described(motion) for motion in result.motions],
        "quality": dict(quality or {}),
        "settings": dict(settings),
        "versions": dict(library_versions() if versions is None else versions),
        "files": files,
        "replaced": replaced,
    }
    write_index(where, folder, index)
    for name in replaced:
        (folder / name).unlink(missing_ok=True)


def read_result(folder: AnyPath) -> SavedResult:
    """Return the result in a folder, on the CPU; raise unless every file is there as it was written."""
    where, folder = "read_result", Path(folder)
    while True:
        index = read_index(where, folder)
        try:
            return _read(folder, index)
        except FileError as error:
            # A result that was replaced meanwhile is read anew.
            if read_index(where, folder)["generation"] == index["generation"]:
                raise FileError(f"{where}: {folder}: {error}") from error


def _moving_grids(
    where: str, result: Result, study: Study | None, given: Sequence[VolumeGrid] | None
) -> list[VolumeGrid]:
    grids = [study.grid_of(visit) for visit in study.moving] if study is not None else list(given or ())
    if len(grids) != len(result.motions):
        raise DuotomoError(
            f"{where}: expected a study, or a grid for each of {len(result.motions)} motions; got "
            f"{len(grids)}. Pass study, or moving_grids."
        )
    return grids


def _writers(
    where: str,
    result: Result,
    moving_grids: Sequence[VolumeGrid],
    extras: Mapping[str, Extra],
    displacements: bool,
) -> Writers:
    """Return, for each file by name, its suffix, its kind and what writes it."""

    def history(path: Path) -> None:
        with durable(where, path) as fresh:
            fresh.write_text(history_text(result.history), encoding="utf-8")

    writers: Writers = {HISTORY: (".csv", "history", history)}
    moved = zip(result.motions, moving_grids, strict=True)
    for number, (motion, grid) in enumerate(moved, start=1):
        write = partial(write_transform, motion=motion, grid=grid)
        writers[TRANSFORM.format(number)] = (".tfm", "transform", write)
        if displacements:
            few = few_enough(grid)
            write = partial(write_displacement, motion=motion, grid=few)
            writers[DISPLACEMENT.format(number)] = (".nii.gz", "displacement", write)
    volumes = {VOLUME: result.volume, **result.others}
    given = [*result.others, *extras]
    for name in given:
        if name in writers or name == VOLUME or given.count(name) > 1 or not name.isidentifier():
            raise FileError(
                f"{where}: expected other volumes and files to have names of letters, digits and underscores "
                f"that no other file has; got {name!r}. Rename it."
            )
    for name, volume in volumes.items():
        grid = result.grids.get(name, result.grid)
        writers[name] = (".nii.gz", "volume", partial(write_volume, volume=volume, grid=grid))
    for name, extra in extras.items():
        writers[name] = (extra.suffix, "other", extra.write)
    return writers


def few_enough(grid: VolumeGrid) -> VolumeGrid:
    """Return a grid over the same box, coarsened until few enough voxels are left."""
    factor = 1
    while grid.coarsen(factor).n_voxels > MOST_VECTORS:
        factor += 1
    return grid.coarsen(factor)


def _described(motion: Motion) -> dict[str, Any]:
    described: dict[str, Any] = {"model": type(motion.transform).__name__, "params": motion.params.tolist()}
    if motion.transform.n_params <= FEW:
        described["physical"] = _plain(motion.physical())
    return described


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def _read(folder: Path, index: dict[str, Any]) -> SavedResult:
    try:
        grid = VolumeGrid.from_json(json.dumps(index["grid"]))
        moved = [TRANSFORM.format(number + 1) for number in range(len(index["transforms"]))]
        # Files of the first version have no kind: what is neither history nor transform is a volume.
        others = (HISTORY, *moved)
        named = [n for n, f in index["files"].items() if n not in others and f.get("kind", VOLUME) == VOLUME]
        read = {name: read_volume(checked(folder, index, name)) for name in named}
        volumes = {name: volume for name, (volume, _) in read.items()}
        return SavedResult(
            method=index["method"],
            grid=grid,
            volume=volumes.pop(VOLUME),
            others=volumes,
            grids={name: placed for name, (_, placed) in read.items() if name != VOLUME},
            motions=tuple(read_transform(checked(folder, index, name), grid) for name in moved),
            models=tuple(described["model"] for described in index["transforms"]),
            params=tuple(torch.tensor(d["params"], dtype=torch.float64) for d in index["transforms"]),
            status=Status(index["status"]),
            reason=index["reason"],
            applications=index["applications"],
            seconds=index["seconds"],
            history=history_from(checked(folder, index, HISTORY).read_text(encoding="utf-8")),
            settings=index["settings"],
            versions=index["versions"],
            quality=index.get("quality", {}),
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"expected {INDEX} as write_result wrote it; got: {reason(error)}. Restore it."
        ) from error
