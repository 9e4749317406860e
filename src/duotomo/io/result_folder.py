"""The result of a method in a folder that other programs can read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from duotomo.change import Change
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.change_files import CURRENT, FINDINGS, SCORES, SILENT
from duotomo.io.dicom.identity import Identity
from duotomo.io.paths import AnyPath, FileError
from duotomo.io.result_files import HISTORY, README, VOLUME, ResultFile, result_files, write_text
from duotomo.io.result_format import (
    DRAWN,
    ResultFormat,
    covariance_file,
    deviation_file,
    inverse_file,
    motion_file,
    readme_text,
    uncertainty_file,
)
from duotomo.io.result_index import (
    INDEX,
    entry_of,
    has_digest,
    has_result,
    obsolete_files,
    read_index,
    write_index,
)
from duotomo.io.staging import clear, decide, fresh_draft, publish, staged
from duotomo.io.versions import library_versions
from duotomo.methods.registration import reference_to_moving
from duotomo.methods.result import Result
from duotomo.methods.settings import Settings
from duotomo.methods.study import Study
from duotomo.methods.uncertainty_summary import UncertaintySummary
from duotomo.transforms import Inverse, Motion

FEW = 12
"""Up to so many parameters of a transform, what they mean in mm and degrees is written beside them."""


CHANGE_FILES = {"findings": FINDINGS, "scores": SCORES, "silent": SILENT, "volume": CURRENT}
"""Where the index says that it is written what changed."""

Beside = Callable[[Path], Mapping[str, str]]
"""Called with a folder in which a result is whole; returns the kinds, by name, of files it wrote there."""


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
    change: Change | None = None,
    summaries: Sequence[UncertaintySummary] | None = None,
    beside: Beside | None = None,
) -> list[Path]:
    """Write volumes as NIfTI, motions and their inverses for ITK, the history, and what explains them.

    Where a result has `uncertainties`, how sure its motions are is written too.

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
    change : Change, optional
        What changed between the visits, if that was computed.
    summaries : sequence of UncertaintySummary, optional
        What `summaries_of` returns of the result, if it is known already.
    beside : callable, optional
        Called with a folder in which the result is already whole, such as to draw a page of it; the kinds,
        by name, of the files that it wrote there, which become part of the result.

    Returns
    -------
    list of Path
        The files, `result.json` first.

    Raises
    ------
    DuotomoError
        If grids or summaries are not those of the result.
    FileError
        If the folder is not there, a file cannot be written, or something else has the name of one.
    """
    where = "write_result"
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"{where}: expected a folder at {folder}; got none. Make it first.")
    older = _completed(where, folder)
    inverses = [_inverse(motion, result.grid) for motion in result.motions]
    files = result_files(
        where,
        result,
        moving_grids=_moving_grids(where, result, study, moving_grids),
        inverses=inverses,
        displacements=displacements,
        formats=formats,
        identities=identities,
        change=change,
        summaries=summaries,
    )
    explain = partial(write_text, text=readme_text(result, files))
    files[README] = ResultFile(kind="readme", about="this text", write=explain)
    _check_places(where, folder, files, older)
    content = {
        "generation": 1 if older is None else older["generation"] + 1,
        "method": result.method,
        "status": result.status.value,
        "reason": result.reason,
        "grid": json.loads(result.grid.to_json()),
        "applications": result.applications,
        "seconds": result.seconds,
        "motions": [
            {**_described(visit, *pair), **_how_sure(visit, files)}
            for visit, pair in enumerate(zip(result.motions, inverses, strict=True), start=2)
        ],
        **({} if change is None else {"change": CHANGE_FILES}),
        "quality": dict(quality or {}),
        "settings": settings if isinstance(settings, Settings) else dict(settings),
        "versions": dict(library_versions() if versions is None else versions),
    }

    def write(draft: Path) -> dict[str, Any]:
        entries = {}
        for name, file in files.items():
            file.write(draft / name)
            entries[name] = entry_of(file.kind, draft / name)
        write_index(where, draft, {**content, "files": entries})
        if beside is not None:
            entries |= {name: entry_of(kind, draft / name) for name, kind in beside(draft).items()}
            write_index(where, draft, {**content, "files": entries})
        return entries

    entries = _replace(where, folder, write)
    return [folder / name for name in (INDEX, *entries)]


def write_drawn(where: str, folder: Path, name: str, *, kind: str, write: Callable[[Path], None]) -> None:
    """Write a file that is drawn from the result in a folder, and name it in the index, in one step.

    Before version 3 the index did not name such files.
    """
    index = _completed(where, folder)
    if index is None or not has_digest(index):
        write(folder / name)
        return
    kept = {key: value for key, value in index.items() if key not in ("format", "version", "sha256")}
    kept["generation"] += 1

    def rewrite(draft: Path) -> dict[str, Any]:
        write(draft / name)
        entries = index["files"] | {name: entry_of(kind, draft / name)}
        write_index(where, draft, {**kept, "files": entries})
        return dict(entries)

    _replace(where, folder, rewrite)


def _completed(where: str, folder: Path) -> dict[str, Any] | None:
    """Return the index of the result in a folder, once what a kill left to be moved is in its place."""
    if not has_result(folder):
        return None
    index = read_index(where, folder)
    if staged(folder, INDEX):
        publish(where, folder, INDEX, index["files"], obsolete_files(where, folder, index["files"]))
    return index


def _replace(where: str, folder: Path, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Let what is written to a draft take its place; return the entries of all files of the result."""
    draft = fresh_draft(where, folder)
    try:
        entries = write(draft)
        decide(where, folder)
    except (Exception, KeyboardInterrupt):
        # What could not be written whole is in nobody's way; the older result is as it was.
        with suppress(OSError):
            clear(draft)
        raise
    publish(where, folder, INDEX, entries, obsolete_files(where, folder, entries))
    return entries


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
    # That a motion folds stands in the index and in the text beside it.
    return reference_to_moving(Motion(motion.transform, motion.params.detach().cpu()), grid=grid)


ALWAYS = (f"{VOLUME}.nii.gz", HISTORY, README, *DRAWN)
"""What every result of a command has."""


def check_place(where: str, folder: Path) -> None:
    """Raise unless a result can be written to a folder: that is noticed before a computation, not after."""
    _check_places(where, folder, ALWAYS, read_index(where, folder) if has_result(folder) else None)


def _check_places(where: str, folder: Path, files: Iterable[str], older: Mapping[str, Any] | None) -> None:
    """Raise if a folder, or a file that no result wrote, has the name of one of the files."""
    known = () if older is None else (INDEX, *older["files"], *DRAWN)
    for name in (INDEX, *files):
        came = "a folder" if (folder / name).is_dir() else "a file that is of no result there"
        if (folder / name).is_dir() or ((folder / name).exists() and name not in known):
            raise FileError(
                f"{where}: expected nothing, or a file of an older result, at {folder / name}; got {came}. "
                f"Move it away."
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


def _how_sure(visit: int, files: Mapping[str, ResultFile]) -> dict[str, Any]:
    """Return where it is written how sure a motion is, if that is known or was asked for."""
    file = uncertainty_file(visit)
    if file not in files:
        return {}
    images = {"map": deviation_file(visit), "covariance": covariance_file(visit)}
    known = {name: image if image in files else None for name, image in images.items()}
    return {"uncertainty": {"file": file, **known}}


def plain(value: Any) -> Any:
    """Return what JSON can hold of the meaning of parameters."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value
