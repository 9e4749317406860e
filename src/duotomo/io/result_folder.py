"""The result of a method in a folder that other programs can read."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import duotomo
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.identity import Identity
from duotomo.io.durable import durable
from duotomo.io.file_error import FileError, reason
from duotomo.io.history_file import history_from
from duotomo.io.itk_reader import read_transform
from duotomo.io.paths import AnyPath
from duotomo.io.replacement import clear, fresh_staging, publish, staged
from duotomo.io.result_files import README, VOLUME, ResultFile, inverse_file, motion_file, result_files
from duotomo.io.result_format import ResultFormat
from duotomo.io.result_index import INDEX, checked, has_result, name_of, read_index, sha256_of, write_index
from duotomo.io.result_readme import readme_text
from duotomo.io.volume_file import read_volume
from duotomo.methods.registration import reference_to_moving
from duotomo.methods.result import Result
from duotomo.methods.settings import Settings
from duotomo.methods.study import Study
from duotomo.solvers import Status
from duotomo.transforms import Inverse, Motion

FEW = 12
"""Up to so many parameters of a transform, what they mean in mm and degrees is written beside them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedResult(Result):
    """What a result folder holds: the result, and how it was made.

    Parameters
    ----------
    method, grid, volume, others, grids, motions, status, reason, applications, seconds, history
        Those of `Result`.
    models : tuple of str
        Names of the transform classes of the method's own motions. `motions` are as the ITK files have them:
        they move points as the method's own did.
    params : tuple of torch.Tensor
        The exact parameters of the method's own motions, each (n_params,), float64.
    settings : dict
        As written; `Settings` as `settings_to_dict` returns them.
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

    def _model_names(self) -> tuple[str, ...]:
        return self.models


def library_versions() -> dict[str, str]:
    """Return the versions that a result depends on.

    Returns
    -------
    dict of str to str
        By the name of the library.

    Examples
    --------
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
    settings: Settings | Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
    quality: Mapping[str, Any] | None = None,
    formats: Sequence[ResultFormat] = (),
    identities: Sequence[Identity | None] | None = None,
    displacements: bool = False,
) -> list[Path]:
    """Write volumes as NIfTI, motions and their inverses for ITK, the history, and what explains them.

    `README.txt` says which file is what, `result.json` has all numbers and the SHA-256 of every file.
    Whenever this is killed, `read_result` gives the older result, if there was one, or this one.

    Parameters
    ----------
    folder : str or path
        Which has to be there. A result in it is replaced; other files stay.
    result : Result
        What a method returned.
    study : Study, optional
        Whose moving visits have the motions.
    moving_grids : sequence of VolumeGrid, optional
        Of the moving visits, without a study.
    settings : Settings or mapping
        How the result was made: `Settings`, or whatever JSON can hold, with `Settings` in it or not.
    versions : mapping of str to str, optional
        `library_versions()` unless given.
    quality : mapping, optional
        Checks of the result, by name.
    formats : sequence of ResultFormat
        In which volumes are written too, and for DICOM the motions.
    identities : sequence of Identity or None, optional
        Whom the DICOM files are of, for each visit, the reference first; nobody, unless given.
    displacements : bool
        Also write what each motion does to the voxels of its visit, on a coarser grid where there are more
        than about two million.

    Returns
    -------
    list of Path
        The files, `result.json` first.

    Raises
    ------
    FileError
        If the folder is not there, a file cannot be written, or a result of a later version is there.
    """
    where = "write_result"
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{where}: expected a folder at {folder}; got none. Make it first.")
    older: dict[str, Any] = {"generation": 0, "files": {}, "replaced": []}
    if has_result(folder):
        older = read_index(where, folder)
        if staged(folder, INDEX):
            publish(where, folder, INDEX, older["files"], older["replaced"])
    inverses = [_inverse(motion, result.grid) for motion in result.motions]
    files = result_files(
        where,
        result,
        moving_grids=_moving_grids(where, result, study, moving_grids),
        inverses=inverses,
        displacements=displacements,
        formats=formats,
        identities=identities,
    )
    files[README] = _readme(result, files)
    _check_places(where, folder, files)
    content = {
        "generation": older["generation"] + 1,
        "method": result.method,
        "status": result.status.value,
        "reason": result.reason,
        "grid": json.loads(result.grid.to_json()),
        "applications": result.applications,
        "seconds": result.seconds,
        "motions": [
            _described(visit, *pair)
            for visit, pair in enumerate(zip(result.motions, inverses, strict=True), start=2)
        ],
        "quality": dict(quality or {}),
        "settings": settings if isinstance(settings, Settings) else dict(settings),
        "versions": dict(library_versions() if versions is None else versions),
        "replaced": list(older["files"]),
    }
    staging = fresh_staging(where, folder)
    try:
        entries = {}
        for name, file in files.items():
            file.write(staging / name)
            entries[name] = {"kind": file.kind, "sha256": sha256_of(staging / name)}
        write_index(where, staging, {**content, "files": entries})
    except Exception:
        # What could not be written whole is in nobody's way; the older result is as it was.
        clear(folder)
        raise
    publish(where, folder, INDEX, entries, content["replaced"])
    return [folder / name for name in (INDEX, *entries)]


