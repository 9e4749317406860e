"""The result of a method in a folder that other programs can read."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import duotomo
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.identity import Identity
from duotomo.io.durable import clear, fresh_staging, publish, staged
from duotomo.io.paths import AnyPath, FileError
from duotomo.io.result_files import README, ResultFile, result_files, write_text
from duotomo.io.result_format import ResultFormat, inverse_file, motion_file, readme_text
from duotomo.io.result_index import INDEX, has_result, read_index, sha256_of, write_index
from duotomo.methods.registration import reference_to_moving
from duotomo.methods.result import Result
from duotomo.methods.settings import Settings
from duotomo.methods.study import Study
from duotomo.transforms import Inverse, Motion

FEW = 12
"""Up to so many parameters of a transform, what they mean in mm and degrees is written beside them."""


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
    explain = partial(write_text, text=readme_text(result, files))
    files[README] = ResultFile(kind="readme", about="this text", write=explain)
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
