"""`duotomo convert`: scans, volumes and transforms from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotomo.cli._common import JsonOption, QuietOption, Talk
from duotomo.cli._inputs import (
    AnglesOption,
    DistanceOption,
    GeometryOption,
    MachineOption,
    PixelOption,
    ValuesOption,
    VariableOption,
)
from duotomo.cli._volumes import VolumeVoxelOption

WHERE = "duotomo convert"


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A scan, volume, transform, study or result.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Its suffix says the format.")],
    what: Annotated[
        str | None,
        typer.Option(help="Which part: volume, visit_1, transform_1, ... [default of a result: volume]"),
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
    voxel: VolumeVoxelOption = None,
    geometry: GeometryOption = None,
    machine: MachineOption = None,
    pixel_spacing: PixelOption = None,
    source_to_detector: DistanceOption = None,
    source_to_pivot: DistanceOption = None,
    angles: AnglesOption = None,
    variable: VariableOption = None,
    values: ValuesOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a scan, a volume, a transform, or a part of a result folder to another format.

    Scans become .h5, .dcm, .npy or .mha (with the geometry as JSON beside it), or, without a suffix, a folder
    with one DICOM file for each view. Volumes become .nii, .nii.gz, .mha, .nrrd or .dcm (Breast
    Tomosynthesis). Transforms become .tfm, .h5, displacements (.nii, .nii.gz, .mha) or a DICOM registration
    (.dcm). Patient and study go to DICOM outputs only: from the input, or from --patient-from.

    Example: duotomo convert result volume.dcm --what volume --patient-from scan.dcm
    """
    from duotomo.cli._conversions import Task, convert_path
    from duotomo.cli._inputs import ScanOptions, supplied_of
    from duotomo.io.file_error import FileError

    talk = Talk(quiet=quiet, as_json=as_json)
    if source == target or (source.exists() and target.exists() and source.samefile(target)):
        raise FileError(
            f"{WHERE}: expected an output beside the input; got {target} for both. Choose another name."
        )
    options = ScanOptions(
        geometry=geometry,
        machine=machine,
        pixel_spacing=pixel_spacing,
        source_to_detector=source_to_detector,
        source_to_pivot=source_to_pivot,
        angles=angles,
        variable=variable,
        values=values,
    )
    task = Task(
        source=source,
        target=target,
        what=what,
        supplied=supplied_of(WHERE, options, 1, 1),
        voxel=voxel,
        with_geometry=any(value is not None for value in (geometry, machine, pixel_spacing, angles)),
        patient_from=patient_from,
        moving_from=moving_from,
        grid_from=grid_from,
    )
    written = convert_path(task)
    talk.say("Wrote")
    for path in written:
        talk.say(f"  {path}")
    talk.finish({"status": "done", "files": [str(path) for path in written]})
