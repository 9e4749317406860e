"""`duotomo info`: what a file is, what was understood of it, and what is missing."""

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

WHERE = "duotomo info"


def info(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file or a folder of any kind.")],
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
    """Say what a scan, volume, study, transform, geometry or result folder is: nothing that names a patient.

    Of a scan: views, angles, geometry, pixel sizes, the kind and range of its values, and warnings. A scan
    whose geometry is missing is described all the same, with what is missing and the options that supply it.

    Example: duotomo info scan.dcm
    """
    from duotomo.cli._described import describe, lines
    from duotomo.cli._inputs import ScanOptions, supplied_of
    from duotomo.cli._recognise import recognise

    talk = Talk(quiet=quiet, as_json=as_json)
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
    supplied = supplied_of(WHERE, options, 1, 1)
    said = any(value is not None for value in (geometry, machine, pixel_spacing, angles))
    kind = recognise(WHERE, path, with_geometry=said)
    facts = describe(path, kind, supplied)
    talk.say(kind.value)
    for line in lines(facts, indent="  "):
        talk.say(line)
    talk.finish({"kind": kind.value, **facts})
