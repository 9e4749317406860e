"""The result in a folder, read and checked file by file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from duotomo.change import Change
from duotomo.geometry import VolumeGrid
from duotomo.io.change_files import read_change_files
from duotomo.io.checkpoint_file import history_from
from duotomo.io.itk_reader import read_transform
from duotomo.io.mask_file import read_mask
from duotomo.io.paths import AnyPath, FileError, reason
from duotomo.io.patient_frame import same_place
from duotomo.io.result_files import VOLUME
from duotomo.io.result_format import FUSED_MASK
from duotomo.io.result_index import INDEX, checked, name_of, notes_of, read_index
from duotomo.io.staging import staged
from duotomo.io.uncertainty_files import SavedUncertainty, read_uncertainty
from duotomo.io.volume_file import read_volume
from duotomo.methods.result import Result
from duotomo.solvers import Status


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedResult(Result):
    """What a result folder holds: the result, and how it was made.

    Parameters
    ----------
    method, grid, volume, others, grids, motions, status, reason, applications, seconds, history
        Those of `Result`.
    uncertainties
        Always empty: of a covariance, files have what it means in millimetres.
    fused_mask
        That of `Result`.
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
    notes : tuple of str
        What a reader should know of the files.
    saved_uncertainties : tuple of SavedUncertainty
        How sure each motion is; empty if that was not computed.
    change : Change, optional
        What changed between the visits; None if that was not computed.
    """

    models: tuple[str, ...]
    params: tuple[torch.Tensor, ...] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    versions: dict[str, str]
    quality: dict[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    saved_uncertainties: tuple[SavedUncertainty, ...] = field(default=(), repr=False)
    change: Change | None = field(default=None, repr=False)

    def _model_names(self) -> tuple[str, ...]:
        return self.models


def read_result(folder: AnyPath) -> SavedResult:
    """Return the result in a folder, of this version or an earlier one.

    Parameters
    ----------
    folder
        As for `write_result`.

    Returns
    -------
    SavedResult
        On the CPU.

    Raises
    ------
    FileError
        Unless every file is there as it was written.
    """
    return read_but("read_result", Path(folder))


def read_but(where: str, folder: Path, *, but: Collection[str] = ()) -> SavedResult:
    """Return the result in a folder; but: names of files that are not looked at, for they are replaced."""
    while True:
        waiting, index = staged(folder, INDEX), read_index(where, folder)
        try:
            found = _read(folder, index, but)
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


def _read(folder: Path, index: dict[str, Any], but: Collection[str]) -> SavedResult:
    try:
        paths = {file: checked(folder, index, file) for file in index["files"] if file not in but}
        grid = VolumeGrid.from_json(json.dumps(index["grid"]))
        kinds = {file: entry["kind"] for file, entry in index["files"].items()}
        history = {kind: file for file, kind in kinds.items()}["history"]
        read = {name_of(file): read_volume(paths[file]) for file, kind in kinds.items() if kind == "volume"}
        volumes = {name: volume for name, (volume, _) in read.items()}
        _check_grid(grid, read[VOLUME][1])
        motions = index["motions"]
        return SavedResult(
            method=index["method"],
            grid=grid,
            volume=volumes.pop(VOLUME),
            others=volumes,
            grids={name: placed for name, (_, placed) in read.items() if name != VOLUME},
            motions=tuple(read_transform(paths[one["file"]], grid) for one in motions),
            models=tuple(one["model"] for one in motions),
            params=tuple(torch.tensor(one["params"], dtype=torch.float64) for one in motions),
            status=Status(index["status"]),
            reason=index["reason"],
            applications=index["applications"],
            seconds=index["seconds"],
            history=history_from(paths[history].read_text(encoding="utf-8")),
            settings=index["settings"],
            versions=index["versions"],
            quality=index["quality"],
            notes=notes_of(index),
            saved_uncertainties=tuple(
                _uncertainty(one["uncertainty"], paths) for one in motions if one.get("uncertainty")
            ),
            fused_mask=read_mask(paths[FUSED_MASK], grid) if FUSED_MASK in paths else None,
            change=_change(index["change"], paths, grid) if index.get("change") else None,
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"expected {INDEX} as write_result wrote it; got: {reason(error)}. Restore it."
        ) from error


def _uncertainty(files: Mapping[str, Any], paths: Mapping[str, Path]) -> SavedUncertainty:
    images = (paths[files[name]] if files.get(name) else None for name in ("map", "covariance"))
    return read_uncertainty(paths[files["file"]], *images)


def _change(files: Mapping[str, str], paths: Mapping[str, Path], grid: VolumeGrid) -> Change:
    change = read_change_files(
        findings=paths[files["findings"]],
        scores=paths[files["scores"]],
        silent=paths[files["silent"]],
        volume=paths[files["volume"]],
    )
    _check_grid(grid, change.grid, files["findings"])
    return change


def _check_grid(stated: VolumeGrid, found: VolumeGrid, file: str = f"{VOLUME}.nii.gz") -> None:
    """Raise unless a grid is that of a file."""
    if not same_place(stated, found):
        raise FileError(
            f"expected the grid of {INDEX} to be that of {file}, {found}; got {stated}. Restore both."
        )
