"""How much better than the sequential method the others are, and in which order they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from duotomo.report.reproduction_table import FAMILIES, WHOSE, Table, TableWay


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Mean relative error of a sequential way over that of a better one, on the cases that both ran.

    reference: of the sequential method's reconstruction of the first visit. registered: of its reconstruction
    of the moving visit, transformed, as the paper's captions have it. published: the paper's ratio, where it
    compares the same two. sequential, better: names of the ways.
    """

    sequential: str
    better: str
    reference: float
    registered: float | None
    published: float | None


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """Whether `simultaneous < iterative < sequential` holds for the mean relative errors of one model.

    families: those there are, in the order in which their errors should grow. holds: with the sequential
    reconstruction of the first visit. holds_registered: with its transformed reconstruction of the moving
    visit; None where there is none.
    """

    whose: str
    model: str
    families: tuple[str, ...]
    holds: bool
    holds_registered: bool | None


def groups(table: Table) -> Iterator[tuple[str, str, tuple[TableWay, ...]]]:
    """Give whose, model and ways for each set of ways that belong together, ours first.

    Where there are several models, the ways without one, such as the known motion, belong to each.
    """
    for whose in WHOSE:
        ways = [way for way in table.ways if way.whose == whose]
        models = list(dict.fromkeys(way.model for way in ways if way.model)) or [""]
        for model in models if ways else []:
            yield whose, model, tuple(way for way in ways if way.model in (model, ""))


def ratios(table: Table) -> tuple[Ratio, ...]:
    """Return the ratios of each sequential way to the others of its model, and of the paper's own to ours."""
    found = [ratio for _, _, ways in groups(table) for ratio in _ratios(table, ways, ways)]
    paper, ours = (
        [way for way in table.ways if way.whose == whose and way.family == family]
        for whose, family in (("paper", "sequential"), ("ours", "simultaneous"))
    )
    return tuple(dict.fromkeys([*found, *_ratios(table, paper, ours)]))


def orderings(table: Table) -> tuple[Ordering, ...]:
    """Return whether the paper's ordering holds, for each model that has a sequential and a better way."""
    found = (_ordering(table, whose, model, ways) for whose, model, ways in groups(table))
    return tuple(one for one in found if one is not None)


def _ratios(table: Table, ways: Sequence[TableWay], others: Sequence[TableWay]) -> Iterator[Ratio]:
    for way in ways:
        if way.family != "sequential":
            continue
        for family in FAMILIES[1:]:
            for better in others:
                if better.family == family and (common := _common(table, [way, better])):
                    yield _ratio(table, way, better, common)


def _ratio(table: Table, way: TableWay, better: TableWay, cases: Sequence[int]) -> Ratio:
    error = _mean(table, better, cases)
    registered = _mean_registered(table, way, cases)
    paper = table.paper
    return Ratio(
        sequential=way.name,
        better=better.name,
        reference=_over(_mean(table, way, cases), error),
        registered=None if registered is None else _over(registered, error),
        published=paper.ratio if paper is not None and paper.better == better.family else None,
    )


def _ordering(table: Table, whose: str, model: str, ways: Sequence[TableWay]) -> Ordering | None:
    by_family = {
        family: [way for way in ways if way.family == family and table.of(way)] for family in FAMILIES[:3]
    }
    # The families whose errors should grow, best first.
    families = tuple(family for family in reversed(FAMILIES[:3]) if by_family[family])
    if len(families) < 2 or families[-1] != "sequential":
        return None
    # Where a family has several ways, the worst of them is judged.
    compared = [way for family in families for way in by_family[family]]
    cases = _common(table, compared)
    if not cases:
        return None
    better = [max(_mean(table, way, cases) for way in by_family[family]) for family in families[:-1]]
    last = by_family["sequential"][0]
    registered = _mean_registered(table, last, cases)
    return Ordering(
        whose=whose,
        model=model,
        families=families,
        holds=_grows([*better, _mean(table, last, cases)]),
        holds_registered=None if registered is None else _grows([*better, registered]),
    )


def _common(table: Table, ways: Sequence[TableWay]) -> list[int]:
    """Return the cases that all of the ways ran."""
    sets = [set(table.of(way)) for way in ways]
    return sorted(set.intersection(*sets)) if sets else []


def _mean(table: Table, way: TableWay, cases: Sequence[int]) -> float:
    rows = table.of(way)
    return fmean(rows[case].relative_error for case in cases)


def _mean_registered(table: Table, way: TableWay, cases: Sequence[int]) -> float | None:
    rows = table.of(way)
    errors = [rows[case].registered_relative_error for case in cases]
    numbers = [error for error in errors if error is not None]
    # A mean over fewer cases than the other's would compare different things.
    return fmean(numbers) if len(numbers) == len(errors) else None


def _over(one: float, other: float) -> float:
    return one / other if other else math.inf


def _grows(values: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(values))
