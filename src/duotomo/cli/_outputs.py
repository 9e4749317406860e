"""What a command leaves in its folder: the result, its settings, a picture and the page to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._settings_file import settings_text

if TYPE_CHECKING:
    import torch

    from duotomo.cli._common import Talk
    from duotomo.geometry import VolumeGrid
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.result_folder import Extra
    from duotomo.methods import Result, Study
    from duotomo.transforms import Transform

CHECKPOINT, PICTURE, SETTINGS = "checkpoint.h5", "three_views.png", "settings.toml"

PATHS = ("inputs", "scan", "reference", "moving", "geometry")
"""Options that are paths: a file's name may be a patient's."""

NOT_KEPT = ("settings", "out", "resume", "quiet", "as_json", "keep_paths", "help")
"""Options that say how to run, not what to compute."""


class Format(Enum):
    """A format of volumes beside NIfTI."""

    MHA = "mha"
    NRRD = "nrrd"
    DICOM = "dicom"


FormatOption = Annotated[
    list[Format] | None,
    typer.Option("--format", help="Write volumes in this format too; may be given twice."),
]
DicomOption = Annotated[
    bool, typer.Option("--dicom", help="The same as --format dicom: volumes and registrations.")
]
KeepPathsOption = Annotated[
    bool,
    typer.Option("--keep-paths", help="Write the paths of the inputs into settings.toml, to repeat the run."),
]


def options_of(context: typer.Context, *, keep_paths: bool) -> dict[str, Any]:
    """Return the options of a command as they were given or taken, without paths unless they are kept."""
    left_out = NOT_KEPT if keep_paths else (*NOT_KEPT, *PATHS)
    names = [param.name for param in context.command.params if param.name in context.params]
    values = {str(name): context.params[str(name)] for name in names if name not in left_out}
    return {name: _plain(value) for name, value in values.items() if value not in (None, (), [])}


def check_libraries(formats: Sequence[Format]) -> None:
    """Raise unless what the result needs is installed: it is missed before the computation, not after."""
    from duotomo.io.libraries import nibabel, pydicom, simpleitk

    nibabel(), simpleitk()
    if Format.DICOM in formats:
        pydicom()


def extra_files(
    result: Result,
    formats: Sequence[Format],
    *,
    identities: Sequence[Identity | None],
) -> dict[str, Extra]:
    """Return the files to write beside NIfTI and ITK: volumes, and for DICOM the transforms too.

    identities: of the visits, the reference first; None for a visit whose file had none.
    """
    from duotomo.io import write_volume
    from duotomo.io.result_folder import Extra, few_enough

    volumes = {"volume": result.volume, **result.others}
    extras: dict[str, Extra] = {}
    for kind in (Format.MHA, Format.NRRD):
        for name, volume in volumes.items() if kind in formats else ():
            write = partial(write_volume, volume=volume, grid=result.grids.get(name, result.grid))
            extras[f"{name}_{kind.value}"] = Extra(suffix=f".{kind.value}", write=write)
    if Format.DICOM in formats:
        known = known_identities(identities)
        for name, volume in volumes.items():
            write = partial(
                _write_dicom,
                volume=volume,
                grid=result.grids.get(name, result.grid),
                identity=known[_visit_of(name)],
                description=name.replace("_", " "),
            )
            extras[f"{name}_dicom"] = Extra(suffix=".dcm", write=write)
        moved = zip(result.transforms, result.params, known[1:], strict=True)
        for number, (transform, params, identity) in enumerate(moved, start=1):
            write = partial(
                _write_registration,
                transform=transform,
                params=params,
                grid=few_enough(result.grid),
                fixed=known[0],
                moving=identity,
            )
            extras[f"transform_{number}_dicom"] = Extra(suffix=".dcm", write=write)
    return extras


def known_identities(identities: Sequence[Identity | None]) -> list[Identity]:
    """Return an identity for each visit: its own, or that of nobody."""
    from duotomo.io.dicom.identity import Identity

    return [Identity.anonymous() if identity is None else identity for identity in identities]


def _visit_of(name: str) -> int:
    """Return the visit, from 0, in whose frame a volume lies, from the volume's name.

    >>> [_visit_of(name) for name in ("volume", "visit_1", "visit_2", "visit_2_registered")]
    [0, 0, 1, 0]
    """
    number = name.removeprefix("visit_")
    return int(number) - 1 if number.isdigit() else 0


def write_folder(
    command: str,
    out: Path,
    result: Result,
    *,
    study: Study | None = None,
    moving_grids: Sequence[VolumeGrid] | None = None,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    quality: Mapping[str, Any],
    extras: Mapping[str, Extra],
    talk: Talk,
) -> Path | None:
    """Write everything, say what was written, and return the path of the page, if one could be made."""
    import duotomo
    from duotomo.io import write_result
    from duotomo.io.durable import durable
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.report import three_views

    where = f"duotomo {command}"
    write_result(
        out,
        result,
        study=study,
        moving_grids=moving_grids,
        settings=settings,
        quality=quality,
        extras=extras,
        displacements=True,
    )
    shown = {"reconstruction": result.volume}
    with durable(where, out / PICTURE) as fresh:
        three_views(fresh, columns=shown, grid=result.grid, unit="1/mm")
    remarks = [f"Written by duotomo {duotomo.__version__}. Repeat it with", _again(command, options)]
    with durable(where, out / SETTINGS) as fresh:
        fresh.write_text(settings_text(command, options, remarks=remarks), encoding="utf-8")
    page = _page(out, talk)
    talk.say("Wrote")
    files = [entry["file"] for entry in read_index(where, out)["files"].values()]
    for name in (INDEX, *files, SETTINGS, PICTURE):
        talk.say(f"  {out / name}")
    if page is not None:
        talk.say(f"  {page}")
    return page


def _page(out: Path, talk: Talk) -> Path | None:
    """Write the page of what is in the folder now; the result is there with it or without."""
    from duotomo.errors import DuotomoError
    from duotomo.report.page import write_page

    try:
        return write_page(out)
    except DuotomoError as error:
        talk.progress(f"No page was made: {error}")
        return None


def _again(command: str, options: Mapping[str, Any]) -> str:
    inputs = "" if any(name in options for name in PATHS) else " THE SAME INPUTS"
    return f"duotomo {command}{inputs} --settings {SETTINGS} --out ANOTHER_FOLDER"


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value.resolve())
    return value if isinstance(value, (bool, int, float)) else str(value)


def _write_dicom(
    path: Path, volume: torch.Tensor, grid: VolumeGrid, identity: Identity, description: str
) -> None:
    from duotomo.io.dicom.tomosynthesis import write_tomosynthesis

    write_tomosynthesis(path, volume, grid, identity=identity, description=f"duotomo {description}")


def _write_registration(
    path: Path,
    transform: Transform,
    params: torch.Tensor,
    grid: VolumeGrid,
    fixed: Identity,
    moving: Identity,
) -> None:
    from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
    from duotomo.transforms import Affine, Rigid, Translation

    if isinstance(transform, (Translation, Rigid, Affine)):
        write_spatial_registration(path, transform, params, fixed=fixed, moving=moving)
    else:
        write_deformable_registration(path, transform, params, grid=grid, fixed=fixed, moving=moving)
