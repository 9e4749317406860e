"""`duotomo reconstruct`: the scan of one visit becomes a volume."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._common import (
    DIVERGED,
    Device,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    SettingsOption,
    Talk,
    ThreadsOption,
    prepare,
)
from duotomo.cli._inputs import (
    AnglesOption,
    DeadOption,
    DistanceOption,
    EstimateOption,
    FlatFieldOption,
    GapOption,
    GeometryOption,
    MachineOption,
    PixelOption,
    SaturationOption,
    ScanOptions,
    ScatterOption,
    ThicknessOption,
    TransmissionOption,
    ValuesOption,
    VariableOption,
    VoxelOption,
    read_inputs,
)
from duotomo.cli._memory import MaxMemoryOption
from duotomo.cli._outputs import (
    DicomOption,
    Format,
    FormatOption,
    KeepPathsOption,
    check_libraries,
    extra_files,
    options_of,
    write_folder,
)

if TYPE_CHECKING:
    from duotomo.cli._inputs import Inputs
    from duotomo.methods import Result, Study
    from duotomo.reconstruct import Algorithm
    from duotomo.solvers import Solution

WHERE = "duotomo reconstruct"

VOLUMES, PROJECTIONS = 12, 6
"""Copies of the volume, and of the projections, that the most demanding algorithm works with."""


class Way(Enum):
    """How to reconstruct."""

    TV = "tv"
    SART = "sart"
    CGLS = "cgls"
    ML_CONVEX = "ml-convex"
    FBP = "fbp"
    BACK_PROJECTION = "bp"


STEPS = {Way.TV: 300, Way.SART: 3, Way.CGLS: 15, Way.ML_CONVEX: 30, Way.FBP: 1, Way.BACK_PROJECTION: 1}
"""Steps of each way unless they are given; sweeps through all views for SART."""


def reconstruct(
    context: typer.Context,
    out: OutOption,
    scan: Annotated[
        Path | None, typer.Argument(help="A scan, or a study (.h5).", metavar="SCAN", show_default=False)
    ] = None,
    visit: Annotated[int, typer.Option(min=1, help="Of a study: which visit.")] = 1,
    method: Annotated[Way, typer.Option(help="How to reconstruct.")] = Way.TV,
    steps: Annotated[int | None, typer.Option(min=1, help="Of the method; sweeps for sart.")] = None,
    tv_weight: Annotated[
        float | None, typer.Option(min=0, help="Of total variation. Unless given: from the noise.")
    ] = None,
    geometry: GeometryOption = None,
    machine: MachineOption = None,
    pixel_spacing: PixelOption = None,
    source_to_detector: DistanceOption = None,
    source_to_pivot: DistanceOption = None,
    angles: AnglesOption = None,
    variable: VariableOption = None,
    values: ValuesOption = None,
    flat_field: FlatFieldOption = None,
    estimate_flat_field: EstimateOption = False,
    scatter_offset: ScatterOption = 0.0,
    least_transmission: TransmissionOption = 1e-5,
    keep_dead: DeadOption = False,
    saturation: SaturationOption = None,
    voxel: VoxelOption = None,
    thickness: ThicknessOption = None,
    gap: GapOption = 0.0,
    formats: FormatOption = None,
    dicom: DicomOption = False,
    keep_paths: KeepPathsOption = False,
    device: DeviceOption = Device.CPU,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    max_memory: MaxMemoryOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Reconstruct one visit.

    Example: duotomo reconstruct scan.dcm --method sart --voxel 1,0.2,0.2 --out result
    """
    from duotomo.errors import DuotomoError

    talk = Talk(quiet=quiet, as_json=as_json)
    if scan is None:
        raise DuotomoError(f"{WHERE}: expected a scan; got none. Name it.")
    scans = ScanOptions(
        geometry=geometry,
        machine=machine,
        pixel_spacing=pixel_spacing,
        source_to_detector=source_to_detector,
        source_to_pivot=source_to_pivot,
        angles=angles,
        variable=variable,
        values=values,
        flat_field=flat_field,
        estimate_flat_field=estimate_flat_field,
        scatter_offset=scatter_offset,
        least_transmission=least_transmission,
        keep_dead=keep_dead,
        saturation=saturation,
        voxel=voxel,
        thickness=thickness,
        gap=gap,
    )
    prepare(WHERE, device=device, threads=threads, seed=seed)
    algorithm = _algorithm(method, steps, tv_weight)
    given = read_inputs(WHERE, [scan], scans, device=device.value, talk=talk)
    ended_well = _run(
        talk,
        out,
        given,
        _alone(given.study, visit),
        algorithm,
        n_steps=steps or STEPS[method],
        way=method,
        formats=(*(formats or ()), *((Format.DICOM,) if dicom else ())),
        max_memory=max_memory,
        options=options_of(context, keep_paths=keep_paths),
    )
    if not ended_well:
        raise typer.Exit(DIVERGED)


