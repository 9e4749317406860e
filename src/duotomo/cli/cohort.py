"""`duotomo cohort`: many cases, each as `duotomo joint` or `duotomo change` would compute it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._errors import DONE, NOT_TRUSTED, SOME_FAILED
from duotomo.cli._memory import GB
from duotomo.cli._options import AUTO, Talk
from duotomo.cli._settings_file import MOST_BYTES

if TYPE_CHECKING:
    from duotomo.cohort import Case, Command, Resources, Row, Survey

WORKERS = "Workers"
KEY = ".pseudonyms"
"""The file of a cohort with the secret that names its patients, unless another one is given."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where cases run; `resources` is the same for the library."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Cases at once. Unless given: by cores and memory.", rich_help_panel=WORKERS
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="For each case. Unless given: the cores, divided.", rich_help_panel=WORKERS),
    ] = None
    max_memory: Annotated[
        float | None,
        typer.Option(min=0, help="Most memory of all cases together, in GB.", rich_help_panel=WORKERS),
    ] = None
    device: Annotated[
        str,
        typer.Option(
            help="Where to compute: auto (CUDA, if it is there), cpu or cuda.",
            metavar="DEVICE",
            rich_help_panel=WORKERS,
        ),
    ] = AUTO
    per_gpu: Annotated[int, typer.Option(min=1, help="Cases that share a GPU.", rich_help_panel=WORKERS)] = 1
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="A Dask scheduler that is there: tcp://HOST:PORT. Its workers have to see the same folders.",
            rich_help_panel=WORKERS,
        ),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            min=0, help="Times that a case goes on after its process was killed.", rich_help_panel=WORKERS
        ),
    ] = 3

    def resources(self) -> Resources:
        """Return them as the library has them."""
        from duotomo.cohort import Resources

        return Resources(
            scheduler=self.scheduler,
            n_workers=self.workers,
            n_threads=self.threads,
            max_memory_gb=self.max_memory,
            device=self.device,
            per_gpu=self.per_gpu,
            n_retries=self.retries,
        )


