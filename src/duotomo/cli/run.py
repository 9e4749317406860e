"""`duotomo run`: reconstruct a study and find its motion, from a file to a result folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli.demo import Device

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from duotomo.io import CheckpointFile
    from duotomo.methods import Result, Settings, Study

CHECKPOINT, PICTURE = "checkpoint.h5", "three_views.png"

GB = 1e9


class Method(Enum):
    """How reconstruction and registration go together."""

    SIMULTANEOUS = "simultaneous"
    ITERATIVE = "iterative"
    SEQUENTIAL = "sequential"


class Solver(Enum):
    """How volume and motion step."""

    COUPLED = "coupled"
    ALTERNATING = "alternating"


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """What was asked for on the command line."""

    study: Path
    method: Method
    model: str
    solver: Solver | None
    plain: bool
    device: Device
    resume: bool
    max_memory: float | None


def run(
    study: Annotated[Path, typer.Argument(help="The study, a .h5 file (docs/result_folder.md).")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    method: Annotated[Method, typer.Option(help="How the two problems go together.")] = Method.SIMULTANEOUS,
    model: Annotated[str, typer.Option(help="translation, rigid, affine, or bspline:Z,Y,X.")] = "affine",
    solver: Annotated[Solver | None, typer.Option(help="How volume and motion step.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="The paper's algorithm to the letter.")] = False,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a killed run stopped.")] = False,
    max_memory: Annotated[float | None, typer.Option(min=0, help="Most memory to use, in GB.")] = None,
) -> None:
    """Reconstruct the breast of a study, and find how it moved between the visits."""
    # Imported here: `duotomo --help` needs none of it.
    from rich.console import Console

    from duotomo.errors import DuotomoError

    console = Console(highlight=False, soft_wrap=True, markup=False)
    choice = _Choice(
        study=study,
        method=method,
        model=model,
        solver=solver,
        plain=plain,
        device=device,
        resume=resume,
        max_memory=max_memory,
    )
    try:
        ended_well = _run(console, out, choice)
    except DuotomoError as error:
        Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(str(error), style="red")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        if (out / CHECKPOINT).exists():
            console.print(f"Stopped. Go on with --resume: {out / CHECKPOINT} holds the last block of steps.")
        raise typer.Exit(130) from None
    if not ended_well:
        raise typer.Exit(1)


def _run(console: Console, out: Path, choice: _Choice) -> bool:
    """Return whether the run ended well."""
    import torch

    from duotomo.io import CheckpointFile, fingerprint, read_study
    from duotomo.io.folder_lock import locked
    from duotomo.io.libraries import nibabel, simpleitk
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.solvers import Status

    if choice.device is Device.CUDA and not torch.cuda.is_available():
        raise typer.BadParameter("no CUDA device is available here; use --device cpu", param_hint="--device")
    # What the result needs is missed now, not after hours.
    nibabel(), simpleitk()
    study = read_study(choice.study, choice.device.value)
    settings = _settings(study, choice)
    out.mkdir(parents=True, exist_ok=True)
    with locked("duotomo run", out):
        if (out / INDEX).exists():
            read_index("duotomo run", out)
        checkpoint = CheckpointFile(
            out / CHECKPOINT,
            fingerprint(study, method=choice.method.value, settings=settings),
            device=choice.device.value,
        )
        _say_plan(console, study, settings, choice)
        _check_memory(console, study, settings, choice)
        _check_start(console, out, checkpoint, choice)
        result = _solve(console, study, settings, choice, checkpoint)
        _write(console, out, study, settings, choice, result)
        if result.status is Status.DIVERGED:
            console.print(f"Diverged: {result.reason}")
            console.print(f"The last good volume and motion are in {out}, the state in {out / CHECKPOINT}.")
            return False
        checkpoint.remove()
    return True


def _settings(study: Study, choice: _Choice) -> Settings:
    from duotomo.methods import Alternating, Coupled, Model, Settings

    model = Model.parse(choice.model)
    if choice.plain:
        if choice.solver is Solver.COUPLED:
            raise typer.BadParameter(
                "the plain algorithm alternates; leave --solver out", param_hint="--plain"
            )
        return Settings.plain(model)
    solver = Alternating() if choice.solver is Solver.ALTERNATING else Coupled()
    return Settings.for_study(study, model, solver=solver)


def _say_plan(console: Console, study: Study, settings: Settings, choice: _Choice) -> None:
    z, y, x = study.grid.spacing_mm
    console.print(f"Volume {study.grid.shape} (z, y, x), voxels of {z:g} x {y:g} x {x:g} mm")
    for number, visit in enumerate(study.visits, start=1):
        role = "reference" if number == 1 else "moving"
        weights = "with" if visit.weights is not None else "without"
        console.print(f"Visit {number} ({role}): {visit.acquisition.shape} (view, v, u), {weights} weights")
    kind = "plain" if choice.plain else type(settings.solver).__name__.lower()
    console.print(
        f"Method {choice.method.value}, model {choice.model}, solver {kind}, on {choice.device.value}; "
        f"{len(settings.stages)} stages"
    )


def _check_memory(console: Console, study: Study, settings: Settings, choice: _Choice) -> None:
    from duotomo.cli._memory import available_bytes
    from duotomo.errors import DuotomoError
    from duotomo.methods import memory_bytes

    needed, available = memory_bytes(study, settings), available_bytes(choice.device.value)
    console.print(f"Memory: about {needed / GB:.3g} GB needed, {available / GB:.3g} GB available")
    if choice.max_memory is not None and choice.max_memory * GB < needed:
        raise DuotomoError(
            f"duotomo run: expected to need at most --max-memory {choice.max_memory:g} GB; got about "
            f"{needed / GB:.3g} GB. Allow more, or write the study with a coarser grid."
        )
    if available < needed:
        raise DuotomoError(
            f"duotomo run: expected {needed / GB:.3g} GB of memory on {choice.device.value}; got "
            f"{available / GB:.3g} GB. Free some, or write the study with a coarser grid."
        )


def _check_start(console: Console, out: Path, checkpoint: CheckpointFile, choice: _Choice) -> None:
    """Say from where the run goes on; raise if an unfinished one would be lost."""
    from duotomo.errors import DuotomoError

    if not (out / CHECKPOINT).exists():
        if choice.resume:
            console.print("Nothing to resume: starting from the beginning")
        return
    if not choice.resume:
        raise DuotomoError(
            f"duotomo run: expected a folder without an unfinished run; got {out / CHECKPOINT}. "
            f"Pass --resume to go on with it, or choose another folder."
        )
    state = checkpoint.load()
    if state is not None:
        console.print(
            f"Resuming in stage {state.stage + 1}, after {len(state.history)} steps and {state.seconds:.0f} s"
        )


def _solve(
    console: Console, study: Study, settings: Settings, choice: _Choice, checkpoint: CheckpointFile
) -> Result:
    from duotomo.cli._progress import StageProgress, stage_work

    with StageProgress(console, stage_work(study, settings)) as progress:
        return _function(choice.method)(study, settings, on_step=progress.show, checkpoint=checkpoint)


def _function(method: Method) -> Callable[..., Result]:
    from duotomo.methods import iterative, sequential, simultaneous

    functions: dict[Method, Callable[..., Result]] = {
        Method.SIMULTANEOUS: simultaneous,
        Method.ITERATIVE: iterative,
        Method.SEQUENTIAL: sequential,
    }
    return functions[method]


def _write(
    console: Console, out: Path, study: Study, settings: Settings, choice: _Choice, result: Result
) -> None:
    from rich.table import Table

    from duotomo.io import write_result
    from duotomo.io.durable import durable
    from duotomo.io.result_index import INDEX, read_index
    from duotomo.report import three_views

    chosen = {
        "study": choice.study.name,
        "method": choice.method.value,
        "model": choice.model,
        "plain": choice.plain,
        "device": choice.device.value,
        "solver": type(settings.solver).__name__,
        "settings": asdict(settings),
        "python": repr(settings),
    }
    write_result(out, result, study=study, settings=chosen)
    with durable("duotomo run", out / PICTURE) as fresh:
        three_views(fresh, columns={"reconstruction": result.volume}, grid=result.grid, unit="1/mm")

    table = Table("", "", show_header=False)
    table.add_row("status", f"{result.status.value}: {result.reason}")
    table.add_row("steps", str(len(result.history)))
    table.add_row("projector applications", str(result.applications))
    table.add_row("seconds of computing", f"{result.seconds:.1f}")
    if result.history:
        table.add_row("objective", f"{result.history[-1].objective:.6g}")
    for number, moved in enumerate(_displacements_mm(study, result), start=2):
        table.add_row(f"motion of visit {number}", moved)
    console.print(table)
    console.print("Wrote")
    files = [entry["file"] for entry in read_index("duotomo run", out)["files"].values()]
    for name in (INDEX, *files, PICTURE):
        console.print(f"  {out / name}")


def _displacements_mm(study: Study, result: Result) -> list[str]:
    """Return how far each moving visit is from the reference, in words."""
    words = []
    for visit, transform, params in zip(study.moving, result.transforms, result.params, strict=True):
        grid = study.grid_of(visit)
        z, y, x = (-(-n // 16) for n in grid.shape)
        length_mm = transform.displacement(params, grid.coarsen((z, y, x))).norm(dim=0)
        words.append(f"{float(length_mm.mean()):.2f} mm on average, at most {float(length_mm.max()):.2f} mm")
    return words
