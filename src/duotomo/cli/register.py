"""`duotomo register`: the motion under which one volume looks like another."""

from __future__ import annotations

import time
from dataclasses import asdict
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
from duotomo.cli._volumes import VolumeVoxelOption, read_any_volume

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import VolumeGrid
    from duotomo.methods import Model, Record, Registered, Result, Settings

WHERE = "duotomo register"

VOLUMES, VOLUMES_PER_PARAMETER = 12, 2
"""Copies of a volume that a step works with."""

Placed = tuple["torch.Tensor", "VolumeGrid"]


class Misfit(Enum):
    """What the registration minimises."""

    SQUARES = "squares"
    CORRELATION = "correlation"


def register(
    context: typer.Context,
    out: OutOption,
    reference: Annotated[
        Path | None,
        typer.Argument(help="The volume that stays.", metavar="REFERENCE_VOLUME", show_default=False),
    ] = None,
    moving: Annotated[
        Path | None,
        typer.Argument(help="The volume that is moved.", metavar="MOVING_VOLUME", show_default=False),
    ] = None,
    transform: Annotated[str, typer.Option(help="translation, rigid, affine, or bspline:Z,Y,X.")] = "affine",
    misfit: Annotated[
        Misfit, typer.Option(help="correlation: for volumes whose values differ by a factor.")
    ] = Misfit.SQUARES,
    voxel: VolumeVoxelOption = None,
    steps: Annotated[int, typer.Option(min=1, help="Most steps of every stage.")] = 30,
    bending: Annotated[float | None, typer.Option(min=0, help="Stiffness of a B-spline.")] = None,
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
    """Register one volume to another.

    Example: duotomo register 2024.nii.gz 2023.nii.gz --transform bspline:7,9,9 --out result
    """
    from duotomo.errors import DuotomoError
    from duotomo.io.folder_lock import locked
    from duotomo.io.paths import make_folder
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.methods import Model, Priors, Settings
    from duotomo.solvers import Status

    talk = Talk(quiet=quiet, as_json=as_json)
    if reference is None or moving is None:
        raise DuotomoError(f"{WHERE}: expected two volumes; got fewer. Name them, the reference first.")
    prepare(WHERE, device=device, threads=threads, seed=seed)
    chosen = (*(formats or ()), *((Format.DICOM,) if dicom else ()))
    check_libraries(chosen)
    model = Model.parse(transform)
    fixed, moved = (_volume(device, path, voxel) for path in (reference, moving))
    priors = Priors() if bending is None else Priors(bending=bending)
    schedule = Settings.staged(fixed[1], model, priors=priors)
    make_folder(WHERE, out, choice="--out")
    with locked(WHERE, out):
        if (out / INDEX).exists():
            read_index(WHERE, out)
        _say_plan(talk, fixed, moved, model, device, max_memory)
        found, history, seconds = _solve(talk, fixed, moved, schedule, misfit, steps)
        result = _result(fixed, moved, found, history, seconds)
        content = _write(
            talk,
            out,
            result,
            moved,
            settings={
                "command": "register",
                "method": "register",
                "model": transform,
                "misfit": misfit.value,
                "device": device.value,
                "options": options_of(context, keep_paths=keep_paths),
                "settings": asdict(schedule),
                "python": repr(schedule),
            },
            formats=chosen,
        )
        talk.finish(content)
    if result.status is Status.DIVERGED:
        raise typer.Exit(DIVERGED)


def _volume(device: Device, path: Path, voxel: str | None) -> Placed:
    import torch

    from duotomo.io.file_error import FileError

    volume, grid = read_any_volume(path, voxel)
    if not bool(torch.isfinite(volume).all()):
        raise FileError(
            f"{WHERE}: {path}: expected finite voxels; got NaN or infinity among them. Fill them first."
        )
    return volume.to(device=device.value, dtype=torch.float32), grid


def _say_plan(
    talk: Talk, fixed: Placed, moved: Placed, model: Model, device: Device, max_memory: float | None
) -> None:
    from duotomo.cli._memory import check_memory
    from duotomo.methods.problem import DENSE

    for name, (_, grid) in (("Reference", fixed), ("Moving", moved)):
        z, y, x = grid.spacing_mm
        talk.progress(f"{name} {grid.shape} (z, y, x), voxels of {z:g} x {y:g} x {x:g} mm")
    n_params = model.build(moved[1]).n_params
    copies = VOLUMES + (VOLUMES_PER_PARAMETER * n_params if n_params <= DENSE else 0)
    check_memory(
        WHERE,
        4 * copies * max(fixed[1].n_voxels, moved[1].n_voxels),
        device=device.value,
        most_gb=max_memory,
        remedy="resample the volumes to larger voxels",
        talk=talk,
    )


def _solve(
    talk: Talk, fixed: Placed, moved: Placed, settings: Settings, misfit: Misfit, n_steps: int
) -> tuple[Registered, tuple[Record, ...], float]:
    """Return the motion, its steps, and the seconds they took."""
    from duotomo.cli._progress import StageProgress
    from duotomo.methods import Record, Stage, register
    from duotomo.methods.registration import registration_stages
    from duotomo.objectives import CrossCorrelation, SumOfSquares
    from duotomo.solvers import Step
    from duotomo.transforms import Translation

    grid, moving_grid = fixed[1], moved[1]
    shift = Translation(moving_grid)
    start = shift.params(translation_mm=(_center_mm(*fixed) - _center_mm(*moved)).tolist())
    history: list[Record] = []
    began = time.perf_counter()
    work = [(n_steps, float(grid.coarsen(stage.coarsen).n_voxels)) for stage in registration_stages(settings)]
    with StageProgress(talk.console, work) as progress:

        def note(number: int, stage: Stage, step: Step) -> None:
            spacing_mm = min(grid.coarsen(stage.coarsen).spacing_mm)
            record = Record(
                stage=number,
                what=f"{stage.model} at {spacing_mm:g} mm",
                step=len(history) + 1,
                objective=step.objective,
                gradient_norm=step.gradient_norm,
                step_size=step.step_size,
                applications=0,
                seconds=time.perf_counter() - began,
            )
            history.append(record)
            progress.show(record)

        found = register(
            fixed[0],
            moved[0],
            grid=grid,
            moving_grid=moving_grid,
            settings=settings,
            start=(shift, start),
            n_steps=n_steps,
            misfit=SumOfSquares if misfit is Misfit.SQUARES else CrossCorrelation,
            on_step=note,
        )
    return found, tuple(history), time.perf_counter() - began


def _center_mm(volume: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the centre of what is positive, xyz."""
    import torch

    from duotomo.errors import DuotomoError

    positive = volume.clamp(min=0)
    axes = ((2, (0, 1)), (1, (0, 2)), (0, (1, 2)))
    sums = [positive.sum(dim=others, dtype=torch.float64).cpu() for _, others in axes]
    if not float(sums[0].sum()) > 0:
        raise DuotomoError(
            f"{WHERE}: expected a volume with positive values; got none. Check the file: attenuation is "
            f"positive."
        )
    centers = []
    for (axis, _), weights in zip(axes, sums, strict=True):
        index = torch.arange(len(weights), dtype=torch.float64) + 0.5
        mean = float((index * weights).sum() / weights.sum())
        centers.append(grid.low_mm[axis] + mean * grid.spacing_mm[axis])
    return torch.tensor(centers, dtype=torch.float64)


def _result(
    fixed: Placed, moved: Placed, found: Registered, history: tuple[Record, ...], seconds: float
) -> Result:
    """Return the motion as the result of a method: the reference, and the moving volume brought to it."""
    from duotomo.methods import Result, resample_to_reference

    registered = resample_to_reference(
        moved[0], found.transform, found.params, grid=fixed[1], moving_grid=moved[1]
    )
    return Result(
        method="register",
        grid=fixed[1],
        volume=fixed[0],
        others={"visit_2_registered": registered},
        transforms=(found.transform,),
        params=(found.params,),
        status=found.solution.status,
        reason=found.solution.reason,
        applications=0,
        seconds=seconds,
        history=history,
    )


def _write(
    talk: Talk,
    out: Path,
    result: Result,
    moved: Placed,
    *,
    settings: dict[str, Any],
    formats: tuple[Format, ...],
) -> dict[str, Any]:
    """Write the folder, and return what --json shows."""
    from duotomo.methods.quality import moved as moves

    how = moves(result.volume, result.grid, moved[1], result.transforms[0], result.params[0])
    quality = {
        "folded_voxels": [how.folded_voxels],
        "least_jacobian": [how.least_jacobian],
        "mean_displacement_mm": [how.mean_mm],
        "largest_displacement_mm": [how.largest_mm],
    }
    talk.say(f"{'status':<24}{result.status.value}: {result.reason}")
    talk.say(f"{'motion':<24}{how.mean_mm:.2f} mm on average, at most {how.largest_mm:.2f} mm")
    page = write_folder(
        "register",
        out,
        result,
        moving_grids=[moved[1]],
        settings=settings,
        options=settings["options"],
        quality=quality,
        extras=extra_files(result, formats, identities=(None, None)),
        talk=talk,
    )
    return {
        "status": result.status.value,
        "reason": result.reason,
        "out": str(out),
        "page": None if page is None else str(page),
        "seconds": result.seconds,
        "objective": result.history[-1].objective if result.history else None,
        "quality": quality,
    }
