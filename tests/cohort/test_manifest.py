"""Manifests are read as they were meant, and whatever is wrong with one is named by row and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from duotomo.cohort import Case, Command, read_manifest
from duotomo.errors import DuotomoError
from duotomo.io import FileError

HEAD = "case,current,prior"


def manifest(folder: Path, text: str, name: str = "women.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_and_toml_say_the_same(tmp_path: Path) -> None:
    text = """
        [options]
        thickness = "52,48"
        [[case]]
        case = "a"
        current = "x.dcm"
        prior = "sub/y.dcm"
        visit_3 = "z.dcm"
        command = "change"
        [[case]]
        case = "b"
        current = "x.dcm"
        prior = "y.dcm"
        format = ["mha", "nrrd"]
    """
    rows = [
        f"{HEAD},visit 3,Command,thickness,format",
        'a,x.dcm,sub/y.dcm,z.dcm,change,"52,48",',
        'b,x.dcm,y.dcm,,,"52,48",mha|nrrd',
    ]
    one = read_manifest(manifest(tmp_path, "\n".join(rows)))
    two = read_manifest(manifest(tmp_path, text, "women.toml"))
    for a, b in zip(one, two, strict=True):
        assert (a.name, a.visits, a.command, dict(a.options)) == (
            b.name,
            b.visits,
            b.command,
            dict(b.options),
        )
    assert one[0].visits[1] == tmp_path / "sub" / "y.dcm"
    assert one[0].command is Command.CHANGE
    assert one[1].options["format"] == ("mha", "nrrd")
    assert [case.where for case in one] == ["row 2", "row 3"]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_spreadsheets_have_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    text = f"\ufeff{HEAD},thickness\na,x.dcm,y.dcm,52\n\n".replace(",", delimiter)
    (case,) = read_manifest(manifest(tmp_path, text))
    assert case.options == {"thickness": "52"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case,prior\na,x.dcm\n", "row 1: expected a column current; got case, prior"),
        (f"{HEAD},case\n", "row 1: expected each column once; got 'case' twice"),
        (f"{HEAD},\na,x,y,\n", "row 1, column 4: expected a name; got none"),
        (f"{HEAD}\na,x,y,z\n", "row 2: expected 3 cells; got 4"),
        (f"{HEAD}\n,x,y\n", "row 2, column case: expected a value; got none"),
        (f"{HEAD}\na,,y\n", "row 2, column current: expected a value; got none"),
        (f"{HEAD},visit_3\na,x,,z\n", "row 2, column prior: expected a scan, as a later visit has"),
        (f"{HEAD}\na,x,y\nA,x,z\n", "row 3, column case: expected a name of its own; got that of row 2"),
        (f"{HEAD}\n../a,x,y\n", "row 2, column case: expected a name of at most 100 letters"),
        (f"{HEAD}\na,../x,y\n", "row 2, column current: expected a path in .*; got '../x', which leaves it"),
        (f"{HEAD}\na,x,/etc/passwd\n", "row 2, column prior: expected a path in .*which leaves it"),
        (f"{HEAD},command\na,x,y,dance\n", "row 2, column command: expected joint or change; got 'dance'"),
        (f"{HEAD},out\na,x,y,z\n", "row 2: expected options of one case; got out, which the cohort gives"),
        (f"{HEAD}\n", "expected at least one case; got none"),
        (f'{HEAD}\na,"x,y\n', "expected CSV in .*; got: unexpected end of data"),
    ],
)
def test_what_is_wrong_is_named_by_row_and_column(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FileError, match=said):
        read_manifest(manifest(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[case]\n", "expected TOML in "),
        ("[more]\na = 1\n", r"table more: expected \[options\] and \[\[case\]\]"),
        ("case = 1\n", "no list of tables"),
        ("case = [1]\n", "case 1: expected a table"),
        ("[[case]]\ncase = 'a'\ncurrent = 3\n", "case 1, column current: expected a path; got '3'"),
        ("[[case]]\ncase = 'a'\ncurrent = 'x'\nthickness = {a = 1}\n", "column thickness: expected a number"),
    ],
)
def test_what_is_wrong_with_toml_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FileError, match=said):
        read_manifest(manifest(tmp_path, text, "women.toml"))


def test_all_faults_are_said_at_once(tmp_path: Path) -> None:
    rows = "\n".join(f"{'a' if n % 2 else ''},x,y" for n in range(60))
    with pytest.raises(FileError, match=r"got 59 problems in .*(?s:.*)and 39 more(?s:.*)nothing was started"):
        read_manifest(manifest(tmp_path, f"{HEAD}\n{rows}\n"))


def test_links_do_not_lead_out_and_a_root_may_be_elsewhere(tmp_path: Path) -> None:
    scans, lists = tmp_path / "scans", tmp_path / "lists"
    scans.mkdir()
    lists.mkdir()
    (lists / "x").symlink_to(scans / "x")
    path = manifest(lists, f"{HEAD}\na,x,{scans / 'y'}\n")
    with pytest.raises(FileError, match=r"column current: expected a path in .*which leaves it"):
        read_manifest(path)
    (case,) = read_manifest(path, root=tmp_path / "scans")
    assert case.visits == (scans / "x", scans / "y")
    with pytest.raises(FileError, match=r"expected a folder at .*; got none. Check `root`"):
        read_manifest(path, root=tmp_path / "none")


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected a name that ends in \.csv, \.toml"):
        read_manifest(manifest(tmp_path, "", "women.xlsx"))
    with pytest.raises(FileError, match="expected a file at"):
        read_manifest(tmp_path / "none.csv")


def test_a_case_has_scans() -> None:
    with pytest.raises(DuotomoError, match="expected at least one scan or study in `visits`; got none"):
        Case(name="a", visits=())
