"""All experiments in one small table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duotomo.reproduction.ratios import groups, ratios
from duotomo.reproduction.summary import NONE, digits, start_mm, summary
from duotomo.reproduction.table import Table, TableMethod

HEADER = (
    "experiment",
    "level",
    "TRE before, mm",
    "TRE sequential",
    "TRE simultaneous",
    "error ratio",
    "with registered visit 2",
    "paper",
)


def glance_lines(tables: Sequence[Table]) -> list[list[str]]:
    """Return what our methods did: names of the columns, then one line for each experiment, level and model.

    Experiments without a sequential method are left out: there is nothing to compare.
    """
    return [[*HEADER], *(line for table in tables for line in _lines(table))]


def _lines(table: Table) -> Iterator[list[str]]:
    better = "simultaneous" if table.paper is None else table.paper.better
    tre_mm = {one.method.name: digits(one.tre_mm.mean) for one in summary(table)}
    unfinished = f", {table.n_whole} of {table.n_cases} cases" if table.n_whole < table.n_cases else ""
    for origin, model, methods in groups(table):
        of: dict[str, TableMethod] = {method.family: method for method in methods if method.name in tre_mm}
        if origin != "ours" or "sequential" not in of or better not in of:
            continue
        pair = of["sequential"].name, of[better].name
        for ratio in (one for one in ratios(table) if (one.sequential, one.better) == pair):
            yield [
                f"{table.experiment}{', ' + model if model else ''}",
                f"{table.level}{', reduced size' if table.quick else ''}{unfinished}",
                digits(start_mm(table).mean),
                tre_mm[of["sequential"].name],
                tre_mm[of["simultaneous"].name] if "simultaneous" in of else NONE,
                digits(ratio.reference),
                digits(ratio.registered),
                digits(ratio.published),
            ]
