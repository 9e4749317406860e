"""Means over the cases of an experiment, and the same as text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from duotomo.reproduction.ratios import orderings, ratios
from duotomo.reproduction.table import Table, TableMethod, TableRow

FOUND_MM = 1.0
"""A motion counts as found where the mean target registration error is below this, and below the start's."""

NONE = "-"
_TRANSLATIONS = (3, 7, 11)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A number over the cases: its mean, its standard deviation (None for one case) and its largest value."""

    mean: float
    std: float | None
    worst: float


@dataclass(frozen=True, kw_only=True)
class MethodSummary:
    """What a method did over its cases.

    registered_relative_error: of the moving visit's own volume, seen in the reference frame. matrix,
    translation_mm: means over the cases and over the nine linear entries, and the three others.
    n_found: cases whose motion was found. statuses: cases by the status they ended with.
    """

    method: TableMethod
    n_cases: int
    relative_error: Spread
    registered_relative_error: Spread | None
    tre_mm: Spread
    matrix: float | None
    translation_mm: float | None
    applications: float
    seconds: float
    n_found: int
    n_folded: int
    statuses: Mapping[str, int]


def summary(table: Table) -> tuple[MethodSummary, ...]:
    """Return what each method did, in the order of the table; methods that ran no case are left out."""
    return tuple(
        _method_summary(method, tuple(rows.values()))
        for method in table.methods
        if (rows := table.of(method))
    )


def start_mm(table: Table) -> Spread:
    """Return the mean target registration error before any registration."""
    return _spread(list({row.case: row.start_tre_mm for row in table.rows}.values()))


def _method_summary(method: TableMethod, rows: Sequence[TableRow]) -> MethodSummary:
    registered = [r.registered_relative_error for r in rows if r.registered_relative_error is not None]
    entries = [row.entries for row in rows if row.entries is not None]
    linear = [value for row in entries for i, value in enumerate(row) if i not in _TRANSLATIONS]
    shifts = [row[i] for row in entries for i in _TRANSLATIONS]
    return MethodSummary(
        method=method,
        n_cases=len(rows),
        relative_error=_spread([row.relative_error for row in rows]),
        registered_relative_error=_spread(registered) if registered else None,
        tre_mm=_spread([row.tre_mm for row in rows]),
        matrix=fmean(linear) if linear else None,
        translation_mm=fmean(shifts) if shifts else None,
        applications=fmean(row.applications for row in rows),
        seconds=fmean(row.seconds for row in rows),
        n_found=sum(row.tre_mm < min(FOUND_MM, row.start_tre_mm) for row in rows),
        n_folded=sum(row.folded > 0 for row in rows),
        statuses=dict(sorted(Counter(row.status for row in rows).items())),
    )


def _spread(values: Sequence[float]) -> Spread:
    if not all(map(math.isfinite, values)):
        # A run that was lost is not left out of the mean: it makes it infinite.
        return Spread(mean=math.inf, std=None, worst=math.inf)
    return Spread(mean=fmean(values), std=stdev(values) if len(values) > 1 else None, worst=max(values))


def digits(value: float | None) -> str:
    """Return a number with three significant digits.

    >>> [digits(value) for value in (0.00571, 12.0, 0.1, 1234.5, 1.31e6, 2e-5, 0, None)]
    ['0.00571', '12.0', '0.100', '1230', '1.31e6', '2.00e-5', '0', '-']
    """
    if value is None:
        return NONE
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    fraction, power = f"{value:.2e}".split("e")
    if not -4 <= int(power) < 6:
        return f"{fraction}e{int(power)}"
    return f"{float(f'{value:.2e}'):.{max(0, 2 - int(power))}f}"


def spread_text(spread: Spread | None) -> str:
    """Return the mean, and the standard deviation with as many decimals.

    >>> spread_text(Spread(mean=0.0123, std=0.00411, worst=0.02))
    '0.0123 ± 0.0041'
    """
    if spread is None or spread.std is None:
        return digits(None if spread is None else spread.mean)
    mean = digits(spread.mean)
    if "e" in mean:
        return f"{mean} ± {digits(spread.std)}"
    return f"{mean} ± {spread.std:.{len(mean.partition('.')[2])}f}"


HEADER = (
    "method",
    "relative error",
    "worst",
    "of the registered visit 2",
    "TRE, mm",
    "worst TRE, mm",
    "matrix entries",
    "translations, mm",
    "found",
    "applications",
    "seconds",
)


def table_lines(table: Table) -> list[list[str]]:
    """Return the summary as text: names of the columns, the start, then one line for each method.

    Columns that no method has a number for are left out, and the worst of a single case.
    """
    start = start_mm(table)
    body = [["before registration", NONE, NONE, NONE, spread_text(start), digits(start.worst), *[NONE] * 5]]
    for one in summary(table):
        motion = [
            spread_text(one.tre_mm),
            digits(one.tre_mm.worst),
            digits(one.matrix),
            digits(one.translation_mm),
            f"{one.n_found} of {one.n_cases}",
        ]
        body.append(
            [
                one.method.label,
                spread_text(one.relative_error),
                digits(one.relative_error.worst),
                spread_text(one.registered_relative_error),
                # What is told is not found.
                *([NONE] * len(motion) if one.method.family == "known motion" else motion),
                f"{one.applications:.0f}",
                digits(one.seconds),
            ]
        )
    kept = [
        column
        for column, name in enumerate(HEADER)
        if any(row[column] != NONE for row in body) and (table.n_run > 1 or not name.startswith("worst"))
    ]
    return [[row[column] for column in kept] for row in ([*HEADER], *body)]


def ratio_lines(table: Table) -> list[list[str]]:
    """Return the ratios as text: names of the columns, then one line for each."""
    labels = {method.name: method.label for method in table.methods}
    header = ["ratio of mean relative errors", "visit 1 alone", "registered visit 2", "paper"]
    return [header] + [
        [
            f"{labels[one.sequential]} / {labels[one.better]}",
            digits(one.reference),
            digits(one.registered),
            digits(one.published),
        ]
        for one in ratios(table)
    ]


def remarks(table: Table) -> list[str]:
    """Return what is missing, the paper's numbers, the ratios, and how the runs went."""
    found = [*unfinished(table), *published(table)]
    header, *rows = ratio_lines(table)
    for name, reference, registered, paper in rows:
        beside = "" if paper == NONE else f"; the paper: {paper}"
        also = "" if registered == NONE else f", {registered} with {header[2]}"
        found.append(f"{name}: {reference} with {header[1]}{also}{beside}.")
    return found + outcomes(table)