def _algorithm(way: Way, steps: int | None, tv_weight: float | None) -> Algorithm:
    from duotomo import reconstruct as library
    from duotomo.errors import DuotomoError

    n = steps or STEPS[way]
    if tv_weight is not None and way is not Way.TV:
        raise DuotomoError(
            f"{WHERE}: expected --tv-weight only with --method tv; got it with {way.value}. Leave it out."
        )
    algorithms: dict[Way, Algorithm] = {
        Way.TV: library.TvLeastSquares(n_steps=n, tv_weight=tv_weight),
        Way.SART: library.Sart(n_sweeps=n),
        Way.CGLS: library.LeastSquares(n_steps=n),
        Way.ML_CONVEX: library.MlConvex(n_steps=n),
        Way.FBP: library.FilteredBackProjection(),
        Way.BACK_PROJECTION: library.BackProjection(),
    }
    return algorithms[way]


def _alone(study: Study, number: int) -> Study:
    from duotomo.errors import DuotomoError
    from duotomo.methods.sequential import one_visit

    if number > len(study.visits):
        raise DuotomoError(
            f"{WHERE}: expected --visit from 1 to {len(study.visits)}; got {number}. Choose another."
        )
    return one_visit(study, number - 1)


def _run(
    talk: Talk,
    out: Path,
    given: Inputs,
    study: Study,
    algorithm: Algorithm,
    *,
    n_steps: int,
    way: Way,
    formats: tuple[Format, ...],
    max_memory: float | None,
    options: dict[str, Any],
) -> bool:
    """Return whether the reconstruction ended well."""
    from duotomo.cli._memory import check_memory
    from duotomo.cli._progress import SolverProgress
    from duotomo.io import fingerprint
    from duotomo.io.folder_lock import locked
    from duotomo.io.paths import make_folder
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.methods.quality import quality_of
    from duotomo.reconstruct import reconstruct as solve
    from duotomo.solvers import Status

    check_libraries(formats)
    visit, grid = study.reference, study.grid
    make_folder(WHERE, out, choice="--out")
    with locked(WHERE, out):
        if (out / INDEX).exists():
            read_index(WHERE, out)
        z, y, x = grid.spacing_mm
        talk.progress(f"Volume {grid.shape} (z, y, x), voxels of {z:g} x {y:g} x {x:g} mm")
        talk.progress(f"Scan {visit.acquisition.shape} (view, v, u), on {visit.projections.device}")
        numbers = VOLUMES * grid.n_voxels + PROJECTIONS * visit.projections.numel()
        check_memory(
            WHERE,
            numbers * visit.projections.element_size(),
            device=visit.projections.device.type,
            most_gb=max_memory,
            remedy="use larger voxels",
            talk=talk,
        )
        with SolverProgress(talk.console, way.value, n_steps) as progress:
            solution = solve(
                visit.projections,
                grid=grid,
                acquisition=visit.acquisition,
                algorithm=algorithm,
                weights=visit.weights,
                on_step=progress.show,
            )
        result = _result(study, way, solution)
        quality = quality_of(study, result.volume, grid)
        chosen = {
            "command": "reconstruct",
            "fingerprint": fingerprint(study, method=way.value, settings=algorithm),
            "visits": list(given.described),
            "method": way.value,
            "device": visit.projections.device.type,
            "options": options,
            "python": repr(algorithm),
        }
        talk.say(f"{'status':<24}{result.status.value}: {result.reason}")
        talk.say(f"{'seconds of computing':<24}{result.seconds:.1f}")
        page = write_folder(
            "reconstruct",
            out,
            result,
            study=study,
            settings=chosen,
            options=options,
            quality=quality.to_dict(),
            extras=extra_files(result, formats, identities=given.identities),
            talk=talk,
        )
        talk.finish(
            {
                "status": result.status.value,
                "reason": result.reason,
                "out": str(out),
                "page": None if page is None else str(page),
                "applications": result.applications,
                "seconds": result.seconds,
                "quality": quality.to_dict(),
            }
        )
    return result.status is not Status.DIVERGED


def _result(study: Study, way: Way, solution: Solution) -> Result:
    """Return the solution as the result of a method without motion."""
    from duotomo.methods import Record, Result

    what = f"{way.value} at {min(study.grid.spacing_mm):g} mm"
    history = tuple(
        Record(
            stage=0,
            what=what,
            step=number,
            objective=step.objective,
            gradient_norm=step.gradient_norm,
            step_size=step.step_size,
            applications=step.applications,
            seconds=step.seconds,
        )
        for number, step in enumerate(solution.history[1:], start=1)
    )
    last = solution.history[-1]
    return Result(
        method=way.value,
        grid=study.grid,
        volume=solution.value,
        transforms=(),
        params=(),
        status=solution.status,
        reason=solution.reason,
        applications=last.applications,
        seconds=last.seconds,
        history=history,
    )
