"""How much better than the sequential method the others are, and in which order they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from duotomo.reproduction.table import FAMILIES, ORIGINS, Table, TableMethod


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Mean relative error of a sequential method over that of a better one, on the cases that both ran.

    reference: of the sequential method's reconstruction of the first visit. registered: of its reconstruction
    of the moving visit, transformed, as the paper's captions have it. published: the paper's ratio, where it
    compares the same two. sequential, better: names of the methods.
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

    origin: str
    model: str
    families: tuple[str, ...]
    holds: bool
    holds_registered: bool | None


def groups(table: Table) -> Iterator[tuple[str, str, tuple[TableMethod, ...]]]:
    """Give origin, model and methods for each set of methods that belong together, ours first.

    Where there are several models, the methods without one, such as the known motion, belong to each.
    """
    for origin in ORIGINS:
        methods = [method for method in table.methods if method.origin == origin]
        models = list(dict.fromkeys(method.model for method in methods if method.model)) or [""]
        for model in models if methods else []:
            yield origin, model, tuple(method for method in methods if method.model in (model, ""))


def ratios(table: Table) -> tuple[Ratio, ...]:
    """Return the ratios of each sequential method to others of its model, and of the paper's own to ours."""
    found = [ratio for _, _, methods in groups(table) for ratio in _ratios(table, methods, methods)]
    paper, ours = (
        [method for method in table.methods if method.origin == origin and method.family == family]
        for origin, family in (("paper", "sequential"), ("ours", "simultaneous"))
    )
    return tuple(dict.fromkeys([*found, *_ratios(table, paper, ours)]))


def orderings(table: Table) -> tuple[Ordering, ...]:
    """Return whether the paper's ordering holds, for each model that has a sequential and a better method."""
    found = (_ordering(table, origin, model, methods) for origin, model, methods in groups(table))
    return tuple(one for one in found if one is not None)


def _ratios(table: Table, methods: Sequence[TableMethod], others: Sequence[TableMethod]) -> Iterator[Ratio]:
    for method in methods:
        if method.family != "sequential":
            continue
        for family in FAMILIES[1:]:
            for better in others:
                if better.family == family and (common := _common(table, [method, better])):
                    yield _ratio(table, method, better, common)


def _ratio(table: Table, method: TableMethod, better: TableMethod, cases: Sequence[int]) -> Ratio:
    error = _mean(table, better, cases)
    registered = _mean_registered(table, method, cases)
    paper = table.paper
    return Ratio(
        sequential=method.name,
        better=better.name,
        reference=_over(_mean(table, method, cases), error),
        registered=None if registered is None else _over(registered, error),
        published=paper.ratio if paper is not None and paper.better == better.family else None,
    )


def _ordering(table: Table, origin: str, model: str, methods: Sequence[TableMethod]) -> Ordering | None:
    by_family = {
        family: [method for method in methods if method.family == family and table.of(method)]
        for family in FAMILIES[:3]
    }
    # The families whose errors should grow, best first.
    families = tuple(family for family in reversed(FAMILIES[:3]) if by_family[family])
    if len(families) < 2 or families[-1] != "sequential":
        return None
    # Where a family has several methods, the worst of them is judged.
    compared = [method for family in families for method in by_family[family]]
    cases = _common(table, compared)
    if not cases:
        return None
    better = [max(_mean(table, method, cases) for method in by_family[family]) for family in families[:-1]]
    last = by_family["sequential"][0]
    registered = _mean_registered(table, last, cases)
    return Ordering(
        origin=origin,
        model=model,
        families=families,
        holds=_grows([*better, _mean(table, last, cases)]),
        holds_registered=None if registered is None else _grows([*better, registered]),
    )


def _common(table: Table, methods: Sequence[TableMethod]) -> list[int]:
    """Return the cases that all of the methods ran."""
    sets = [set(table.of(method)) for method in methods]
    return sorted(set.intersection(*sets)) if sets else []


def _mean(table: Table, method: TableMethod, cases: Sequence[int]) -> float:
    rows = table.of(method)
    return fmean(rows[case].relative_error for case in cases)


def _mean_registered(table: Table, method: TableMethod, cases: Sequence[int]) -> float | None:
    rows = table.of(method)
    errors = [rows[case].registered_relative_error for case in cases]
    numbers = [error for error in errors if error is not None]
    # A mean over fewer cases than the other's would compare different things.
    return fmean(numbers) if len(numbers) == len(errors) else None


def _over(one: float, other: float) -> float:
    return one / other if other else math.inf


def _grows(values: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(values))
