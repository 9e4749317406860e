"""What changed between two visits, in a folder of its own or in that of a result."""

from __future__ import annotations

from pathlib import Path

from duotomo.change import Change
from duotomo.io.change_files import (
    CURRENT,
    FINDINGS,
    OTHERS,
    SCORES,
    SILENT,
    WRITERS,
    read_change_files,
    read_findings,
)
from duotomo.io.file_set import check_whole, together
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.result_index import checked, has_result
from duotomo.io.result_reader import read_result


def write_change(folder: AnyPath, change: Change) -> list[Path]:
    """Write what changed to a folder of its own; `write_result(..., change=...)` puts it beside a result.

    `findings.json` has all numbers, what the codes of silent voxels mean, and the SHA-256 of the other files;
    `findings.csv` a line for each finding. `change_z.nii.gz`, `change_silent.nii.gz` and `current.nii.gz` are
    the map of scores, where nothing is said and why, and the current visit. Older ones are replaced together.

    Parameters
    ----------
    folder : str or path
        Which has to be there.
    change : Change
        What changed.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    FileError
        If the folder is not there, holds a result, or cannot be written to.
    """
    where, folder = "write_change", Path(folder)
    if not folder.is_dir():
        raise FileError(f"{where}: expected a folder at {folder}; got none. Make it first.")
    if has_result(folder):
        raise FileError(
            f"{where}: expected a folder without a result; got {folder}, which has one. Pass `change` to "
            f"write_result, or choose another folder."
        )
    with together(where, folder, "change") as draft:
        for name, write in WRITERS.items():
            write(draft / name, change)
    return [folder / name for name in WRITERS]


def read_change(folder: AnyPath) -> Change:
    """Return what changed, from a folder of its own or from that of a result.

    Parameters
    ----------
    folder : str or path
        As `write_change` or `write_result` wrote it.

    Returns
    -------
    Change
        On the CPU.

    Raises
    ------
    FileError
        Unless every file is there as it was written.

    Examples
    --------
    >>> import torch
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.geometry import VolumeGrid
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_change(folder, Change.none(grid, torch.ones(2, 3, 4), "There is one visit only."))
    ...     read_change(folder).reason
    'There is one visit only.'
    """
    where, folder = "read_change", Path(folder)
    if has_result(folder):
        found = read_result(folder).change
        if found is None:
            raise FileError(
                f"{where}: expected a result with {FINDINGS} in {folder}; got one without. Compute it with "
                f"duotomo change."
            )
        return found
    with naming(where, folder / FINDINGS):
        check_whole(folder)
        index = read_findings(folder / FINDINGS)
    with naming(where, folder):
        paths = {name: checked(folder, index, name) for name in OTHERS}
    return read_change_files(
        findings=folder / FINDINGS, scores=paths[SCORES], silent=paths[SILENT], volume=paths[CURRENT]
    )
