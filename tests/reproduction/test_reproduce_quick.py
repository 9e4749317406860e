"""Every experiment, reduced in size, from the command line to its table and its figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from duotomo.cli import main
from duotomo.reproduction import EXPERIMENTS, DataLevel, Experiment, Plan
from duotomo.reproduction.runner import folder_of
from duotomo.reproduction.table import read_table

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DUOTOMO_DATA", ROOT.parent / "shared" / "data"))


FOLDERS = {"breast-mr": "breast_mr"}
"""What an experiment needs of the data at the level real, where it is not the compressed phantom."""


def planned(experiment: Experiment, level: DataLevel) -> object:
    missing = level is DataLevel.REAL and not (DATA / FOLDERS.get(experiment.name, "victre_phantom")).is_dir()
    skip = pytest.mark.skipif(missing, reason=f"needs third-party data in {DATA}; set DUOTOMO_DATA to it")
    return pytest.param(experiment, level, id=f"{experiment.name}-{level.value}", marks=skip)


@pytest.mark.parametrize(
    ("experiment", "level"),
    [planned(experiment, level) for experiment in EXPERIMENTS.values() for level in experiment.levels],
)
def test_an_experiment_runs_at_a_reduced_size(
    experiment: Experiment, level: DataLevel, tmp_path: Path
) -> None:
    plan = Plan(level=level, quick=True, data=DATA if level is DataLevel.REAL else None)
    options = ["--level", level.value, "--quick", "--out", str(tmp_path)]
    options += ["--data", str(DATA)] if level is DataLevel.REAL else []
    result = CliRunner().invoke(main, ["reproduce", experiment.name, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output

    folder, set_up = folder_of(tmp_path, experiment, plan), experiment.set_up(plan)
    table = read_table(folder)
    expected = [(case, method.name) for case in range(1, set_up.n_cases + 1) for method in set_up.methods]
    assert [(row.case, row.method) for row in table.rows] == expected
    assert all(row.status != "diverged" for row in table.rows)
    for method in table.methods:
        if method.family == "simultaneous" and method.origin == "ours":
            for row in table.of(method).values():
                assert row.tre_mm < row.start_tre_mm
    figures = {path.name for path in (folder / "figures").iterdir()}
    # Some have a suffix: of a visit, of a model, or for the paper's algorithms.
    assert {"phantom", "projections", "results"} <= {name.split(".")[0].split("-")[0] for name in figures}
    assert all((folder / "figures" / name).stat().st_size > 1000 for name in figures)
