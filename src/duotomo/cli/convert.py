"""`duotomo convert`: scans, volumes and transforms from one format to another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from duotomo.cli._options import Deidentifying, FilePermissions, FileScan, Talk, VolumeVoxel


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A scan, volume, transform, study or result.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Its suffix says the format.")],
    scan: FileScan,
    allowed: FilePermissions,
    deidentifying: Deidentifying,
    talk: Talk,
    what: Annotated[
        str | None,
        typer.Option(
            help="Which part: volume, visit_1, visit_2_to_reference, ... [default of a result: volume]"
        ),
    ] = None,
    patient_from: Annotated[
        Path | None, typer.Option(help="A DICOM file whose patient and study the output belongs to.")
    ] = None,
    moving_from: Annotated[
        Path | None, typer.Option(help="For a DICOM registration: a file of the moving visit.")
    ] = None,
    grid_from: Annotated[
        Path | None, typer.Option(help="For displacements: a volume on whose grid they are given.")
    ] = None,
    voxel_mm: VolumeVoxel = None,
    inverse: Annotated[
        bool, typer.Option("--inverse", help="Of a transform: its inverse, and how exact it is.")
    ] = False,
) -> None:
    """Convert a scan, a volume, a transform, or a part of a result folder to another format.

    Scans become .h5, .dcm, .npy or .mha (with the geometry as JSON beside it), or, without a suffix, a folder
    with one DICOM file for each view. Volumes become .nii, .nii.gz, .mha, .nrrd or .dcm (Breast
    Tomosynthesis). Transforms become .tfm, .h5, displacements (.nii, .nii.gz, .mha) or a DICOM registration
    (.dcm), and such registrations are read. Patient and study go to DICOM outputs only: from the input, or
    from --patient-from; or a pseudonym, with --deidentify.

    Example: duotomo convert result volume.dcm --what volume --patient-from scan.dcm
    """
    from duotomo import io

    written = io.convert(
        source,
        target,
        what=what,
        options=replace(scan, voxel_mm=voxel_mm),
        patient_from=patient_from,
        moving_from=moving_from,
        grid_from=grid_from,
        allowed=allowed,
        pseudonyms=deidentifying.pseudonyms(),
        inverse=inverse,
        on_note=talk.say,
    )
    talk.wrote(written)
    talk.finish({"status": "done", "files": [str(path) for path in written]})
