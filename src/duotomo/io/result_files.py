"""The files of a result: their names, what is in them, and what writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from duotomo.change import Change
from duotomo.change.change import RESEARCH
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.change_files import CURRENT, FINDINGS, OTHERS, SCORES, SILENT, TABLE, WRITERS
from duotomo.io.checkpoint_file import history_text
from duotomo.io.dicom.findings_report import write_findings_report
from duotomo.io.dicom.findings_segmentation import write_findings_segmentation
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.registration import write_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.displacement import MOST_VECTORS, vector_grid, write_displacement
from duotomo.io.durable import durable
from duotomo.io.itk_writer import write_transform
from duotomo.io.libraries import highdicom, nibabel, pydicom, simpleitk
from duotomo.io.mask_file import write_mask
from duotomo.io.paths import FileError
from duotomo.io.result_format import (
    FUSED_MASK,
    ResultFormat,
    covariance_file,
    deviation_file,
    inverse_file,
    motion_file,
    uncertainty_file,
)
from duotomo.io.uncertainty_files import write_covariances, write_deviations, write_summary
from duotomo.io.volume_file import write_volume
from duotomo.methods.fused import FUSED
from duotomo.methods.motion_uncertainty import MotionUncertainty
from duotomo.methods.result import Result
from duotomo.methods.uncertainty_summary import UncertaintySummary, summaries_of
from duotomo.transforms import Inverse, Motion
from duotomo.transforms.inversion import InverseStatus

VOLUME, HISTORY, README = "volume", "history.csv", "README.txt"
SEGMENTS, REPORT = "findings_segmentation.dcm", "findings_report.dcm"
CURRENT_NAME = CURRENT.partition(".")[0]
RESERVED = (VOLUME, *(name.partition(".")[0] for name in (SCORES, SILENT, CURRENT, FUSED_MASK)))
"""Names of images that other volumes cannot have."""


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """A file of a result: its kind, one line about it, and what writes it to a path."""

    kind: str
    about: str
    write: Callable[[Path], None]


def check_libraries(formats: Sequence[ResultFormat] = (), *, change: bool = False) -> None:
    """Raise unless what a result needs is installed: it is missed before the computation, not after.

    Parameters
    ----------
    formats : sequence of ResultFormat
        As `write_result` has them.
    change : bool
        Whether findings are written too.

    Raises
    ------
    FileError
        If a library is missing.
    """
    nibabel(), simpleitk()
    if ResultFormat.DICOM in formats:
        highdicom() if change else pydicom()


def result_files(
    where: str,
    result: Result,
    *,
    moving_grids: Sequence[VolumeGrid],
    inverses: Sequence[Inverse],
    displacements: bool,
    formats: Sequence[ResultFormat],
    identities: Sequence[Identity | None] | None,
    change: Change | None = None,
    summaries: Sequence[UncertaintySummary] | None = None,
) -> dict[str, ResultFile]:
    """Return the files of a result by name, but for the index and the text that explains them."""
    volumes = {VOLUME: result.volume, **result.others}
    files = {
        f"{name}.nii.gz": ResultFile(
            kind="volume",
            about=_about_volume(name),
            write=partial(write_volume, volume=volume, grid=result.grids.get(name, result.grid)),
        )
        for name, volume in volumes.items()
    }
    if result.fused_mask is not None:
        about = "where fused is that of both views: 1; elsewhere it is visit_1"
        mask = partial(write_mask, mask=result.fused_mask, grid=result.grid)
        files[FUSED_MASK] = ResultFile(kind="mask", about=about, write=mask)
    moved = zip(result.motions, inverses, moving_grids, strict=True)
    for visit, (motion, inverse, grid) in enumerate(moved, start=2):
        files |= _motion_files(visit, motion, inverse, grid, result.grid, displacements)
    summaries = summaries_of(result, moving_grids) if summaries is None else summaries
    if len(summaries) != len(result.uncertainties):
        raise DuotomoError(
            f"{where}: expected summaries of {len(result.uncertainties)} uncertainties; got "
            f"{len(summaries)}. Pass what `summaries_of` returns of this result, or none."
        )
    for visit, (known, summary) in enumerate(zip(result.uncertainties, summaries, strict=True), start=2):
        files |= _uncertainty_files(visit, known, summary, moving_grids[visit - 2])
    if change is not None:
        files |= _change_files(change)
    for kind in (ResultFormat.MHA, ResultFormat.NRRD):
        for name, volume in volumes.items() if kind in formats else ():
            grid = result.grids.get(name, result.grid)
            files[f"{name}.{kind.value}"] = _copy(name, partial(write_volume, volume=volume, grid=grid))
        if change is not None and kind in formats:
            write = partial(write_volume, volume=change.volume, grid=change.grid, note=RESEARCH)
            files[f"{CURRENT_NAME}.{kind.value}"] = _copy(CURRENT_NAME, write)
    if ResultFormat.DICOM in formats:
        files |= _dicom_files(where, result, volumes, identities, change)
    history = partial(write_text, text=history_text(result.history))
    files[HISTORY] = ResultFile(kind="history", about="the steps of the run", write=history)
    _check_names(where, result.others, files)
    return files


def _motion_files(
    visit: int,
    motion: Motion,
    inverse: Inverse,
    moving_grid: VolumeGrid,
    grid: VolumeGrid,
    displacements: bool,
) -> dict[str, ResultFile]:
    files = {
        motion_file(visit): ResultFile(
            kind="motion",
            about=f"takes points of visit {visit} to the reference",
            write=partial(write_transform, motion=motion, grid=moving_grid),
        ),
        inverse_file(visit): ResultFile(
            kind="inverse",
            about=f"takes points of the reference to visit {visit}{_exactness(inverse)}",
            write=partial(write_transform, motion=inverse.motion, grid=grid),
        ),
    }
    if displacements:
        files[f"visit_{visit}_to_reference_displacement.nii.gz"] = ResultFile(
            kind="displacement",
            about=f"how far that takes the voxels of visit {visit}, in mm, as vectors for ITK",
            write=partial(write_displacement, motion=motion, grid=vector_grid(motion, moving_grid)),
        )
    return files


def _uncertainty_files(
    visit: int, uncertainty: MotionUncertainty, summary: UncertaintySummary, moving_grid: VolumeGrid
) -> dict[str, ResultFile]:
    files = {
        uncertainty_file(visit): ResultFile(
            kind="uncertainty",
            about=f"how sure the motion of visit {visit} is: {summary.words}",
            write=partial(write_summary, summary=summary, visit=visit),
        )
    }
    if uncertainty.is_known:
        grid = moving_grid.coarsened_to(MOST_VECTORS)
        files[deviation_file(visit)] = ResultFile(
            kind="deviation",
            about=f"the same at the voxels of visit {visit}: standard deviations along x, y and z, in mm",
            write=partial(write_deviations, uncertainty=uncertainty, grid=grid),
        )
        files[covariance_file(visit)] = ResultFile(
            kind="covariance",
            about=f"covariances of where the points of visit {visit} go, about 8 mm apart, in mm^2",
            write=partial(write_covariances, uncertainty=uncertainty, grid=moving_grid),
        )
    return files


def _change_files(change: Change) -> dict[str, ResultFile]:
    n = len(change.findings)
    found = (
        f"no findings: {change.reason.rstrip('.')}"
        if change.reason
        else f"{n or 'no'} finding{'s' * (n != 1)}"
    )
    abouts = {
        SCORES: "how sure it is that a place changed: z scores, NaN where nothing is said",
        SILENT: f"why nothing is said there, by the codes in {FINDINGS}; 0 where something is",
        CURRENT: "the current visit, with what changed at its own contrast",
        TABLE: "the findings as a table",
        FINDINGS: f"what changed between the visits: {found}",
    }
    return {
        name: ResultFile(
            kind=OTHERS.get(name, "findings"),
            about=f"{abouts[name]}. {RESEARCH}",
            write=partial(write, change=change),
        )
        for name, write in WRITERS.items()
    }


def _dicom_files(
    where: str,
    result: Result,
    volumes: Mapping[str, torch.Tensor],
    identities: Sequence[Identity | None] | None,
    change: Change | None,
) -> dict[str, ResultFile]:
    n_visits = len(result.motions) + 1
    given = [None] * n_visits if identities is None else list(identities)
    if len(given) != n_visits:
        raise FileError(
            f"{where}: expected `identities` of {n_visits} visits, the reference first; got {len(given)}. "
            f"Pass None for a visit without one."
        )
    known = [Identity.anonymous() if one is None else one for one in given]
    files = {
        f"{name}.dcm": _copy(
            name,
            partial(
                write_tomosynthesis,
                volume=volume,
                grid=result.grids.get(name, result.grid),
                identity=known[visit_of(name)],
                description=f"duotomo {name.replace('_', ' ')}",
            ),
        )
        for name, volume in volumes.items()
    }
    for visit, (motion, identity) in enumerate(zip(result.motions, known[1:], strict=True), start=2):
        write = partial(
            write_registration,
            motion=motion,
            grid=vector_grid(motion, result.grid),
            fixed=known[0],
            moving=identity,
        )
        about = f"shows visit {visit} on the reference in a DICOM viewer"
        files[f"visit_{visit}_to_reference.dcm"] = ResultFile(kind="registration", about=about, write=write)
    return files if change is None else files | _dicom_change(change, known[0])


def _dicom_change(change: Change, identity: Identity) -> dict[str, ResultFile]:
    """Return the current visit, then its segments and then the report, each of which names those before."""
    volume = partial(
        write_tomosynthesis,
        volume=change.volume,
        grid=change.grid,
        identity=identity,
        description="duotomo current, research use only",
    )
    current = f"{CURRENT_NAME}.dcm"

    def segments(path: Path) -> None:
        write_findings_segmentation(path, change, path.with_name(current), identity=identity)

    def report(path: Path) -> None:
        beside = path.with_name(SEGMENTS) if change.findings else None
        write_findings_report(path, change, path.with_name(current), segmentation=beside, identity=identity)

    files = {current: _copy(CURRENT_NAME, volume)}
    if change.findings:
        about = f"the findings as segments of {current}. {RESEARCH}"
        files[SEGMENTS] = ResultFile(kind="segmentation", about=about, write=segments)
    about = f"the findings as a structured report. {RESEARCH}"
    return files | {REPORT: ResultFile(kind="report", about=about, write=report)}


def visit_of(name: str) -> int:
    """Return the visit, from 0, in whose frame a volume lies, from the volume's name.

    >>> [visit_of(name) for name in ("volume", "visit_1", "visit_2", "visit_2_registered")]
    [0, 0, 1, 0]
    """
    number = name.removeprefix("visit_")
    return int(number) - 1 if number.isdigit() else 0


def _about_volume(name: str) -> str:
    """Return what a volume is, from its name.

    >>> _about_volume("visit_2_registered")
    'from visit 2 alone, resampled to the frame of the reference'
    """
    number = name.removeprefix("visit_").removesuffix("_registered")
    if name == FUSED:
        return "that of both views where their motion is sure, elsewhere that of visit 1 alone"
    if name == VOLUME:
        return "the volume, in the frame of the reference, which is visit 1"
    if not name.startswith("visit_") or not number.isdigit():
        return "a further volume of the method"
    if name.endswith("_registered"):
        return f"from visit {number} alone, resampled to the frame of the reference"
    return f"from visit {number} alone{'' if number == '1' else ', in its own frame'}"


def _exactness(inverse: Inverse) -> str:
    if inverse.status is InverseStatus.CLOSED_FORM:
        return ""
    within = f"; right to {inverse.residual_mm:.2g} mm at the points of its lattice"
    if inverse.status is not InverseStatus.FOLDED or inverse.folding is None:
        return within
    return f"{within}, but at {inverse.folding.n_folded} of them the motion folds, and has no inverse"


def _copy(name: str, write: Callable[[Path], None]) -> ResultFile:
    return ResultFile(kind="copy", about=f"the same as {name}.nii.gz", write=write)


def write_text(path: Path, text: str) -> None:
    """Write a file of text; an older one is replaced once the new one is complete."""
    with durable("write_result", path) as fresh:
        fresh.write_text(text, encoding="utf-8")


def _check_names(where: str, others: Mapping[str, torch.Tensor], files: Mapping[str, ResultFile]) -> None:
    taken = [file.partition(".")[0] for file, content in files.items() if content.kind != "copy"]
    for name in others:
        if taken.count(name) > 1 or name in RESERVED or not name.isidentifier():
            raise FileError(
                f"{where}: expected other volumes to have names of letters, digits and underscores that no "
                f"other file has; got {name!r}. Rename it."
            )