def unfinished(table: Table) -> list[str]:
    """Return which part of the cases has run, where some have not."""
    if table.n_whole == table.n_cases:
        return []
    ran = ", ".join(f"{method.label} {len(table.of(method))}" for method in table.methods)
    return [
        f"Not finished: {table.n_whole} of {table.n_cases} cases ran with all methods ({ran}). Means are "
        f"over the cases that a method ran, ratios over those that both did."
    ]


def outcomes(table: Table) -> list[str]:
    """Return whether the orderings hold, and the runs that did not go well."""
    header, found = ratio_lines(table)[0], []
    for one in orderings(table):
        of = "the paper's algorithms" if one.origin == "paper" else "our methods"
        named = f"{' < '.join(one.families)} for {of}{', ' + one.model if one.model else ''}"
        also = "" if one.holds_registered is None else f", {_holds(one.holds_registered)} with {header[2]}"
        found.append(f"{named}: {_holds(one.holds)} with {header[1]}{also}.")
    for row in table.rows:
        if row.status in ("breakdown", "diverged"):
            found.append(f"Case {row.case}, {row.method}: {row.status}. {row.reason}")
    folds = [
        f"{one.method.label} ({one.n_folded} of {one.n_cases} cases)"
        for one in summary(table)
        if one.n_folded
    ]
    return found + ([f"Motions that fold somewhere: {', '.join(folds)}."] if folds else [])


def published(table: Table) -> list[str]:
    """Return the paper's numbers in words."""
    paper = table.paper
    if paper is None:
        return []
    errors = [f"{name} {digits(error)}" for name, error in paper.relative_error.items()]
    squares = [f"{name} {digits(error)}" for name, error in paper.mse.items()]
    found = [f"The paper's relative error: {', '.join(errors)}."] if errors else []
    found += [f"The paper's MSE, in units of its images: {', '.join(squares)}."] if squares else []
    return found + ([paper.remark] if paper.remark else [])


def _holds(whether: bool) -> str:
    return "holds" if whether else "does not hold"
