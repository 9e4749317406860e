"""What changed between two visits, in files: findings, a table of them, and three images.

The images are the scores, the places where nothing is said, and the current visit. `findings.json` names them
with their SHA-256, and ends with its own, so that the files may travel without the result that they are of.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.change import Change, FalseFindings, Finding, Silent
from duotomo.change.change import RESEARCH, SILENT_WORDS
from duotomo.geometry import VolumeGrid
from duotomo.io.durable import durable
from duotomo.io.images import read_image
from duotomo.io.images.image import check_components
from duotomo.io.images.nifti import write_nifti
from duotomo.io.json_digest import check_digest, with_digest
from duotomo.io.paths import FileError, naming, reason
from duotomo.io.patient_frame import aligned, from_image, ras_affine, same_place
from duotomo.io.result_index import entry_of
from duotomo.io.schemas import ChangeSchema, check_schema
from duotomo.io.volume_file import read_volume

FORMAT, VERSION = "duotomo change", 1

FINDINGS, TABLE = "findings.json", "findings.csv"
SCORES, SILENT, CURRENT = "change_z.nii.gz", "change_silent.nii.gz", "current.nii.gz"
OTHERS = {SCORES: "scores", SILENT: "silent", CURRENT: "current", TABLE: "table"}
"""Kinds of the files beside findings.json."""

MOST_BYTES = 2**24
"""Of findings.json: thousands of findings are far below."""

_Z_SCORE, _LABEL = 5, 1002
"""NIfTI's words for what an image holds."""


def write_scores(path: Path, change: Change) -> None:
    """Write the score at each voxel as NIfTI, float32; NaN where nothing is said."""
    scores = change.z_map.float().masked_fill(change.silent != Silent.STATED, torch.nan)
    _write_image(path, scores, change.grid, "z of what changed", _Z_SCORE)


def write_silent(path: Path, change: Change) -> None:
    """Write why nothing is said of a voxel as NIfTI, uint8: the codes of `Silent`."""
    _write_image(path, change.silent, change.grid, "why nothing is said; 0: it is", _LABEL)


def write_current(path: Path, change: Change) -> None:
    """Write the current visit, its findings at their own contrast, as NIfTI of its own precision."""
    _write_image(path, change.volume, change.grid, "the current visit, 1/mm", None)


def write_table(path: Path, change: Change) -> None:
    """Write the findings as CSV, a line for each."""
    with durable("write_change", path) as fresh:
        fresh.write_text(table_text(change), encoding="utf-8", newline="")


def write_findings(path: Path, change: Change) -> None:
    """Write all but the images as JSON, with the SHA-256 of the other files, which are beside it already."""
    entries = {name: entry_of(kind, path.parent / name) for name, kind in OTHERS.items()}
    with durable("write_change", path) as fresh:
        fresh.write_text(with_digest({**change_dict(change), "files": entries}), encoding="utf-8")


class Writer(Protocol):
    """Writes one of the files."""

    def __call__(self, path: Path, change: Change) -> None: ...


WRITERS: Mapping[str, Writer] = {
    SCORES: write_scores,
    SILENT: write_silent,
    CURRENT: write_current,
    TABLE: write_table,
    FINDINGS: write_findings,
}
"""In the order in which they are called: the last one names the files of the others."""


