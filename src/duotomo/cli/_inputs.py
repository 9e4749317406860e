"""Scans and studies from the command line: the options that describe them, and the study they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from duotomo.cli._common import Talk
    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.scan import Scan, Supplied
    from duotomo.methods import Study, Visit


GEOMETRY, LOG, GRID = "Geometry", "Line integrals", "Volume"
"""The panels of --help that the options stand in."""


class ValuesChoice(Enum):
    """What the numbers of a file are."""

    LINE_INTEGRALS = "line-integrals"
    COUNTS = "counts"


GeometryOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="A geometry JSON or RTK XML: once for all visits, or once for each.", rich_help_panel=GEOMETRY
    ),
]
MachineOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A published machine, such as ge_senoclaire: once for all visits, or once for each.",
        rich_help_panel=GEOMETRY,
    ),
]
PixelOption = Annotated[str | None, typer.Option(help="V,U in mm.", rich_help_panel=GEOMETRY)]
DistanceOption = Annotated[float | None, typer.Option(min=0, help="In mm.", rich_help_panel=GEOMETRY)]
AnglesOption = Annotated[
    str | None,
    typer.Option(help="Of the tube, one per view, in degrees: -25,-20,...", rich_help_panel=GEOMETRY),
]
VariableOption = Annotated[
    str | None, typer.Option(help="The array of a .mat or HDF5 file.", rich_help_panel=GEOMETRY)
]
ValuesOption = Annotated[ValuesChoice | None, typer.Option(help="What the numbers are.", rich_help_panel=LOG)]
FlatFieldOption = Annotated[
    float | None, typer.Option(min=0, help="Counts without the breast.", rich_help_panel=LOG)
]
EstimateOption = Annotated[
    bool,
    typer.Option(
        "--estimate-flat-field", help="Take it from pixels that nothing covers.", rich_help_panel=LOG
    ),
]
SaturationOption = Annotated[
    float | None, typer.Option(min=0, help="Counts from which on a pixel is dead.", rich_help_panel=LOG)
]
ScatterOption = Annotated[
    float, typer.Option(min=0, help="Counts to subtract before the logarithm.", rich_help_panel=LOG)
]
TransmissionOption = Annotated[
    float, typer.Option(min=0, max=1, help="Transmission is taken to be at least this.", rich_help_panel=LOG)
]
DeadOption = Annotated[
    bool, typer.Option("--keep-dead", help="Leave dead pixels as they are.", rich_help_panel=LOG)
]
VoxelOption = Annotated[
    str | None,
    typer.Option(help="Z,Y,X in mm. Unless given: 1 mm, and the size of a pixel.", rich_help_panel=GRID),
]
ThicknessOption = Annotated[
    str | None,
    typer.Option(
        help="Of the compressed breast, in mm; one for all visits, or one for each: 52,48.",
        rich_help_panel=GRID,
    ),
]
GapOption = Annotated[
    float, typer.Option(min=0, help="Between detector and breast, in mm.", rich_help_panel=GRID)
]


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """What was said on the command line about the scans."""

    geometry: list[Path] | None = None
    machine: list[str] | None = None
    pixel_spacing: str | None = None
    source_to_detector: float | None = None
    source_to_pivot: float | None = None
    angles: str | None = None
    variable: str | None = None
    values: ValuesChoice | None = None
    flat_field: float | None = None
    estimate_flat_field: bool = False
    scatter_offset: float = 0.0
    least_transmission: float = 1e-5
    keep_dead: bool = False
    saturation: float | None = None
    voxel: str | None = None
    thickness: str | None = None
    gap: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """The study, and of each visit what a report may say about it; nothing there names a patient.

    identities: of each visit where its file has one, for DICOM files only.
    """

    study: Study
    described: tuple[dict[str, Any], ...]
    identities: tuple[Identity | None, ...] = field(repr=False)


def read_inputs(
    where: str, paths: Sequence[Path], options: ScanOptions, *, device: str, talk: Talk
) -> Inputs:
    """Return the study of one study file, or of scans, the reference first."""
    from duotomo.errors import DuotomoError
    from duotomo.io import read_study

    if any(map(is_study, paths)):
        if len(paths) > 1:
            raise DuotomoError(
                f"{where}: expected scans, or one study alone; got {len(paths)} files, a study among them. "
                f"Pass the study alone: it holds all visits."
            )
        changed = [name for name, value in vars(options).items() if value != getattr(ScanOptions(), name)]
        if changed:
            raise DuotomoError(
                f"{where}: expected a study to say all about its scans; got "
                f"{', '.join(map(_option, changed))} too. Leave them out, or pass the scans themselves."
            )
        study = read_study(paths[0], device)
        described = tuple(_described(visit.acquisition, "duotomo study") for visit in study.visits)
        return Inputs(study=study, described=described, identities=(None,) * len(study.visits))
    scans = [
        read_one(where, path, options, number=number, n_visits=len(paths), talk=talk)
        for number, path in enumerate(paths, start=1)
    ]
    grids = _grids(where, [scan for scan, _ in scans], options, talk)
    from duotomo.methods import Study

    visits = tuple(
        _visit(scan, grid if grid != grids[0] else None, device)
        for (scan, _), grid in zip(scans, grids, strict=True)
    )
    described = tuple(
        {
            **_described(scan.acquisition, scan.format),
            "facts": dict(scan.facts),
            "warnings": list(scan.warnings),
            "preparation": list(words),
        }
        for scan, words in scans
    )
    identities = tuple(scan.identity for scan, _ in scans)
    _warn_of_strangers([scan for scan, _ in scans], talk)
    return Inputs(study=Study(grid=grids[0], visits=visits), described=described, identities=identities)


def is_study(path: Path) -> bool:
    """Return whether a file says of itself that it is a study."""
    from duotomo.io.hdf5 import SUFFIXES
    from duotomo.io.libraries import _library
    from duotomo.io.study_file import KIND

    if not path.name.endswith(SUFFIXES) or not path.is_file():
        return False
    try:
        with _library("h5py").File(path, "r") as file:
            found = file.attrs.get("format")
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        return False
    return (found.decode(errors="replace") if isinstance(found, bytes) else found) == KIND.format


def read_one(
    where: str, path: Path, options: ScanOptions, *, number: int, n_visits: int, talk: Talk
) -> tuple[Scan, tuple[str, ...]]:
    """Return one visit as line integrals, and in words what was done to make them."""
    from duotomo.errors import DuotomoError
    from duotomo.io.scan import Values
    from duotomo.io.scan_file import read_scan

    scan = read_scan(path, supplied_of(where, options, number, n_visits))
    words: tuple[str, ...] = ()
    if scan.values is Values.COUNTS:
        from duotomo.io.line_integrals import LogSettings, to_line_integrals

        settings = LogSettings(
            flat_field=options.flat_field,
            estimate_flat_field=options.estimate_flat_field,
            scatter_offset=options.scatter_offset,
            least_transmission=options.least_transmission,
            repair_dead=not options.keep_dead,
            saturation=options.saturation,
        )
        try:
            scan, words = to_line_integrals(scan, settings)
        except DuotomoError as error:
            raise DuotomoError(f"{where}: {path}: {error}") from error
    for line in (*(f"Warning: {warning}" for warning in scan.warnings), *words):
        talk.progress(f"Visit {number}: {line}")
    return scan, words


def numbers(where: str, name: str, text: str, *, n: int | None = None) -> tuple[float, ...]:
    """Return the numbers of an option such as `--voxel 1,0.1,0.1`; n: how many there have to be.

    >>> numbers("duotomo joint", "--voxel", "1,0.1,0.1", n=3)
    (1.0, 0.1, 0.1)
    """
    from duotomo.errors import DuotomoError

    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or (n is not None and len(values) != n) or not all(map(math.isfinite, values)):
        wanted = "numbers" if n is None else f"{n} numbers"
        raise DuotomoError(
            f"{where}: expected {wanted}, with commas between them, for {name}; got {text!r}. Write for "
            f"example {name} {','.join(['1'] * (n or 2))}."
        )
    return values


def supplied_of(where: str, options: ScanOptions, number: int, n_visits: int) -> Supplied:
    """Return what was said on the command line about one visit's geometry and values."""
    from duotomo.io.scan import Supplied, Values

    spacing = options.pixel_spacing
    pixel = None if spacing is None else numbers(where, "--pixel-spacing", spacing, n=2)
    return Supplied(
        geometry=_of_visit(where, "--geometry", options.geometry, number, n_visits),
        machine=_of_visit(where, "--machine", options.machine, number, n_visits),
        pixel_spacing_mm=None if pixel is None else (pixel[0], pixel[1]),
        source_to_detector_mm=options.source_to_detector,
        source_to_pivot_mm=options.source_to_pivot,
        angles_deg=None if options.angles is None else numbers(where, "--angles", options.angles),
        variable=options.variable,
        values=None if options.values is None else Values[options.values.name],
    )