def cohort(
    manifest: Annotated[
        Path,
        typer.Argument(metavar="MANIFEST", help="A CSV or TOML file of cases, or a folder of DICOM scans."),
    ],
    where: Where,
    talk: Talk,
    out: Annotated[Path, typer.Option(help="Folder to write to; nothing is written elsewhere.")],
    root: Annotated[
        Path | None,
        typer.Option(help="The folder that holds all scans. Unless given: the manifest's."),
    ] = None,
    change: Annotated[
        bool, typer.Option("--change", help="Say what changed, for cases that name no command.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(help="A TOML file with options of all cases, as `duotomo joint --settings` reads it."),
    ] = None,
    deidentify_key: Annotated[
        Path | None,
        typer.Option(
            help="A file with a secret that names the patients of a folder. Unless given: drawn once."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, what cannot, and what it costs.")
    ] = False,
) -> None:
    """Run many cases: `duotomo joint` or `duotomo change` for each, on all cores or on a cluster.

    A second call of the same command runs only what has no result yet.

    Example: duotomo cohort women.csv --out results
    """
    from duotomo.cohort import Command, read_manifest, survey

    resources, command = where.resources(), Command.CHANGE if change else Command.JOINT
    if manifest.is_dir():
        cases = _found(manifest, deidentify_key, out, command, talk, dry_run=dry_run)
    else:
        cases = read_manifest(manifest, root=root, command=command)
    options = _options(settings, command.value)
    if dry_run:
        from duotomo.cli._progress import Phase, RunProgress

        looking = Phase("looking at the scans", ((len(cases), 1.0),))
        with RunProgress(talk.console, [looking]) as progress:
            progress.begin(looking.name)
            found = survey(cases, out, options=options, resources=resources, on_case=progress.part)
        _show_survey(talk, found)
        return
    _run(talk, cases, out, options, resources)


def _run(
    talk: Talk, cases: Sequence[Case], out: Path, options: Mapping[str, Any], resources: Resources
) -> None:
    from duotomo.cli._cohort_progress import CohortProgress
    from duotomo.cohort import cohort as run_cohort
    from duotomo.cohort import write_tables
    from duotomo.report.cohort_page import write_cohort_page

    try:
        with CohortProgress(talk.console) as progress:
            rows = run_cohort(
                cases,
                out,
                options=options,
                resources=resources,
                on_standing=progress.show,
                on_note=talk.progress,
            )
    except KeyboardInterrupt:
        talk.say(
            "Go on with the same command: what has ended is kept, the rest goes on from its checkpoints."
        )
        raise
    # The page links to the tables that are there.
    names = write_tables(out)
    page = write_cohort_page(out)
    counts = Counter(row.status for row in rows)
    ended = ", ".join(f"{n} {status}" for status, n in counts.items())
    talk.say(f"{len(rows)} case{'s' * (len(rows) != 1)}: {ended}")
    for row in rows:
        if row.status == "not trusted":
            talk.say(f"Not trusted: {row.case}: {row.reason}")
        if row.status == "failed":
            # Even with --quiet: nobody should miss it.
            typer.echo(f"Failed: {row.case}: {row.reason}", err=True)
    talk.wrote([page, *(out / name for name in names)])
    talk.finish(
        {"status": "done", "page": str(page), "counts": counts, "cases": [asdict(row) for row in rows]}
    )
    raise typer.Exit(_code(rows))


def _code(rows: Sequence[Row]) -> int:
    statuses = {row.status for row in rows}
    if statuses <= {"done"}:
        return DONE
    return NOT_TRUSTED if statuses <= {"done", "not trusted"} else SOME_FAILED


def _found(
    folder: Path, key: Path | None, out: Path, command: Command, talk: Talk, *, dry_run: bool
) -> tuple[Case, ...]:
    """Return the cases in a folder of DICOM, and say what is of none."""
    from duotomo.cohort.find import find_cases
    from duotomo.cohort.pseudonym_key import pseudonyms_of

    found = find_cases(
        folder, pseudonyms_of(key or out / KEY, draw=key is None and not dry_run), command=command
    )
    for reason in found.left_out:
        talk.progress(f"Left out: {reason}")
    return found.cases


def _options(path: Path | None, command: str) -> dict[str, Any]:
    """Return the options in a file of settings."""
    from duotomo.io import FileError

    if path is None:
        return {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        values = tables.get(command, {})
        if not isinstance(values, dict) or not tables.keys() <= {"joint", "change"}:
            raise ValueError(f"the tables {', '.join(tables)}"[:200])
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(
            f"settings: expected TOML with a table [{command}] in {path}; got: {error}. Check the file."
        ) from error
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _show_survey(talk: Talk, found: Survey) -> None:
    """Say what would run, what cannot, and what it costs."""
    for name in found.finished:
        talk.say(f"{name}: has a result")
    for one, seconds in zip(found.planned, found.seconds, strict=True):
        name = one.case.name
        if one.problem:
            talk.say(f"{name}: cannot run. {one.problem}")
            continue
        begins = "goes on from its checkpoint" if name in found.resumed else "would run"
        talk.say(f"{name}: {begins}, about {duration(seconds)} and {one.memory_bytes / GB:.2g} GB")
    n_run = sum(not one.problem for one in found.planned)
    n_not = len(found.planned) - n_run
    counts = f"{n_run} would run, {n_not} cannot, {len(found.finished)} have a result"
    talk.say(f"{counts}: about {duration(found.wall_s)}{_workers(found)}")
    talk.finish(
        {
            "status": "planned",
            "seconds": found.wall_s,
            "n_workers": found.allotment.n_workers if found.allotment else None,
            "finished": list(found.finished),
            "cases": [
                {
                    "case": one.case.name,
                    "command": one.case.command.value,
                    "problem": one.problem,
                    "memory_gb": one.memory_bytes / GB,
                    "seconds": seconds,
                }
                for one, seconds in zip(found.planned, found.seconds, strict=True)
            ],
        }
    )


def _workers(found: Survey) -> str:
    if found.allotment is None:
        return " on one worker" if found.planned else ""
    return f" on {found.allotment.words}"


def duration(seconds: float) -> str:
    """Return a time for people.

    >>> duration(42.0), duration(600.0), duration(9000.0)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
