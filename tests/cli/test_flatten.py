"""The fields of a dataclass are options of a command, and their values come back in an instance of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from duotomo.cli._errors import guarded
from duotomo.cli._flatten import Fields, documented, flattened, numbers, shell_name
from duotomo.errors import DuotomoError

Kind = Enum("Kind", {"ONE_THING": "one thing", "ANOTHER": "another"})


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What is said of a scan.

    Parameters
    ----------
    voxel_mm : tuple of float, optional
        Edges of a voxel,
        in mm.
    angles_deg : tuple of float, optional
        One per view.
    geometry : tuple of Path
        Files, once or
        for each visit.
    kinds : tuple of Kind
        Several of them.
    kind : Kind
        One of them.
    values : Kind, optional
        Another one.
    gap_mm, height_mm : float
        Lengths.
    n_views : int, optional
        Views.
    keep_dead : bool
        Whether to.

    Raises
    ------
    DuotomoError
        Never.
    """

    voxel_mm: tuple[float, float, float] | None = None
    angles_deg: tuple[float, ...] | None = None
    radii_mm: tuple[float, float] = (4.0, 2.5)
    geometry: tuple[Path, ...] = ()
    kinds: tuple[Kind, ...] = ()
    kind: Kind = Kind.ONE_THING
    values: Kind | None = None
    gap_mm: float = field(default=0.0, metadata={"minimum": 0.0, "maximum": 9.0})
    height_mm: float = 1.0
    n_views: int | None = None
    keep_dead: bool = False


@dataclass(frozen=True, kw_only=True)
class Told:
    """With options of its own."""

    out: Annotated[Path, typer.Option(help="A folder.")]
    as_json: Annotated[bool, typer.Option("--json", "-j", help="As JSON.")] = False


def ran(command: Any, *words: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(guarded(flattened(command)))
    done = CliRunner().invoke(app, list(words), catch_exceptions=False, env={"COLUMNS": "200"})
    return done.exit_code, done.output


def given(*words: str, kind: Any = Scan) -> Any:
    """Return the instance that a command gets."""
    seen = []

    def command(options: kind) -> None:
        seen.append(options)

    command.__annotations__["options"] = kind
    code, output = ran(command, *words)
    assert code == 0, output
    return seen[0]


def test_what_is_not_given_is_as_the_class_has_it() -> None:
    assert given() == Scan()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--voxel", "1,0.1,0.2"), Scan(voxel_mm=(1.0, 0.1, 0.2))),
        (("--angles=-25,0,25",), Scan(angles_deg=(-25.0, 0.0, 25.0))),
        (("--geometry", "a", "--geometry", "b"), Scan(geometry=(Path("a"), Path("b")))),
        (("--kinds", "one-thing", "--kinds", "another"), Scan(kinds=(Kind.ONE_THING, Kind.ANOTHER))),
        (("--kind", "another", "--values", "one-thing"), Scan(kind=Kind.ANOTHER, values=Kind.ONE_THING)),
        (("--gap", "3", "--keep-dead", "--views", "5"), Scan(gap_mm=3.0, keep_dead=True, n_views=5)),
        (("--radii", "1,2"), Scan(radii_mm=(1.0, 2.0))),
    ],
)
def test_options_become_fields(words: tuple[str, ...], expected: Scan) -> None:
    assert given(*words) == expected


def test_options_of_their_own_and_required_ones() -> None:
    assert given("--out", "x", "-j", kind=Told) == Told(out=Path("x"), as_json=True)
    code, output = ran(flattened, "--out", "x")
    assert code == 2

    def command(told: Told) -> None: ...

    command.__annotations__["told"] = Told
    code, output = ran(command)
    assert code == 2
    assert "--out" in output


def test_help_is_in_the_docstring() -> None:
    def command(options: Scan) -> None: ...

    command.__annotations__["options"] = Annotated[
        Scan, Fields(panels={"voxel_mm": "First", "kind": "Second"})
    ]
    _, output = ran(command, "--help")
    for words in ("Edges of a voxel, in mm.", "Files, once or for each visit.", "4,2.5", "one-thing|another"):
        assert words in output
    first, second = output.split("Second")
    assert "First" in first
    assert "--geometry" in first
    assert "--gap" in second
    assert "no-keep-dead" not in output
    code, output = ran(command, "--gap", "10")
    assert code == 2
    assert "--gap" in output


def test_only_some_fields_are_options() -> None:
    few = Annotated[Scan, Fields(only=("gap_mm",))]
    assert given("--gap", "2", kind=few) == Scan(gap_mm=2.0)

    def command(options: Scan) -> None: ...

    command.__annotations__["options"] = few
    assert ran(command, "--voxel", "1,1,1")[0] == 2


@pytest.mark.parametrize(
    ("text", "n", "message"),
    [
        (
            "1,2",
            3,
            r"expected 3 numbers, with commas between them, for --voxel; got '1,2'. Write .* --voxel 1,1,1",
        ),
        ("a", None, "expected numbers, with commas between them, for --voxel; got 'a'"),
        ("nan", None, "for --voxel; got 'nan'"),
        ("", None, "for --voxel; got ''"),
    ],
)
def test_texts_that_are_no_numbers_are_explained(text: str, n: int | None, message: str) -> None:
    with pytest.raises(DuotomoError, match=message):
        numbers(text, "--voxel", n=n)


def test_names_on_the_shell_have_no_units() -> None:
    names = ("voxel_mm", "roll_deg", "max_memory_gb", "n_views", "photons_per_mm2", "steps")
    assert [shell_name(name) for name in names] == [
        "voxel",
        "roll",
        "max_memory",
        "views",
        "photons",
        "steps",
    ]


def test_docstrings_without_parameters_say_nothing() -> None:
    assert documented(Kind) == {}
    assert documented(Scan)["height_mm"] == "Lengths."
    assert "DuotomoError" not in documented(Scan)


def test_one_number_is_the_same_along_all_axes() -> None:
    assert numbers("3", "--voxel", n=3) == (3.0, 3.0, 3.0)
    assert numbers("0.1", "--pixel-spacing", n=2) == (0.1, 0.1)
    with pytest.raises(DuotomoError, match="expected 3 numbers"):
        numbers("3,1", "--voxel", n=3)
    with pytest.raises(DuotomoError, match="expected 3 numbers, with commas between them, for --shift"):
        numbers("3", "--shift", n=3)