def read_result(folder: AnyPath) -> SavedResult:
    """Return the result in a folder, of this version or an earlier one.

    Parameters
    ----------
    folder : str or path
        That `write_result` wrote to.

    Returns
    -------
    SavedResult
        On the CPU.

    Raises
    ------
    FileError
        Unless every file is there as it was written.
    """
    where, folder = "read_result", Path(folder)
    while True:
        waiting, index = staged(folder, INDEX), read_index(where, folder)
        try:
            found = _read(folder, index)
        except FileError as error:
            # A file that was moved meanwhile, or a result that was replaced, is read anew.
            if _same(where, folder, index) and staged(folder, INDEX) == waiting:
                raise FileError(f"{where}: {folder}: {error}") from error
        else:
            # Between two looks at the index of one result, no file of it is replaced.
            if _same(where, folder, index):
                return found


def _same(where: str, folder: Path, index: Mapping[str, Any]) -> bool:
    return bool(read_index(where, folder)["generation"] == index["generation"])


def _moving_grids(
    where: str, result: Result, study: Study | None, given: Sequence[VolumeGrid] | None
) -> list[VolumeGrid]:
    grids = [study.grid_of(visit) for visit in study.moving] if study is not None else list(given or ())
    if len(grids) != len(result.motions):
        raise DuotomoError(
            f"{where}: expected a study, or a grid for each of {len(result.motions)} motions; got "
            f"{len(grids)}. Pass `study`, or `moving_grids`."
        )
    return grids


def _inverse(motion: Motion, grid: VolumeGrid) -> Inverse:
    with warnings.catch_warnings():
        # That a motion folds stands in the index and in the text beside it.
        warnings.simplefilter("ignore", RuntimeWarning)
        return reference_to_moving(Motion(motion.transform, motion.params.detach().cpu()), grid=grid)


def _readme(result: Result, files: Mapping[str, ResultFile]) -> ResultFile:
    text = readme_text(result, files)

    def write(path: Path) -> None:
        with durable("write_result", path) as fresh:
            fresh.write_text(text, encoding="utf-8")

    return ResultFile(kind="readme", about="this text", write=write)


def _check_places(where: str, folder: Path, files: Mapping[str, ResultFile]) -> None:
    for name in (INDEX, *files):
        if (folder / name).is_dir():
            raise FileError(
                f"{where}: expected a file or nothing at {folder / name}; got a folder. Move it away."
            )


def _described(visit: int, motion: Motion, inverse: Inverse) -> dict[str, Any]:
    described: dict[str, Any] = {
        "visit": visit,
        "file": motion_file(visit),
        "inverse": {
            "file": inverse_file(visit),
            "status": inverse.status.value,
            "residual_mm": inverse.residual_mm,
        },
        "model": type(motion.transform).__name__,
        "params": motion.params.tolist(),
    }
    if motion.transform.n_params <= FEW:
        described["physical"] = plain(motion.physical())
    return described


def plain(value: Any) -> Any:
    """Return what JSON can hold of the meaning of parameters."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def _read(folder: Path, index: dict[str, Any]) -> SavedResult:
    try:
        grid = VolumeGrid.from_json(json.dumps(index["grid"]))
        kinds = {file: entry["kind"] for file, entry in index["files"].items()}
        history = {kind: file for file, kind in kinds.items()}["history"]
        read = {
            name_of(file): read_volume(checked(folder, index, file))
            for file, kind in kinds.items()
            if kind == "volume"
        }
        volumes = {name: volume for name, (volume, _) in read.items()}
        motions = index["motions"]
        return SavedResult(
            method=index["method"],
            grid=grid,
            volume=volumes.pop(VOLUME),
            others=volumes,
            grids={name: placed for name, (_, placed) in read.items() if name != VOLUME},
            motions=tuple(read_transform(checked(folder, index, one["file"]), grid) for one in motions),
            models=tuple(one["model"] for one in motions),
            params=tuple(torch.tensor(one["params"], dtype=torch.float64) for one in motions),
            status=Status(index["status"]),
            reason=index["reason"],
            applications=index["applications"],
            seconds=index["seconds"],
            history=history_from(checked(folder, index, history).read_text(encoding="utf-8")),
            settings=index["settings"],
            versions=index["versions"],
            quality=index["quality"],
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"expected {INDEX} as write_result wrote it; got: {reason(error)}. Restore it."
        ) from error
