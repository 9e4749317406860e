"""One scan becomes a volume by each of the ways."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from duotomo.io import read_result
from duotomo.solvers import Status
from tests.cli.commands import duotomo, write_scans
from tests.cli.tiny import GRID


@pytest.mark.parametrize("method", ["tv", "sart", "cgls", "ml-convex", "fbp", "bp"])
def test_every_way_finds_the_ball(study_path: Path, tmp_path: Path, method: str) -> None:
    steps = ("--steps", 20) if method == "tv" else ()
    ran = duotomo("reconstruct", study_path, "--method", method, "--out", tmp_path, "--json", *steps)
    assert ran.code == (3 if method == "tv" else 0), ran.err
    assert ran.json["out"] == str(tmp_path)
    saved = read_result(tmp_path)
    assert saved.method == method
    assert saved.grid == GRID
    assert saved.motions == ()
    assert len(saved.quality["residual_by_view"][0]) == 7
    inside = saved.volume[6:10, 6:9, 6:10].mean()
    outside = saved.volume[:, -2:].mean()
    assert inside > 2 * outside
    assert (tmp_path / "report.html").is_file()


def test_visits_of_a_study_are_chosen(study_path: Path, tmp_path: Path) -> None:
    for visit in (1, 2):
        out = tmp_path / str(visit)
        ran = duotomo("reconstruct", study_path, "--method", "bp", "--visit", visit, "--out", out, "--quiet")
        assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert not torch.equal(read_result(tmp_path / "1").volume, read_result(tmp_path / "2").volume)
    ran = duotomo("reconstruct", study_path, "--visit", 3, "--out", tmp_path / "3")
    assert ran.code == 2
    assert "expected --visit from 1 to 2; got 3" in ran.err


def test_a_scan_with_options_and_settings(tmp_path: Path) -> None:
    scan, _ = write_scans(tmp_path)
    options = ("--voxel", "6,6,6", "--gap", "5", "--method", "sart", "--steps", 2, "--format", "nrrd")
    first = duotomo("reconstruct", scan, *options, "--out", tmp_path / "a", "--keep-paths")
    assert first.code == 0, first.err
    again = duotomo("reconstruct", "--settings", tmp_path / "a" / "settings.toml", "--out", tmp_path / "b")
    assert again.code == 0, again.err
    one, two = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    assert torch.equal(one.volume, two.volume)
    assert one.grid.low_mm[0] == 5.0
    assert (tmp_path / "b" / "volume.nrrd").is_file()


def test_wrong_options_are_explained(study_path: Path, tmp_path: Path) -> None:
    ran = duotomo("reconstruct", "--out", tmp_path / "new")
    assert ran.code == 2
    assert "expected a scan; got none" in ran.err
    ran = duotomo("reconstruct", study_path, "--method", "fbp", "--tv-weight", 1, "--out", tmp_path / "new")
    assert ran.code == 2
    assert "expected --tv-weight only with --method tv" in ran.err
    ran = duotomo("reconstruct", study_path, "--max-memory", "0.00001", "--out", tmp_path / "new")
    assert ran.code == 2
    assert "expected to need at most --max-memory" in ran.err
    assert list((tmp_path / "new").iterdir()) == []


def test_divergence_is_an_exit_code(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from duotomo import reconstruct as library

    original = library.reconstruct

    def diverging(*arguments: object, **options: object) -> object:
        solution = original(*arguments, **options)  # type: ignore[arg-type]
        return replace(solution, status=Status.DIVERGED, reason="NaN came up.")

    monkeypatch.setattr(library, "reconstruct", diverging)
    ran = duotomo("reconstruct", study_path, "--method", "bp", "--out", tmp_path)
    assert ran.code == 3
    assert read_result(tmp_path).status is Status.DIVERGED


def test_steps_are_those_asked_for_and_running_out_of_them_is_said(study_path: Path, tmp_path: Path) -> None:
    for steps in (7, 30):
        out = tmp_path / str(steps)
        ran = duotomo("reconstruct", study_path, "--steps", steps, "--out", out, "--quiet")
        assert (ran.code, ran.out) == (3, "")
        assert len(read_result(out).history) == steps
        assert f"do not trust this result. The run did not converge: The limit of {steps} steps" in ran.err
        assert "Allow more steps." in ran.err
    # Stopped early by intent.
    ran = duotomo("reconstruct", study_path, "--method", "cgls", "--out", tmp_path / "cgls", "--quiet")
    assert (ran.code, ran.err) == (0, "")
