"""`duotomo joint`: the visits of one breast become one volume, and the motion between them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._common import (
    DIVERGED,
    INTERRUPTED,
    Device,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    ResumeOption,
    SeedOption,
    SettingsOption,
    Talk,
    ThreadsOption,
    prepare,
)
from duotomo.cli._estimation import Choice, Method, Solver, say_plan, settings_of, solve
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
    CHECKPOINT,
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
    from duotomo.io import CheckpointFile
    from duotomo.methods import Result, Settings

WHERE = "duotomo joint"
ESTIMATION = "Estimation"


def joint(
    context: typer.Context,
    out: OutOption,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="REFERENCE OTHER...",
            help="Scans of the visits, the reference first; or one study (.h5).",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="How the two problems go together.", rich_help_panel=ESTIMATION)
    ] = Method.SIMULTANEOUS,
    transform: Annotated[
        str,
        typer.Option(help="translation, rigid, affine, or bspline:Z,Y,X.", rich_help_panel=ESTIMATION),
    ] = "affine",
    solver: Annotated[
        Solver | None, typer.Option(help="How volume and motion step.", rich_help_panel=ESTIMATION)
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="The paper's algorithm to the letter.", rich_help_panel=ESTIMATION)
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Most steps of every stage.", rich_help_panel=ESTIMATION),
    ] = None,
    total_variation: Annotated[
        float | None,
        typer.Option(min=0, help="Pull of the prior, in units of noise.", rich_help_panel=ESTIMATION),
    ] = None,
    bending: Annotated[
        float | None, typer.Option(min=0, help="Stiffness of a B-spline.", rich_help_panel=ESTIMATION)
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
    resume: ResumeOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Reconstruct one breast from several visits, and find how it moved between them.

    Example: duotomo joint 2023.dcm 2024.dcm --transform bspline:7,9,9 --out result
    """
    from duotomo.errors import DuotomoError

    talk = Talk(quiet=quiet, as_json=as_json)
    if not inputs:
        raise DuotomoError(f"{WHERE}: expected scans, or a study; got none. Name them, the reference first.")
    choice = Choice(
        method=method,
        transform=transform,
        solver=solver,
        plain=plain,
        steps=steps,
        total_variation=total_variation,
        bending=bending,
        formats=(*(formats or ()), *((Format.DICOM,) if dicom else ())),
        device=device,
        resume=resume,
        max_memory=max_memory,
    )
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
    try:
        result = _run(talk, out, inputs, scans, choice, options_of(context, keep_paths=keep_paths))
    except KeyboardInterrupt:
        if (out / CHECKPOINT).exists():
            talk.say(f"Stopped. Go on with --resume: {out / CHECKPOINT} holds the last block of steps.")
        raise typer.Exit(INTERRUPTED) from None
    if result is not None:
        raise typer.Exit(result)


def _run(
    talk: Talk, out: Path, paths: list[Path], scans: ScanOptions, choice: Choice, options: dict[str, Any]
) -> int | None:
    """Return the exit code, if it is not that of a run that ended well."""
    from duotomo.cli._memory import check_memory
    from duotomo.errors import DuotomoError
    from duotomo.io import CheckpointFile, fingerprint
    from duotomo.io.folder_lock import locked
    from duotomo.io.paths import make_folder
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.methods import memory_bytes
    from duotomo.solvers import Status

    check_libraries(choice.formats)
    given = read_inputs(WHERE, paths, scans, device=choice.device.value, talk=talk)
    if not given.study.moving:
        raise DuotomoError(
            f"{WHERE}: expected at least two visits; got one. Name the other scans too, or use duotomo "
            f"reconstruct."
        )
    settings = settings_of(WHERE, given.study, choice)
    make_folder(WHERE, out, choice="--out")
    with locked(WHERE, out):
        if (out / INDEX).exists():
            read_index(WHERE, out)
        print_ = fingerprint(given.study, method=choice.method.value, settings=settings)
        checkpoint = CheckpointFile(out / CHECKPOINT, print_, device=choice.device.value)
        say_plan(talk, given.study, settings, choice)
        check_memory(
            WHERE,
            memory_bytes(given.study, settings),
            device=choice.device.value,
            most_gb=choice.max_memory,
            remedy="use larger voxels",
            talk=talk,
        )
        _check_start(talk, out, checkpoint, choice)
        result = solve(talk, given.study, settings, choice, checkpoint)
        content = _write(talk, out, given, settings, choice, result, options, print_)
        talk.finish(content)
        if result.status is Status.DIVERGED:
            talk.progress(f"Diverged: {result.reason}")
            talk.progress(f"The last good volume and motion are in {out}, the state in {out / CHECKPOINT}.")
            return DIVERGED
        checkpoint.remove()
    return None


def _check_start(talk: Talk, out: Path, checkpoint: CheckpointFile, choice: Choice) -> None:
    """Say from where the run goes on; raise if an unfinished one would be lost."""
    from duotomo.errors import DuotomoError

    if not (out / CHECKPOINT).exists():
        if choice.resume:
            talk.progress("Nothing to resume: starting from the beginning")
        return
    if not choice.resume:
        raise DuotomoError(
            f"{WHERE}: expected a folder without an unfinished run; got {out / CHECKPOINT}. "
            f"Pass --resume to go on with it, or choose another folder."
        )
    state = checkpoint.load()
    if state is not None:
        talk.progress(
            f"Resuming in stage {state.stage + 1}, after {len(state.history)} steps and {state.seconds:.0f} s"
        )


def _write(
    talk: Talk,
    out: Path,
    given: Inputs,
    settings: Settings,
    choice: Choice,
    result: Result,
    options: dict[str, Any],
    fingerprint: str,
) -> dict[str, Any]:
    """Write the folder, and return what --json shows."""
    from duotomo.methods.quality import quality_of

    study = given.study
    motion = list(zip(result.transforms, result.params, strict=True))
    quality = quality_of(study, result.volume, result.grid, motion)
    chosen = {
        "command": "joint",
        "fingerprint": fingerprint,
        "visits": list(given.described),
        "method": choice.method.value,
        "model": choice.transform,
        "plain": choice.plain,
        "device": choice.device.value,
        "solver": type(settings.solver).__name__,
        "options": options,
        "settings": asdict(settings),
        "python": repr(settings),
    }
    summary = [
        ("status", f"{result.status.value}: {result.reason}"),
        ("steps", str(len(result.history))),
        ("projector applications", str(result.applications)),
        ("seconds of computing", f"{result.seconds:.1f}"),
    ]
    if result.history:
        summary.append(("objective", f"{result.history[-1].objective:.6g}"))
    moved = zip(quality.mean_displacement_mm, quality.largest_displacement_mm, strict=True)
    for number, (mean_mm, largest_mm) in enumerate(moved, start=2):
        words = f"{mean_mm:.2f} mm on average, at most {largest_mm:.2f} mm"
        summary.append((f"motion of visit {number}", words))
    for name, text in summary:
        talk.say(f"{name:<24}{text}")
    page = write_folder(
        "joint",
        out,
        result,
        study=study,
        settings=chosen,
        options=options,
        quality=quality.to_dict(),
        extras=extra_files(result, choice.formats, identities=given.identities),
        talk=talk,
    )
    return {
        "status": result.status.value,
        "reason": result.reason,
        "out": str(out),
        "page": None if page is None else str(page),
        "applications": result.applications,
        "seconds": result.seconds,
        "objective": result.history[-1].objective if result.history else None,
        "quality": quality.to_dict(),
    }
