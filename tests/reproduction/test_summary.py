"""Means, ratios and orderings of a table, against numbers computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from duotomo.errors import DuotomoError
from duotomo.reproduction.ratios import groups, orderings, ratios
from duotomo.reproduction.summary import (
    outcomes,
    published,
    ratio_lines,
    remarks,
    start_mm,
    summary,
    table_lines,
    unfinished,
)
from duotomo.reproduction.table import Table, read_table
from tests.reproduction.written_folder import METHODS, method, row, table, write_table

ENTRIES = [1.0, 2.0, 3.0, 10.0, 1.0, 2.0, 3.0, 20.0, 1.0, 2.0, 3.0, 30.0]


@pytest.fixture
def two_cases(tmp_path: Path) -> Table:
    rows = [
        row(1, "sequential", relative_error=0.2, registered_relative_error=0.6, tre_mm=2.0, entries=ENTRIES),
        row(
            2, "sequential", relative_error=0.4, registered_relative_error=0.8, tre_mm=0.4, status="diverged"
        ),
        row(1, "iterative", relative_error=0.1, tre_mm=1.0),
        row(2, "iterative", relative_error=0.3, tre_mm=0.9, folded=7),
        row(1, "simultaneous", relative_error=0.05, tre_mm=0.2, applications=100, seconds=1.0),
        row(2, "simultaneous", relative_error=0.15, tre_mm=0.4, applications=300, seconds=2.0),
        row(1, "known-motion", relative_error=0.05, tre_mm=0.0),
        row(2, "known-motion", relative_error=0.05, tre_mm=0.0, start_tre_mm=4.0),
    ]
    # The start belongs to the case, whatever the method.
    rows = [one | {"start_tre_mm": 6.0 if one["case"] == 1 else 4.0} for one in rows]
    return read_table(write_table(tmp_path, table(METHODS, rows)))


def test_means_spreads_and_worst(two_cases: Table) -> None:
    one, _, three, oracle = summary(two_cases)
    assert one.relative_error.mean == pytest.approx(0.3)
    assert one.relative_error.std == pytest.approx(math.sqrt(0.02))
    assert one.relative_error.worst == 0.4
    assert one.registered_relative_error is not None
    assert one.registered_relative_error.mean == pytest.approx(0.7)
    assert three.registered_relative_error is None
    assert (three.tre_mm.mean, three.tre_mm.worst) == (pytest.approx(0.3), 0.4)
    assert (three.applications, three.seconds) == (200.0, 1.5)
    assert oracle.method.family == "known motion"
    start = start_mm(two_cases)
    assert (start.mean, start.worst) == (5.0, 6.0)


def test_entries_split_by_unit(two_cases: Table) -> None:
    one, two, *_ = summary(two_cases)
    assert (one.matrix, one.translation_mm) == (2.0, 20.0)
    assert (two.matrix, two.translation_mm) == (None, None)


def test_a_motion_is_found_below_a_millimetre_and_below_the_start(tmp_path: Path) -> None:
    rows = [row(case, "a", tre_mm=tre, start_tre_mm=start) for case, tre, start in _found_or_not()]
    read = read_table(write_table(tmp_path, table([method("a", "iterative")], rows)))
    assert summary(read)[0].n_found == 1


def _found_or_not() -> list[tuple[int, float, float]]:
    return [(1, 0.99, 6.0), (2, 1.0, 6.0), (3, 0.9, 0.8)]


def test_a_single_case_has_no_deviation_and_no_worst(tmp_path: Path) -> None:
    read = read_table(write_table(tmp_path, table([method("a", "iterative")], [row(1, "a")])))
    assert summary(read)[0].relative_error.std is None
    assert table_lines(read)[0] == ["method", "relative error", "TRE, mm", "found", "applications", "seconds"]


def test_a_lost_run_makes_the_mean_infinite(tmp_path: Path) -> None:
    rows = [row(1, "a"), row(2, "a", relative_error=math.nan)]
    read = read_table(write_table(tmp_path, table([method("a", "iterative")], rows)))
    assert summary(read)[0].relative_error.mean == math.inf
    assert table_lines(read)[-1][1] == "inf"


def test_lines_are_the_numbers(two_cases: Table) -> None:
    header, start, first, *_, last = table_lines(two_cases)
    assert len({len(one) for one in table_lines(two_cases)}) == 1
    assert dict(zip(header, start, strict=True))["TRE, mm"] == "5.00 ± 1.41"
    assert dict(zip(header, first, strict=True)) == {
        "method": "sequential",
        "relative error": "0.300 ± 0.141",
        "worst": "0.400",
        "of the registered visit 2": "0.700 ± 0.141",
        "TRE, mm": "1.20 ± 1.13",
        "worst TRE, mm": "2.00",
        "matrix entries": "2.00",
        "translations, mm": "20.0",
        "found": "1 of 2",
        "applications": "100",
        "seconds": "2.00",
    }
    # What is told is not found.
    assert last[:2] == ["known motion", "0.0500 ± 0.0000"]
    assert set(last[4:9]) == {"-"}


def test_ratios_are_of_means_with_both_volumes(two_cases: Table) -> None:
    found = {one.better: one for one in ratios(two_cases)}
    assert list(found) == ["iterative", "simultaneous", "known-motion"]
    assert found["iterative"].reference == pytest.approx(0.3 / 0.2)
    assert found["simultaneous"].reference == pytest.approx(3.0)
    assert found["simultaneous"].registered == pytest.approx(7.0)
    assert found["known-motion"].registered == pytest.approx(14.0)
    # The paper compares with the simultaneous method only.
    assert [one.published for one in found.values()] == [None, 31.0, None]
    assert ratio_lines(two_cases)[2] == ["sequential / simultaneous", "3.00", "7.00", "31.0"]


def test_ratios_compare_the_cases_that_both_ran(tmp_path: Path) -> None:
    rows = [
        row(1, "sequential", relative_error=0.2, registered_relative_error=0.4),
        row(2, "sequential", relative_error=9.0),
        row(1, "simultaneous", relative_error=0.1),
        row(3, "simultaneous", relative_error=7.0),
    ]
    (ratio,) = ratios(read_table(write_table(tmp_path, table(METHODS, rows))))
    assert (ratio.reference, ratio.registered) == (pytest.approx(2.0), pytest.approx(4.0))


def test_no_error_at_all_is_infinitely_better(tmp_path: Path) -> None:
    rows = [row(1, "sequential"), row(1, "simultaneous", relative_error=0.0)]
    (ratio,) = ratios(read_table(write_table(tmp_path, table(METHODS, rows))))
    assert ratio.reference == math.inf


def test_models_are_compared_among_themselves_and_share_the_known_motion(tmp_path: Path) -> None:
    families = ("sequential", "simultaneous")
    methods = [method(f"{f}-{m}", f) for m in ("affine", "bspline") for f in families]
    methods += [method("known-motion", "known motion")]
    methods += [method(f"plain-{f}", f, "paper") for f in families]
    rows = [row(1, one["name"], relative_error=0.1 + n) for n, one in enumerate(methods)]
    read = read_table(write_table(tmp_path, table(methods, rows)))
    assert [(origin, model, [one.name for one in some]) for origin, model, some in groups(read)] == [
        ("ours", "affine", ["sequential-affine", "simultaneous-affine", "known-motion"]),
        ("ours", "bspline", ["sequential-bspline", "simultaneous-bspline", "known-motion"]),
        ("paper", "", ["plain-sequential", "plain-simultaneous"]),
    ]
    assert [(one.sequential, one.better) for one in ratios(read)] == [
        ("sequential-affine", "simultaneous-affine"),
        ("sequential-affine", "known-motion"),
        ("sequential-bspline", "simultaneous-bspline"),
        ("sequential-bspline", "known-motion"),
        ("plain-sequential", "plain-simultaneous"),
        ("plain-sequential", "simultaneous-affine"),
        ("plain-sequential", "simultaneous-bspline"),
    ]
    assert [(one.origin, one.model) for one in orderings(read)] == [
        ("ours", "affine"),
        ("ours", "bspline"),
        ("paper", ""),
    ]


@pytest.mark.parametrize(
    ("errors", "registered", "holds", "holds_registered"),
    [
        ((0.3, 0.2, 0.1), 0.4, True, True),
        ((0.15, 0.2, 0.1), 0.4, False, True),
        ((0.3, 0.1, 0.2), 0.4, False, False),
        ((0.3, 0.2, 0.1), None, True, None),
    ],
)
def test_orderings(
    tmp_path: Path,
    errors: tuple[float, ...],
    registered: float | None,
    holds: bool,
    holds_registered: bool | None,
) -> None:
    names = ("sequential", "iterative", "simultaneous")
    rows = [row(1, name, relative_error=error) for name, error in zip(names, errors, strict=True)]
    rows[0]["registered_relative_error"] = registered
    (one,) = orderings(read_table(write_table(tmp_path, table(METHODS, rows))))
    assert one.families == ("simultaneous", "iterative", "sequential")
    assert (one.holds, one.holds_registered) == (holds, holds_registered)


def test_ways_of_one_family_have_no_ordering_and_no_ratio(tmp_path: Path) -> None:
    methods = [method(f"split-{n}-{n}", "simultaneous", "paper") for n in (1, 5)]
    read = read_table(write_table(tmp_path, table(methods, [row(1, one["name"]) for one in methods])))
    assert orderings(read) == ratios(read) == ()
    assert len(ratio_lines(read)) == 1


def test_remarks_tell_the_paper_the_ratios_and_the_trouble(two_cases: Table) -> None:
    found = remarks(two_cases)
    assert found[:3] == [
        "The paper's relative error: sequential 0.00570, simultaneous 0.000200.",
        "The paper's MSE, in units of its images: sequential 7460.",
        "The paper contradicts itself.",
    ]
    assert (
        "sequential / simultaneous: 3.00 with visit 1 alone, 7.00 with registered visit 2; the paper: 31.0."
        in found
    )
    ordering = "simultaneous < iterative < sequential for our methods: holds with visit 1 alone"
    assert f"{ordering}, holds with registered visit 2." in found
    assert "Case 2, sequential: diverged. Done." in found
    assert found[-1] == "Motions that fold somewhere: iterative (1 of 2 cases)."
    assert not any("3.00" in line for line in outcomes(two_cases))


def test_what_has_not_run_is_said(tmp_path: Path) -> None:
    rows = [row(1, "a"), row(2, "a"), row(1, "b")]
    methods = [method("a", "sequential"), method("b", "iterative")]
    read = read_table(write_table(tmp_path, table(methods, rows, n_cases=5)))
    assert (read.n_whole, read.n_run, read.n_cases) == (1, 2, 5)
    assert "Not finished: 1 of 5 cases ran with all methods (a 2, b 1)." in remarks(read)[0]
    whole = read_table(write_table(tmp_path, table(methods, [*rows, row(2, "b")])))
    assert unfinished(whole) == []


def test_an_experiment_that_the_paper_has_no_numbers_for(tmp_path: Path) -> None:
    read = read_table(write_table(tmp_path, table(METHODS, [row(1, "iterative")], paper=None)))
    assert published(read) == outcomes(read) == []


def test_what_a_later_duotomo_adds_is_passed_over(tmp_path: Path) -> None:
    rows = [row(1, "iterative", colour="green")]
    assert read_table(write_table(tmp_path, table(METHODS, rows, mood="good"))).rows[0].case == 1


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DuotomoError, match=r"read_table: expected an experiment's table at .*got nothing there"
    ):
        read_table(tmp_path)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no rows": (table(METHODS, []), "no rows"),
    "not an object": ({}, "no 'methods'"),
    "strange method": (table(METHODS, [row(1, "magic")]), r"rows of \['magic'\], which are not among"),
    "twice": (table(METHODS, [row(1, "iterative")] * 2), "two rows of one method on one case"),
    "same names": (table([METHODS[0]] * 2, [row(1, "sequential")]), "methods of the same name"),
    "family": (table([method("a", "magic")], [row(1, "a")]), "the method 'a' of family 'magic'"),
    "entries": (table(METHODS, [row(1, "iterative", entries=[1.0])]), "1 entries of case 1, not 12"),
    "no number": (
        table(METHODS, [row(1, "iterative", tre_mm="far")]),
        "tre_mm 'far' of case 1, which is no number",
    ),
    "no TRE": (
        table(METHODS, [row(1, "iterative", tre_mm=None)]),
        "tre_mm None of case 1, which is no number",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_tables_are_refused(tmp_path: Path, name: str) -> None:
    content, match = BAD[name]
    with pytest.raises(DuotomoError, match=f"as `reproduce` wrote it; got: .*{match}.*Run it again"):
        read_table(write_table(tmp_path, content))


def test_a_torn_table_is_refused(tmp_path: Path) -> None:
    whole = json.dumps(table(METHODS, [row(1, "iterative")]))
    (tmp_path / "table.json").write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(DuotomoError, match=r"as `reproduce` wrote it; got: .*Run it again"):
        read_table(tmp_path)


def test_tables_of_version_1_are_read(tmp_path: Path) -> None:
    content = table(METHODS, [row(1, one["name"]) for one in METHODS])
    now = read_table(write_table(tmp_path / "now", content))
    older = {
        **{name: value for name, value in content.items() if name not in ("methods", "version")},
        "ways": [{**one, "whose": one["origin"], "settings": "Settings()"} for one in METHODS],
        "rows": [{**one, "way": one["method"]} for one in content["rows"]],
    }
    for one in older["ways"]:
        del one["origin"]
    for one in older["rows"]:
        del one["method"]
    assert read_table(write_table(tmp_path / "older", older)) == now