def _of_visit(where: str, name: str, given: Sequence[Any] | None, number: int, n_visits: int) -> Any:
    """Return what an option that was given once, or once for each visit, says of one visit."""
    from duotomo.errors import DuotomoError

    if not given:
        return None
    if len(given) not in (1, n_visits):
        raise DuotomoError(
            f"{where}: expected {name} once, or once for each of {n_visits} visits; got it {len(given)} "
            f"times. Give them in the order of the visits."
        )
    return given[0] if len(given) == 1 else given[number - 1]


def _grids(where: str, scans: Sequence[Scan], options: ScanOptions, talk: Talk) -> list[VolumeGrid]:
    """Return the grid of each visit: what its views see of a breast of its thickness."""
    from duotomo.errors import DuotomoError
    from duotomo.geometry.field_of_view import grid_in_view

    voxel = _voxel(where, scans[0].acquisition, options)
    given = None if options.thickness is None else numbers(where, "--thickness", options.thickness)
    grids = []
    for number, scan in enumerate(scans, start=1):
        thickness_mm = _of_visit(where, "--thickness", given, number, len(scans)) or scan.thickness_mm
        if thickness_mm is None:
            raise DuotomoError(
                f"{where}: expected the thickness of the compressed breast; got none in the file of visit "
                f"{number}. Pass it in mm: --thickness 50."
            )
        try:
            grid = grid_in_view(
                scan.acquisition, thickness_mm=thickness_mm, gap_mm=options.gap, spacing_mm=voxel
            )
        except DuotomoError as error:
            raise DuotomoError(f"{where}: visit {number}: {error}") from error
        grids.append(grid)
    if options.gap == 0:
        talk.progress("The breast is taken to lie on the detector; --gap says how far above it it lies.")
    return grids


