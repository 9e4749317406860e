"""The command says what it cannot do before it begins, and goes on where it stopped."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from duotomo import reproduction
from duotomo.cli import main
from duotomo.io.durable import locked
from duotomo.reproduction import ComparedMethod, DataLevel, Experiment, Plan
from duotomo.reproduction.compared_method import oracle, staged_methods
from duotomo.reproduction.experiment import SetUp
from duotomo.reproduction.fda_table import read_fda
from duotomo.reproduction.summary import table_lines
from duotomo.reproduction.table import read_table
from duotomo.reproduction.third_party.fda import FILE
from duotomo.transforms import Affine
from tests.reproduction.tiny import GRID, PAPER, Counted, tiny_case

DATA = Path(os.environ.get("DUOTOMO_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def run(*options: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["reproduce", *map(str, options)], catch_exceptions=False)
    return result.exit_code, result.output


def short(method: ComparedMethod) -> ComparedMethod:
    """Return a method of two stages of three steps."""
    stages = tuple(replace(stage, n_steps=3) for stage in method.settings.stages[-2:])
    return replace(method, settings=replace(method.settings, stages=stages))


def real_methods(plan: Plan) -> SetUp:
    sequential, _, simultaneous = staged_methods(plan, GRID, Affine)
    return SetUp(
        about={"grid": repr(GRID)},
        n_cases=2,
        make=lambda number: tiny_case(number, seed=None if plan.level is DataLevel.AS_PUBLISHED else number),
        shown=1,
        methods=tuple(map(short, (sequential, simultaneous, oracle(plan, GRID, Affine)))),
    )


TINY = Experiment(
    name="tiny",
    title="A tiny ring",
    paper=PAPER,
    levels=(DataLevel.AS_PUBLISHED, DataLevel.HONEST),
    at=real_methods,
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "EXPERIMENTS", {"tiny": TINY})


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(reproduction, "EXPERIMENTS", {"tiny": made.experiment})
    return made


@pytest.mark.usefixtures("tiny")
def test_an_experiment_becomes_a_table_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "[bold]out"
    code, output = run("tiny", "--level", "honest", "--out", out)
    assert code == 0, output
    folder = out / "tiny" / "honest"
    table = read_table(folder)
    assert [(row.case, row.method) for row in table.rows] == [
        (case, method) for case in (1, 2) for method in ("sequential", "simultaneous", "known-motion")
    ]
    assert "A tiny ring (honest)" in output
    assert output.count("finished before") == 0
    assert output.index("case 2, known motion: relative error") < output.index("before registration")
    assert "The paper's relative error: sequential 0.00570." in output
    # Nothing is cut, and no line of the table is wider than the window.
    header, *body = table_lines(table)
    printed = output[output.index("case 2, known motion: relative error") :].splitlines()
    cells = [cell for line in printed for cell in re.split(r"\s{2,}", line.strip())]
    assert {cell for row in (header, *body) for cell in row} <= set(cells)
    last = max(number for number, line in enumerate(printed) if line.startswith("known motion"))
    assert max(map(len, printed[1 : last + 1])) <= 80
    figures = sorted((folder / "figures").iterdir())
    assert f"Wrote {folder / 'table.json'} and {len(figures)} figures in {folder / 'figures'}" in output
    assert {"phantom-visit-1.png", "projections.png", "results.png"} <= {path.name for path in figures}

    stamp = (folder / "case_01" / "simultaneous.json").stat().st_mtime_ns
    code, output = run("tiny", "--level", "honest", "--out", out, "--no-figures")
    assert code == 0, output
    assert output.count("finished before") == 6
    assert "figures in" not in output
    assert (folder / "case_01" / "simultaneous.json").stat().st_mtime_ns == stamp


def test_all_levels_run_unless_one_is_named(counted: Counted, tmp_path: Path) -> None:
    code, output = run("all", "--out", tmp_path, "--no-figures", "--quick")
    assert code == 0, output
    assert "A tiny ring (as-published, quick)" in output
    assert "A tiny ring (honest, quick)" in output
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == [
        "as-published-quick",
        "honest-quick",
    ]
    assert len(counted.calls) == 8


def test_all_experiments_leave_out_levels_that_they_have_not(counted: Counted, tmp_path: Path) -> None:
    code, output = run(
        "all", "--level", "real", "--data", tmp_path, "--out", tmp_path, "--methods", "simultaneous"
    )
    assert code == 0, output
    assert counted.calls == []


def test_the_work_can_be_shared(counted: Counted, tmp_path: Path) -> None:
    options = ("tiny", "--level", "honest", "--out", tmp_path)
    code, output = run(*options, "--cases", "2-2,1", "--methods", "simultaneous")
    assert code == 0, output
    assert counted.calls == [("simultaneous", 2), ("simultaneous", 1)]
    assert "The table and the figures come from the same command without --cases and --methods." in output
    assert not (tmp_path / "tiny" / "honest" / "table.json").exists()


def test_a_stopped_run_says_that_it_can_be_gone_on_with(counted: Counted, tmp_path: Path) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    counted.hooks["simultaneous"] = stop
    options = ("tiny", "--level", "honest", "--out", tmp_path, "--no-figures")
    code, output = run(*options)
    assert code == 130
    assert "Stopped." in output
    assert "What is finished is kept; the same command goes on from there." in output
    del counted.hooks["simultaneous"]
    code, output = run(*options)
    assert code == 0, output
    assert output.count("finished before") == 1


def test_an_out_that_is_a_file_is_said(counted: Counted, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("A letter.", encoding="utf-8")
    code, output = run("tiny", "--level", "honest", "--out", taken)
    assert code == 2
    assert f"expected to make the folder {taken / 'tiny' / 'honest' / 'case_01'}; got: " in output
    assert "Choose another place, one that is a folder" in output
    assert taken.read_text(encoding="utf-8") == "A letter."
    assert counted.made == []


def test_two_runs_do_not_share_a_case(counted: Counted, tmp_path: Path) -> None:
    home = tmp_path / "tiny" / "honest" / "case_01"
    home.mkdir(parents=True)
    with locked("another", home):
        code, output = run("tiny", "--level", "honest", "--out", tmp_path)
    assert code == 2
    assert "got another run that writes there" in output
    assert counted.calls == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("toroid",), "expected one of the experiments toroid-iterative, toroid-simultaneous"),
        (("breast-mr", "--level", "real"), "breast-mr: expected a folder with third-party data"),
        (("breast-mr", "--level", "real", "--data", "nowhere"), "expected a folder at --data nowhere"),
        (("inner-outer", "--level", "honest", "--cases", "one"), "expected --cases such as 1,4-6; got 'one'"),
        (("inner-outer", "--level", "honest", "--cases", "1,"), "expected --cases such as 1,4-6; got '1,'"),
        (("inner-outer", "--level", "honest", "--cases", "3-1"), "expected --cases such as 1,4-6; got '3-1'"),
        (("inner-outer", "--level", "honest", "--cases", ""), "expected --cases such as 1,4-6; got ''"),
        (("inner-outer", "--level", "honest", "--cases", "2"), "expected --cases from 1 to 1; got 2"),
        (("inner-outer", "--level", "honest", "--methods", "best"), "expected --methods among split-1-1"),
        (("fda-projections",), "fda-projections: expected a folder with third-party data"),
        (("fda-projections", "--level", "honest"), "fda-projections: expected the level real, without"),
        (("fda-projections", "--methods", "sart"), "fda-projections: expected the level real, without"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    code, output = run(*options, "--out", tmp_path / "new")
    assert code == 2
    assert message in output
    assert not (tmp_path / "new").exists()


def test_all_levels_are_checked_before_the_first_one_runs(counted: Counted, tmp_path: Path) -> None:
    code, output = run("tiny", "--level", "honest", "--level", "real", "--data", tmp_path, "--out", tmp_path)
    assert code == 2
    assert "tiny: expected one of the levels as-published, honest; got real" in output
    assert counted.made == []


def test_an_unknown_level_is_refused_with_those_there_are(tmp_path: Path) -> None:
    code, output = run("inner-outer", "--level", "ideal", "--out", tmp_path / "new")
    assert code == 2
    assert "ideal" in output
    assert "honest" in output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "file", "origin"),
    [
        ("breast-mr", "breast_mr/A_69b91dc2_dyn_t0_pre.nii.gz", "github.com/MIMBCD-UI"),
        ("compressed-pair", "victre_phantom/pc_1_crop.mha", "github.com/DIDSR/VICTRE_PIPELINE"),
        ("fda-projections", "fda_dbt_projections/g_noi.mat", "github.com/DIDSR/ReconDBT"),
    ],
)
def test_missing_data_are_named_with_their_place_and_origin(
    name: str, file: str, origin: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    code, output = run(name, "--level", "real", "--quick", "--data", data, "--out", tmp_path / "new")
    assert code == 2
    assert f"expected the file {file}; got none: there is no folder {data / file.split('/')[0]}" in output
    assert f"Get it from {origin}" in output
    assert "licence:" in output


def test_a_missing_library_is_missed_before_the_run(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    code, output = run("tiny", "--out", tmp_path)
    assert code == 2
    assert "expected SimpleITK to be installed" in output
    assert counted.made == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_missing_cuda_is_said_not_replaced(counted: Counted, tmp_path: Path) -> None:
    code, output = run("tiny", "--out", tmp_path, "--device", "cuda")
    assert code == 2
    assert "expected a CUDA device for --device cuda; got: no CUDA device is available here. Use" in output
    assert counted.calls == []


@pytest.mark.skipif(not (DATA / FILE).exists(), reason=f"needs {FILE} in {DATA}; set DUOTOMO_DATA")
@pytest.mark.usefixtures("counted")
def test_projections_of_others_come_with_all_where_there_are_data(tmp_path: Path) -> None:
    options = ("all", "--level", "real", "--quick", "--no-figures", "--data", DATA, "--out", tmp_path)
    code, output = run(*options)
    assert code == 0, output
    assert "SART: " in output
    assert "total variation  " in output
    assert len(read_fda(tmp_path / "fda-projections" / "real-quick").rows) == 6
    code, output = run(*options)
    assert output.count("finished before") == 6


def test_help_lists_the_command() -> None:
    assert "reproduce" in CliRunner().invoke(main, ["--help"]).output
