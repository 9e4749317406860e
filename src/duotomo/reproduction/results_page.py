"""The page that puts all experiments beside the paper: `docs/results.md`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from duotomo.io.durable import durable
from duotomo.io.paths import FileError, make_folder
from duotomo.reproduction.experiments import EXPERIMENTS
from duotomo.reproduction.fda import FDA_NAME
from duotomo.reproduction.fda_table import FdaTable, fda_lines, fda_remarks, read_fda
from duotomo.reproduction.figures import FIGURES
from duotomo.reproduction.results_text import (
    COLUMNS,
    COMPARING,
    GLANCE,
    INTRODUCTION,
    LEVELS,
    NOTES,
    READING,
    TELLING,
    TELLING_ELSEWHERE,
    TITLES,
    glance_lines,
)
from duotomo.reproduction.summary import outcomes, published, ratio_lines, table_lines, unfinished
from duotomo.reproduction.table import TABLE, Table, read_table

MOST_FIGURES = 4
"""Of each experiment and level; all of them are in its folder."""

SHARE_ALIKE = {"breast-mr-real": ("cases-tre", "parameter-errors")}
"""Figures that may be copied where pictures of the body must keep a licence that is not the page's."""

MOST_BYTES = 60_000
"""Of a picture on the page, before its colours are reduced."""


def write_results_page(root: Path, page: Path, *, figures: Path, quick: bool = False) -> list[Path]:
    """Write the page of all experiments in a folder, and copy its figures and all rows.

    Equal folders make equal files.

    Parameters
    ----------
    root : Path
        With a folder `NAME/LEVEL` for each experiment and level.
    page : Path
        The Markdown file to write.
    figures : Path
        Folder for the pictures and the rows (JSON), named in the page relative to it.
    quick : bool
        Whether experiments of reduced size are on the page, too.

    Returns
    -------
    list of Path
        The files that were written, the page first.

    Raises
    ------
    FileError
        If no experiment is there, one is of an unknown level, or a file cannot be written.
    """
    tables, fda = _tables(Path(root), quick), _fda_tables(Path(root), quick)
    if not tables and not fda:
        raise FileError(
            f"write_results_page: expected folders NAME/LEVEL with a {TABLE} in {root}; got none"
            f"{'' if quick else ' of full size'}. Run `reproduce` first."
        )
    page, figures = Path(page), Path(figures)
    made_with = {_computed_with(table) for _, table in tables} | {_computed_with(table) for _, table in fda}
    parts = _beginning()
    if len(made_with) == 1:
        parts.append(f"All was computed with {next(iter(made_with))}.")
    if tables:
        parts.append(f"## At a glance\n\n{GLANCE}")
        parts.append(_markdown(glance_lines([table for _, table in _by_experiment(tables)])))
    files = [page]
    for same in (list(group) for _, group in groupby(_by_experiment(tables), lambda one: one[1].experiment)):
        parts.append(_section([table for _, table in same]))
        for folder, table in same:
            rows, copied = _copy_rows(folder, table, figures), _copy_figures(folder, table, figures)
            files += [rows, *copied]
            parts.append(_level(table, rows, copied, page.parent, name_versions=len(made_with) > 1))
    for folder, scans in fda:
        copied = _copy_all([folder / FIGURES / "slices-all.png"], scans, figures)
        files += copied
        parts.append(_fda_section(scans, copied, page.parent, name_versions=len(made_with) > 1))
    make_folder("write_results_page", page.parent)
    with durable("write_results_page", page) as fresh:
        fresh.write_text("\n\n".join(part.strip("\n") for part in parts if part) + "\n", encoding="utf-8")
    return files


