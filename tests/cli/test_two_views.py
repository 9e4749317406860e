"""`duotomo joint --roll`: two views of one breast, whose compressions lead from one to the other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from duotomo import methods
from duotomo.cli import main
from duotomo.cli._errors import translated
from duotomo.cli._transform import parse_control_mm
from duotomo.cli.joint import Estimation
from duotomo.geometry import VolumeGrid
from duotomo.io import Allowed, read_result
from duotomo.mechanics import BetweenViews, between_views
from duotomo.methods import Quality
from duotomo.methods.remedies import OF_TWO_VIEWS, REMEDIES, remedy_of
from duotomo.transforms.compressions import Compressions
from duotomo.transforms.recompression import Recompression
from tests.cases.transforms import compressions
from tests.cli.commands import NOT_TRUSTED


def joint(*options: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["joint", *map(str, options)], catch_exceptions=False)
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def without_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let modes do what random numbers say: nothing is computed by finite elements."""

    def computed(model: BetweenViews, grid: VolumeGrid) -> Compressions:
        return compressions(grid, expected_mm=0.5)

    monkeypatch.setattr(between_views, "_computed", computed)
    monkeypatch.setattr("duotomo.methods.two_views.radii_at_rest_mm", lambda held, seen: (20.0, 30.0, 20.0))


@pytest.mark.usefixtures("without_elements")
def test_two_views_become_a_result_folder(study_path: Path, tmp_path: Path) -> None:
    code, output = joint(study_path, "--roll", 5, "--steps", 3, "--no-uncertainty", "--out", tmp_path)
    assert code == NOT_TRUSTED, output
    assert "Compressions in both views are computed by finite elements first" in output
    assert "recompression at" in output
    assert "recompression+bspline:22mm at" in output
    saved = read_result(tmp_path)
    assert saved.settings["settings"]["stages"][0]["model"]["transform"] == "recompression"
    # What is read back leads to the same places, whatever it is called in the file.
    grid = saved.grid
    transform = Recompression(grid, compressions(grid, expected_mm=0.5))
    start = transform.points(transform.identity(), torch.tensor([[0.0, 20.0, 25.0]]))
    assert float((saved.motions[0].points(torch.tensor([[0.0, 20.0, 25.0]])) - start).norm()) < 8


@pytest.mark.usefixtures("without_elements")
def test_modes_may_be_asked_for_alone(study_path: Path, tmp_path: Path) -> None:
    words = ["--roll", -5, "--transform", "recompression", "--steps", 1, "--no-uncertainty"]
    code, output = joint(study_path, *words, "--out", tmp_path)
    assert code == NOT_TRUSTED, output
    assert "bspline" not in output
    stages = read_result(tmp_path).settings["settings"]["stages"]
    assert stages[0]["model"]["moving"]["roll_deg"] == -5
    assert stages[0]["model"]["control_mm"] is None


@pytest.mark.parametrize("name", ["folding", "explained rays"])
def test_remedies_of_two_views_name_what_the_command_takes(name: str) -> None:
    options = {"transform": "--transform", "roll": "--roll", "thickness": "--thickness"}
    said = translated(remedy_of(name, two_views=True), options)
    assert "`" not in said
    assert "--roll" in said
    assert "--thickness" in said
    transforms = re.findall(r"--transform ([\w+:]+)", said)
    assert transforms
    for transform in transforms:
        Estimation(transform=transform, roll=45.0).may_be_views(2, Allowed(), change=False)
        parse_control_mm(transform)


def test_two_views_differ_in_these_remedies_alone() -> None:
    assert set(OF_TWO_VIEWS) < set(REMEDIES)
    assert remedy_of("depth", two_views=True) == remedy_of("depth") == ""
    assert remedy_of("convergence", two_views=True) == REMEDIES["convergence"]


@pytest.mark.usefixtures("without_elements")
def test_a_run_of_two_views_advises_what_it_takes(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = methods.quality_of

    def folding(*given: Any) -> Quality:
        return replace(found(*given), folded_voxels=(5,))

    monkeypatch.setattr(methods, "quality_of", folding)
    code, output = joint(study_path, "--roll", 5, "--steps", 1, "--no-uncertainty", "--out", tmp_path)
    assert code == NOT_TRUSTED, output
    assert "folds in 5 voxels" in output
    assert "--transform recompression+bspline:40mm" in output
    assert "--transform bspline" not in output
    # The checks that are said, those of trust and those on the page are of one mind.
    quality = read_result(tmp_path).quality
    said = {row["remedy"] for row in quality["checks"] if "folds" in row["words"]}
    said |= {row["remedy"] for row in quality["trust"]["checks"] if row["name"] == "folding"}
    assert len(said) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--transform", "recompression"),
            "got no View Code Sequence (0054,0220) in visit 1. Give --roll 45",
        ),
        (("--roll", 45, "--transform", "affine"), "expected --transform recompression, or none, with --roll"),
        (("--roll", 45, "--method", "iterative"), "expected --method simultaneous, without --plain"),
        (("--roll", 45, "--plain"), "expected --method simultaneous, without --plain"),
        (
            ("--roll", 45, "--transform", "recompression+affine"),
            "expected recompression alone or with control points by their distance",
        ),
    ],
)
def test_what_does_not_suit_two_views_is_refused(
    study_path: Path, tmp_path: Path, words: tuple[object, ...], said: str
) -> None:
    code, output = joint(study_path, *words, "--out", tmp_path)
    assert code == 2
    assert said in output
