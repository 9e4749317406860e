"""`duotomo reproduce`: an experiment of the paper, its table beside the published numbers, its figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli.demo import Device

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.experiments import Experiment, Plan

ALL = "all"


class LevelChoice(Enum):
    """How the data are made."""

    AS_PUBLISHED = "as-published"
    HONEST = "honest"
    REAL = "real"


def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment, or all.")],
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
        for experiment, plan in _plans(name, level, data, quick, device):
            _run(console, experiment, plan, out, _numbers(cases), _names(methods), draw_figures=figures)
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

    if name != ALL and name not in EXPERIMENTS:
        raise DuotomoError(
            f"duotomo reproduce: expected one of the experiments {', '.join(EXPERIMENTS)}, or all; got "
            f"{name!r}. Choose one of them."
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
    for experiment in EXPERIMENTS.values() if name == ALL else [EXPERIMENTS[name]]:
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
    from rich.table import Table as Printed

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
    header, *rows = lines(table)
    printed = Printed(*header)
    for row in rows:
        printed.add_row(*row)
    console.print(printed)
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
            numbers += range(int(first), int(last or first) + 1)
        except ValueError:
            raise DuotomoError(
                f"duotomo reproduce: expected --cases such as 1,4-6; got {text!r}. Give numbers and ranges."
            ) from None
    return numbers


def _names(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")