def _tables(root: Path, quick: bool) -> list[tuple[Path, Table]]:
    """Return the folders with a table, in the order of the levels, and their tables."""
    folders = sorted(path.parent for path in root.glob(f"*/*/{TABLE}"))
    found = [(folder, read_table(folder)) for folder in folders if folder.parent.name != FDA_NAME]
    found = [(folder, table) for folder, table in found if quick or not table.quick]
    levels = list(LEVELS)
    for folder, table in found:
        if table.level not in levels:
            raise FileError(
                f"write_results_page: expected one of the levels {', '.join(levels)}; got {table.level!r} in "
                f"{folder}. Use the duotomo that wrote it, or move it elsewhere."
            )
    return sorted(found, key=lambda one: (levels.index(one[1].level), one[1].quick, one[0]))


def _fda_tables(root: Path, quick: bool) -> list[tuple[Path, FdaTable]]:
    found = [(path.parent, read_fda(path.parent)) for path in sorted((root / FDA_NAME).glob(f"*/{TABLE}"))]
    return [(folder, table) for folder, table in found if quick or not table.quick]


def _by_experiment(tables: Sequence[tuple[Path, Table]]) -> list[tuple[Path, Table]]:
    """Return the tables in the order of the paper's experiments, then the others'; levels keep theirs."""
    order = {name: number for number, name in enumerate(EXPERIMENTS)}
    return sorted(tables, key=lambda one: (order.get(one[1].experiment, len(order)), one[1].experiment))


def _beginning() -> list[str]:
    # What the words mean is written as Markdown already.
    levels = ["| level | data |", "| --- | --- |", *(f"| {name} | {what} |" for name, what in LEVELS.items())]
    names = [
        "| column | meaning |",
        "| --- | --- |",
        *(f"| {name} | {what} |" for name, what in COLUMNS.items()),
    ]
    return [INTRODUCTION, "\n".join(levels), READING, "\n".join(names), COMPARING]


def _computed_with(table: Table | FdaTable) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(table.versions.items()))
    return f"{versions}, on {table.device}"


def _section(tables: Sequence[Table]) -> str:
    """Return the heading of an experiment, its set-up at each level, and what to keep in mind."""
    name = tables[0].experiment
    parts = [f"## {tables[0].title}", f"Experiment `{name}`. {NOTES.get(name, '')}".strip()]
    parts.append("\n".join(f"- {_escaped(line)}" for line in published(tables[0])))
    parts.append(_markdown([["set-up", ""], *_set_up(tables)]))
    return "\n\n".join(part for part in parts if part)


def _set_up(tables: Sequence[Table]) -> Iterator[list[str]]:
    """Give the lines of the set-up: one where all levels are alike, or else one for each."""
    for key in dict.fromkeys(key for table in tables for key in table.about):
        values = {_level_name(table): _plain(table.about[key]) for table in tables if key in table.about}
        if len(set(values.values())) == 1 and len(values) == len(tables):
            yield [_words(key), _code(next(iter(values.values())))]
        else:
            yield from ([f"{_words(key)}, {level}", _code(value)] for level, value in values.items())


def _level(table: Table, rows: Path, copied: Sequence[Path], beside: Path, *, name_versions: bool) -> str:
    """Return the part of one level: numbers, ratios, remarks, pictures."""
    cases = "One case" if table.n_cases == 1 else f"{table.n_cases} cases"
    if table.n_whole < table.n_cases:
        cases = f"{table.n_whole} of {table.n_cases} cases"
    parts = [
        f"### {table.experiment}: {_level_name(table)}",
        f"{cases}, computed with {_computed_with(table)}." if name_versions else f"{cases}.",
        "\n".join(unfinished(table)),
        _markdown(table_lines(table)),
        f"[All rows]({os.path.relpath(rows, beside)})",
    ]
    ratios = ratio_lines(table)
    if len(ratios) > 1:
        parts.append(_markdown(ratios))
    parts.append("\n".join(f"- {_escaped(line)}" for line in outcomes(table)))
    for picture in copied:
        kind = picture.stem.removeprefix(f"{table.name}-")
        parts.append(f"![{_title(kind, table)}]({os.path.relpath(picture, beside)})")
    return "\n\n".join(part for part in parts if part)