def _voxel(where: str, acquisition: Acquisition, options: ScanOptions) -> tuple[float, float, float]:
    """Return the edges of a voxel (z, y, x): as asked for, or 1 mm, or more, and the pixel's."""
    if options.voxel is not None:
        z, y, x = numbers(where, "--voxel", options.voxel, n=3)
        return z, y, x
    d_v, d_u = acquisition.pixel_spacing_mm
    return max(1.0, d_v, d_u), d_v, d_u


def _visit(scan: Scan, grid: VolumeGrid | None, device: str) -> Visit:
    import torch

    from duotomo.methods import Visit

    projections = scan.projections.to(device=device, dtype=torch.float32)
    return Visit(projections=projections, acquisition=scan.acquisition, grid=grid)


def _warn_of_strangers(scans: Sequence[Scan], talk: Talk) -> None:
    """Say if the scans are not of one breast of one patient, as far as their files tell."""
    known = [scan.identity for scan in scans if scan.identity is not None]
    if any(not one.same_patient(known[0]) for one in known[1:]):
        talk.progress("Warning: the scans name different patients. Check that they belong together.")
    sides = {scan.facts[name] for scan in scans for name in scan.facts if name.lower() == "laterality"}
    if len(sides) > 1:
        talk.progress(f"Warning: the scans show different breasts: {', '.join(sorted(sides))}.")


def _described(acquisition: Acquisition, kind: str) -> dict[str, Any]:
    angles = [math.degrees(angle) for angle in acquisition.angles_rad]
    return {
        "format": kind,
        "shape": list(acquisition.shape),
        "pixel_spacing_mm": list(acquisition.pixel_spacing_mm),
        "angles_deg": [round(min(angles), 3), round(max(angles), 3)],
    }


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
