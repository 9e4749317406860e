"""`duotomo reproduce`: an experiment of the paper, its table beside the published numbers, its figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._common import Device

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.experiments import Experiment, Plan

ALL = "all"
FDA = "fda-projections"
"""One visit, whose projections others have made: no experiment of the paper, and nothing moves."""


class LevelChoice(Enum):
    """How the data are made."""

    AS_PUBLISHED = "as-published"
    HONEST = "honest"
    REAL = "real"


def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment, or all; fda-projections: not in the paper.")],
    level: Annotated[
        list[LevelChoice] | None,
        typer.Option(help="How the data are made; may be given twice. All that can be, unless given."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to; what is finished there stays.")] = Path(
        "out/reproduce"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder with third-party data, for --level real.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size: minutes on two cores.")] = False,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU,
    cases: Annotated[str | None, typer.Option(help="Only these, such as 1,4-6: to share the work.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these, such as sequential,simultaneous.")] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
) -> None:
    """Run an experiment of the paper, print its table beside the published numbers, and draw its figures."""
    # Imported here: `duotomo --help` needs none of it.
    from rich.console import Console

    from duotomo.errors import DuotomoError

    console = Console(highlight=False, soft_wrap=True, markup=False)
    try:
        some = cases is not None or methods is not None
        plans = _plans(name, level, data, quick, device)
        scans = _fda_plan(name, level, data, quick, device, some=some)
        for experiment, plan in plans:
            _run(console, experiment, plan, out, _numbers(cases), _names(methods), draw_figures=figures)
        if scans is not None:
            _run_fda(console, scans, out, draw_figures=figures)
    except DuotomoError as error:
        Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(str(error), style="red")
        console.print("What is finished is kept; the same command goes on from there.")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.print("Stopped. What is finished is kept; the same command goes on from there.")
        raise typer.Exit(130) from None


def _plans(
    name: str, levels: list[LevelChoice] | None, data: Path | None, quick: bool, device: Device
) -> list[tuple[Experiment, Plan]]:
    import torch

    from duotomo.errors import DuotomoError
    from duotomo.experiments import EXPERIMENTS, Level, Plan
    from duotomo.io.libraries import nibabel, simpleitk

    if name not in (ALL, FDA, *EXPERIMENTS):
        raise DuotomoError(
            f"duotomo reproduce: expected one of the experiments {', '.join([*EXPERIMENTS, FDA])}, or all; "
            f"got {name!r}. Choose one of them."
        )
    if device is Device.CUDA and not torch.cuda.is_available():
        raise DuotomoError(
            "duotomo reproduce: expected a CUDA device for --device cuda; got none. Use --device cpu, with "
            "--quick if the full size takes too long."
        )
    # Rather now than after an hour.
    nibabel(), simpleitk()
    if data is not None and not data.is_dir():
        raise DuotomoError(
            f"duotomo reproduce: expected a folder at --data {data}; got none. Check the path."
        )
    plans = []
    for experiment in EXPERIMENTS.values():
        if name not in (ALL, experiment.name):
            continue
        wanted = [Level(one.value) for one in levels] if levels else list(experiment.levels)
        for level in wanted:
            skipped = level not in experiment.levels or (level is Level.REAL and data is None)
            # What was not asked for by name may be missing.
            if skipped and (name == ALL or not levels):
                continue
            plan = Plan(level=level, quick=quick, device=device.value, data=data)
            # Raises now, before anything has been computed, if the plan cannot be followed.
            experiment.set_up(plan)
            plans.append((experiment, plan))
    return plans


def _fda_plan(
    name: str, levels: list[LevelChoice] | None, data: Path | None, quick: bool, device: Device, *, some: bool
) -> Plan | None:
    """Return the plan for the FDA's projections, or None if they are not wanted.

    some: whether the command is for a part of the work only.
    """
    from duotomo.errors import DuotomoError
    from duotomo.experiments import Level, Plan
    from duotomo.experiments.third_party.fda import fda_projections

    real = levels is None or LevelChoice.REAL in levels
    if name == FDA and (some or not real):
        raise DuotomoError(
            f"{FDA}: expected the level real, without --cases and --methods; got others. Leave them out."
        )
    if name != FDA and (name != ALL or data is None or some or not real):
        return None
    plan = Plan(level=Level.REAL, quick=quick, device=device.value, data=data)
    # Raises now, before anything has been computed, if they are not there.
    fda_projections(plan.data_folder(FDA))
    return plan


def _run_fda(console: Console, plan: Plan, out: Path, *, draw_figures: bool) -> None:
    from duotomo.cli._aligned import aligned
    from duotomo.experiments import fda
    from duotomo.report.reproduction_fda import draw_fda, fda_lines, fda_remarks, read_fda

    folder = out / FDA / plan.folder_name
    console.print(f"{fda.TITLE} (real{', quick' if plan.quick else ''})")

    def show(row: dict[str, Any], before: bool) -> None:
        done = "finished before" if before else f"{row['seconds']:.1f} s, {row['status']}"
        console.print(f"  {row['label']}: {done}")

    with console.status("Reconstructing"):
        fda.reproduce_fda(plan, folder, on_row=show)
    table = read_fda(folder)
    for line in (*aligned(fda_lines(table), width=console.width), *fda_remarks(table)):
        console.print(line)
    if draw_figures:
        with console.status("Drawing the figures"):
            drawn = draw_fda(folder)
        console.print(f"Wrote {folder / 'table.json'} and {len(drawn)} figures in {folder / 'figures'}")


def _run(
    console: Console,
    experiment: Experiment,
    plan: Plan,
    out: Path,
    cases: list[int] | None,
    methods: list[str] | None,
    *,
    draw_figures: bool,
) -> None:
    from duotomo.cli._aligned import aligned
    from duotomo.cli._work import ExperimentProgress
    from duotomo.experiments import folder_of
    from duotomo.experiments import reproduce as run
    from duotomo.report.reproduction import draw
    from duotomo.report.summary import lines, read_table, remarks

    folder = folder_of(out, experiment, plan)
    console.print(f"{experiment.title} ({plan.level.value}{', quick' if plan.quick else ''})")
    with ExperimentProgress(console) as progress:
        run(experiment, plan, folder, progress=progress, cases=cases, ways=methods)
    if cases is not None or methods is not None:
        console.print("The table and the figures come from the same command without --cases and --methods.")
        return
    table = read_table(folder)
    for line in aligned(lines(table), width=console.width):
        console.print(line)
    for line in remarks(table):
        console.print(line)
    if draw_figures:
        with console.status("Drawing the figures"):
            drawn = draw(folder)
        console.print(f"Wrote {folder / 'table.json'} and {len(drawn)} figures in {folder / 'figures'}")


def _numbers(text: str | None) -> list[int] | None:
    """Return the numbers of a list such as "1,4-6"."""
    from duotomo.errors import DuotomoError

    if text is None:
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            found = range(int(first), int(last or first) + 1)
        except ValueError:
            found = range(0)
        if not found:
            raise DuotomoError(
                f"duotomo reproduce: expected --cases such as 1,4-6; got {text!r}. Give numbers and ranges, "
                f"the smaller one first."
            )
        numbers += found
    return list(dict.fromkeys(numbers))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")
