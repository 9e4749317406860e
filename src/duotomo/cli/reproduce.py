"""`duotomo reproduce`: an experiment of the paper, its table beside the published numbers, its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._flatten import Fields
from duotomo.cli._options import Computing, Talk
from duotomo.reproduction.plan import DataLevel

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.reproduction import Experiment, Plan

ALL = "all"


def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment, or all; fda-projections: not in the paper.")],
    computing: Annotated[Computing, Fields(only=("device",))],
    level: Annotated[
        tuple[DataLevel, ...],
        typer.Option(help="How the data are made; may be given twice. All that can be, unless given."),
    ] = (),
    out: Annotated[Path, typer.Option(help="Folder to write to; what is finished there stays.")] = Path(
        "out/reproduce"
    ),
    data: Annotated[Path | None, typer.Option(help="Folder with third-party data, for --level real.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size: minutes on two cores.")] = False,
    cases: Annotated[str | None, typer.Option(help="Only these, such as 1,4-6: to share the work.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these, such as sequential,simultaneous.")] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
) -> None:
    """Run an experiment of the paper, print its table beside the published numbers, and draw its figures.

    Example: duotomo reproduce toroid-simultaneous --level honest --quick
    """
    # Imported here: `duotomo --help` needs none of it.
    from rich.console import Console

    from duotomo.errors import DuotomoError
    from duotomo.reproduction import EXPERIMENTS, Plan
    from duotomo.reproduction.fda import FDA_NAME

    console = Console(highlight=False, soft_wrap=True, markup=False)
    if name not in (ALL, FDA_NAME, *EXPERIMENTS):
        raise DuotomoError(
            f"expected one of the experiments {', '.join([*EXPERIMENTS, FDA_NAME])}, or all; got {name!r}. "
            f"Choose one of them."
        )
    if data is not None and not data.is_dir():
        raise DuotomoError(f"expected a folder at --data {data}; got none. Check the path.")
    computing.prepare(Talk())

    def plan(one: DataLevel) -> Plan:
        return Plan(level=one, quick=quick, device=computing.device.value, data=data)

    try:
        some = cases is not None or methods is not None
        plans = _plans(name, level, plan)
        fda = _fda_plan(name, level, plan, some=some)
        chosen = None if methods is None else methods.split(",")
        for experiment, one in plans:
            _run(console, experiment, one, out, _cases(cases), chosen, draw=figures)
        if fda is not None:
            _run_fda(console, fda, out, draw=figures)
    except (DuotomoError, KeyboardInterrupt):
        console.print("What is finished is kept; the same command goes on from there.")
        raise


def _plans(
    name: str, levels: tuple[DataLevel, ...], plan: Callable[[DataLevel], Plan]
) -> list[tuple[Experiment, Plan]]:
    """Return what to run; raise, before anything has been computed, if a plan cannot be followed."""
    from duotomo.io.libraries import nibabel, simpleitk
    from duotomo.reproduction import EXPERIMENTS

    # Rather now than after an hour.
    nibabel(), simpleitk()
    plans = []
    for experiment in EXPERIMENTS.values():
        for level in (levels or experiment.levels) if name in (ALL, experiment.name) else ():
            one = plan(level)
            skipped = level not in experiment.levels or (level is DataLevel.REAL and one.data is None)
            # What was not asked for by name may be missing.
            if not skipped or (name != ALL and levels):
                experiment.set_up(one)
                plans.append((experiment, one))
    return plans


def _fda_plan(
    name: str, levels: tuple[DataLevel, ...], plan: Callable[[DataLevel], Plan], *, some: bool
) -> Plan | None:
    """Return the plan for the FDA's projections, or None if they are not wanted.

    One visit, whose projections others have made: no experiment of the paper, and nothing moves. some:
    whether the command is for a part of the work only.
    """
    from duotomo.errors import DuotomoError
    from duotomo.reproduction.fda import FDA_NAME
    from duotomo.reproduction.third_party.fda import fda_projections

    other, one = some or bool(levels and DataLevel.REAL not in levels), plan(DataLevel.REAL)
    if name == FDA_NAME and other:
        raise DuotomoError(
            f"{FDA_NAME}: expected the level real, without --cases and --methods; got others. Leave them out."
        )
    if name != FDA_NAME and (name != ALL or one.data is None or other):
        return None
    # Raises now, before anything has been computed, if they are not there.
    fda_projections(one.data_folder(FDA_NAME))
    return one


def _run_fda(console: Console, plan: Plan, out: Path, *, draw: bool) -> None:
    from duotomo.reproduction.fda import FDA_NAME, FDA_TITLE, reproduce_fda
    from duotomo.reproduction.fda_table import draw_fda, fda_lines, fda_remarks, read_fda

    folder = out / FDA_NAME / plan.folder_name
    console.print(f"{FDA_TITLE} (real{', quick' if plan.quick else ''})")

    def show(row: dict[str, Any], before: bool) -> None:
        done = "finished before" if before else f"{row['seconds']:.1f} s, {row['status']}"
        console.print(f"  {row['label']}: {done}")

    with console.status("Reconstructing"):
        reproduce_fda(plan, folder, on_row=show)
    table = read_fda(folder)
    _show(console, fda_lines(table), fda_remarks(table))
    if draw:
        _draw(console, folder, draw_fda)


def _run(
    console: Console,
    experiment: Experiment,
    plan: Plan,
    out: Path,
    cases: list[int] | None,
    methods: list[str] | None,
    *,
    draw: bool,
) -> None:
    from duotomo.cli._progress import ExperimentProgress
    from duotomo.reproduction.figures import draw_experiment
    from duotomo.reproduction.runner import folder_of, reproduce
    from duotomo.reproduction.summary import remarks, table_lines
    from duotomo.reproduction.table import read_table

    folder = folder_of(out, experiment, plan)
    console.print(f"{experiment.title} ({plan.level.value}{', quick' if plan.quick else ''})")
    with ExperimentProgress(console) as progress:
        reproduce(experiment, plan, folder, progress=progress, cases=cases, methods=methods)
    if cases is not None or methods is not None:
        console.print("The table and the figures come from the same command without --cases and --methods.")
        return
    table = read_table(folder)
    _show(console, table_lines(table), remarks(table))
    if draw:
        _draw(console, folder, draw_experiment)


def _show(console: Console, table: list[list[str]], remarks: list[str]) -> None:
    from duotomo.cli.reproduce import aligned

    for line in (*aligned(table, width=console.width), *remarks):
        console.print(line)


def _draw(console: Console, folder: Path, draw: Callable[[Path], list[Path]]) -> None:
    with console.status("Drawing the figures"):
        drawn = draw(folder)
    console.print(f"Wrote {folder / 'table.json'} and {len(drawn)} figures in {folder / 'figures'}")


def _cases(text: str | None) -> list[int] | None:
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
                f"expected --cases such as 1,4-6; got {text!r}. Give numbers and ranges, the smaller one "
                f"first."
            )
        numbers += found
    return list(dict.fromkeys(numbers))


GAP = "  "


def aligned(rows: Sequence[Sequence[str]], *, width: int) -> Iterator[str]:
    """Give the lines of a table whose first row are the names of its columns.

    Columns that do not fit beside the others follow in a further block, behind the first column again. A
    single column that is too wide stays whole.

    >>> for line in aligned([["method", "error", "steps"], ["ours", "0.1", "12"]], width=13):
    ...     print(line)
    method  error
    ------  -----
    ours      0.1
    <BLANKLINE>
    method  steps
    ------  -----
    ours       12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    block: list[int] = []
    blocks = [block]
    for column in range(1, len(widths)):
        if block and sum(len(GAP) + widths[one] for one in (*block, column)) > width - widths[0]:
            block = []
            blocks.append(block)
        block.append(column)
    for number, columns in enumerate(blocks):
        if number:
            yield ""
        head, *body = rows
        for row in (head, ["-" * one for one in widths], *body):
            cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in columns)]
            yield GAP.join(cells).rstrip()