def _fda_section(table: FdaTable, copied: Sequence[Path], beside: Path, *, name_versions: bool) -> str:
    """Return the part of the FDA's projections."""
    about = [[_words(name), _code(_plain(value))] for name, value in table.about.items()]
    parts = [
        f"## {table.title}{', reduced size' if table.quick else ''}",
        f"Experiment `{table.experiment}`. {NOTES[FDA_NAME]}",
        f"Computed with {_computed_with(table)}." if name_versions else "",
        _markdown([["set-up", ""], *about]),
        _markdown(fda_lines(table)),
        "\n".join(f"- {_escaped(line)}" for line in fda_remarks(table)),
        *(f"![Slices through the lesion]({os.path.relpath(picture, beside)})" for picture in copied),
    ]
    return "\n\n".join(part for part in parts if part)


def _level_name(table: Table | FdaTable) -> str:
    return f"{table.level}{', reduced size' if table.quick else ''}"


def _title(kind: str, table: Table) -> str:
    """Return what a picture shows, by the name of its file."""
    start = next(start for start in TITLES if kind.startswith(start))
    rest = kind.removeprefix(start).strip("-").replace("-", " ")
    return TITLES[start].format(case=table.shown) + (f" ({rest})" if rest else "")


def _copy_figures(folder: Path, table: Table, figures: Path) -> list[Path]:
    """Copy the most telling figures: up to two of results, and one of each other kind."""
    telling = TELLING.get(table.experiment, TELLING_ELSEWHERE)

    def worth(picture: Path) -> tuple[int, bool, str]:
        return -sum(part in picture.stem for part in telling), "plain" in picture.stem, picture.stem

    wanted: list[Path] = []
    for kind in TITLES:
        if kind not in SHARE_ALIKE.get(table.name, TITLES):
            continue
        found = sorted((folder / FIGURES).glob(f"{kind}*.png"), key=worth)
        wanted += found[: 2 if kind == "results" else 1]
    return _copy_all(wanted[:MOST_FIGURES], table, figures)


def _copy_rows(folder: Path, table: Table, figures: Path) -> Path:
    """Copy the rows of all cases, under the experiment's name."""
    make_folder("write_results_page", figures)
    target = figures / f"{table.name}.json"
    with durable("write_results_page", target) as fresh:
        shutil.copyfile(folder / TABLE, fresh)
    return target


def _copy_all(wanted: Iterable[Path], table: Table | FdaTable, figures: Path) -> list[Path]:
    """Copy the pictures that are there, under names with the experiment's."""
    copied = []
    for picture in wanted:
        if not picture.exists():
            continue
        make_folder("write_results_page", figures)
        target = figures / f"{table.name}-{picture.name}"
        with durable("write_results_page", target) as fresh:
            _copy(picture, fresh)
        copied.append(target)
    return copied


def _copy(picture: Path, target: Path) -> None:
    """Copy a picture; one that is too large for a page keeps 256 colours."""
    if picture.stat().st_size <= MOST_BYTES:
        shutil.copyfile(picture, target)
        return
    from PIL import Image

    with Image.open(picture) as image:
        # Colours that few pixels have keep their place: a colour scale stays one.
        few = image.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
        )
    few.save(target, format="PNG", optimize=True)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    return "\n".join([head, f"| {' | '.join(['---'] * len(rows[0]))} |", *body])


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _code(text: str) -> str:
    """Return text as code where it is Python."""
    return f"`{text}`" if re.fullmatch(r"\w+\(.*\)", text) else text


def _words(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: Any) -> str:
    """Return a value of the set-up as text, numbers without the digits that float adds."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(str(name))} {_plain(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"\d+\.\d{6,}", lambda digits: f"{float(digits[0]):g}", str(value))