def change_dict(change: Change) -> dict[str, Any]:
    """Return what `findings.json` says, but for the files beside it.

    Parameters
    ----------
    change : Change
        What changed.

    Returns
    -------
    dict
        Plain values, which JSON can hold; a number that is not finite is null there.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "research_use": RESEARCH,
        "reason": change.reason,
        "threshold": change.threshold,
        "false_findings": {
            "thresholds": list(change.false_findings.thresholds),
            "expected": list(change.false_findings.expected),
        },
        "findings": [finding.to_dict() for finding in change.findings],
        "silent": silent_rows(change),
        "grid": json.loads(change.grid.to_json()),
    }


def silent_rows(change: Change) -> list[dict[str, Any]]:
    """Return of each code of the silent voxels what it means, and of how many voxels it is.

    Parameters
    ----------
    change : Change
        Whose silent voxels are counted.

    Returns
    -------
    list of dict
        `code`, `words`, `voxels`, and `share_of_breast`: of the voxels that are not outside of it; None for
        those, and where there is no breast.
    """
    counts = torch.bincount(change.silent.flatten().long(), minlength=len(Silent)).tolist()
    inside = sum(counts) - counts[Silent.OUTSIDE_BREAST]
    return [
        {
            "code": int(one),
            "words": SILENT_WORDS.get(one, "something is said"),
            "voxels": counts[one],
            "share_of_breast": counts[one] / inside if inside and one != Silent.OUTSIDE_BREAST else None,
        }
        for one in Silent
    ]


def table_text(change: Change) -> str:
    """Return the findings as CSV, a line for each; the last column's name stands there without any too."""
    parts = {
        "place_mm": ("x_mm", "y_mm", "z_mm"),
        "place_deviation_mm": ("x_deviation_mm", "y_deviation_mm", "z_deviation_mm"),
        "prior_place_mm": ("prior_x_mm", "prior_y_mm", "prior_z_mm"),
        "size_interval_mm": ("size_lower_mm", "size_upper_mm"),
        "contrast_interval_per_mm": ("contrast_lower_per_mm", "contrast_upper_per_mm"),
        "z": ("z_score",),
    }
    names = [part for name in Finding.__dataclass_fields__ for part in parts.get(name, (name,))]
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*names, "research_use_only"])
    for finding in change.findings:
        values = finding.to_dict().values()
        cells = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        rows.writerow([*cells, RESEARCH])
    return text.getvalue()


def read_change_files(*, findings: Path, scores: Path, silent: Path, volume: Path) -> Change:
    """Return what `WRITERS` wrote to these paths.

    Raises
    ------
    FileError
        If a file is not what it was, or does not fit the others.
    """
    where = "read_change"
    with naming(where, findings):
        content = read_findings(findings)
        grid = VolumeGrid.from_json(json.dumps(content["grid"]))
    with naming(where, silent):
        codes = _image(silent, grid)
        if codes.dtype != np.uint8 or codes.max() >= len(Silent):
            raise FileError(f"expected bytes below {len(Silent)}; got others. Restore the file.")
    with naming(where, scores):
        z_map = _image(scores, grid)
        if z_map.dtype != np.float32 or np.isinf(z_map).any() or not np.isnan(z_map[codes > 0]).all():
            raise FileError(
                f"expected scores, and NaN where {SILENT} is not 0; got others. Restore the file."
            )
    with naming(where, volume):
        current, found = read_volume(volume)
        _check_place(grid, found)
    threshold = content["threshold"]
    return Change(
        grid=grid,
        z_map=torch.from_numpy(z_map),
        silent=torch.from_numpy(codes),
        volume=current,
        findings=tuple(map(Finding.from_dict, content["findings"])),
        threshold=torch.inf if threshold is None else threshold,
        false_findings=FalseFindings(
            **{name: tuple(values) for name, values in content["false_findings"].items()}
        ),
        reason=content["reason"],
    )


def read_findings(path: Path) -> dict[str, Any]:
    """Return the content of `findings.json`, whose SHA-256 and schema are checked."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"a file of more than {MOST_BYTES} bytes")
        data = path.read_bytes()
        check_digest(data)
        content: dict[str, Any] = json.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(
            f"expected JSON as write_change wrote it; got: {reason(error)}. Restore it."
        ) from error
    check_schema(ChangeSchema, content)
    return content


def _write_image(path: Path, volume: torch.Tensor, grid: VolumeGrid, what: str, intent: int | None) -> None:
    values = volume.detach().cpu().numpy().transpose(2, 1, 0)
    with durable("write_change", path) as fresh:
        write_nifti(fresh, values, ras_affine(grid), intent=intent, description=f"{what}. {RESEARCH}")


def _image(path: Path, grid: VolumeGrid) -> NDArray[Any]:
    """Return the numbers of an image as they are stored, (z, y, x); raise unless they lie on a grid."""
    image = read_image(path, in_one_file=True)
    check_components(image, 1, "one volume")
    placement = aligned(from_image(image, image.array[None]), "Restore the file.")
    _check_place(grid, placement.grid)
    values: NDArray[Any] = placement.vectors[0].copy()
    return values


def _check_place(stated: VolumeGrid, found: VolumeGrid) -> None:
    if not same_place(stated, found):
        raise FileError(f"expected the grid of {FINDINGS}, {stated}; got {found}. Restore both.")
