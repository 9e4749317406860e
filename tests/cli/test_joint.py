"""The command goes from a study file to a result folder, and says beforehand what it will do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from duotomo import methods
from duotomo.cli import _memory, main
from duotomo.io import CheckpointFile, fingerprint, read_result
from duotomo.io.durable import locked
from duotomo.methods import Alternating, Result, Settings, settings_from_dict
from duotomo.solvers import Status
from duotomo.transforms import Rigid
from tests.cli.commands import NOT_TRUSTED
from tests.cli.tiny import GRID, SHIFT_MM, tiny_study


def joint(*options: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["joint", *map(str, options)], catch_exceptions=False)
    return result.exit_code, result.output


def limited(n_steps: int) -> Callable[..., Result]:
    """Return the simultaneous method with so few steps that it takes no time."""
    original = methods.simultaneous

    def method(study: Any, settings: Settings, **options: Any) -> Result:
        stages = tuple(replace(stage, n_steps=n_steps) for stage in settings.stages[:2])
        return original(study, replace(settings, stages=stages, stiffer=()), **options)

    return method


def test_a_study_becomes_a_result_folder(study_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "[bold]folder"
    code, output = joint(study_path, "--out", out, "--transform", "translation")
    assert code == 0, output
    written = [Path(line.strip()) for line in output.split("Wrote\n")[1].splitlines()]
    assert {
        "visit_1.nii.gz",
        "visit_2_registered.nii.gz",
        "visit_2_to_reference_displacement.nii.gz",
        "settings.toml",
    } <= {path.name for path in written}
    assert sorted(written) == sorted(out.iterdir())
    saved = read_result(out)
    assert saved.grid == GRID
    assert saved.method == "simultaneous"
    found = saved.motions[0].physical()["translation_mm"]
    torch.testing.assert_close(found, torch.tensor(SHIFT_MM, dtype=torch.float64), atol=0.5, rtol=0)
    assert saved.settings["model"] == "translation"
    with Image.open(out / "three_views.png") as image:
        image.load()
        assert image.format == "PNG"
    order = [output.index(word) for word in ("Volume", "Method", "Memory: about", "translation at", "status")]
    assert order == sorted(order)


def test_settings_are_written_so_that_they_can_be_made_again(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "simultaneous", limited(2))
    code, output = joint(study_path, "--out", tmp_path, "--transform", "rigid", "--solver", "alternating")
    assert code == NOT_TRUSTED, output
    written = read_result(tmp_path).settings
    expected = Settings.staged(GRID, Rigid, solver=Alternating())
    assert settings_from_dict(written["settings"]) == expected
    assert written["settings"]["priors"]["bending"] == expected.priors.bending


def test_plain_is_the_papers_algorithm(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "simultaneous", limited(1))
    code, output = joint(study_path, "--out", tmp_path, "--plain", "--transform", "rigid")
    assert code == NOT_TRUSTED, output
    assert settings_from_dict(read_result(tmp_path).settings["settings"]) == Settings.plain(Rigid)
    code, output = joint(study_path, "--out", tmp_path, "--plain", "--solver", "coupled")
    assert code == 2
    assert "the plain algorithm alternates" in output


def test_an_unfinished_run_is_resumed_only_when_asked(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = limited(40)

    def interrupted(study: Any, settings: Settings, *, on_step: Any, checkpoint: CheckpointFile) -> Result:
        def after_save(record: Any) -> None:
            on_step(record)
            if checkpoint.load() is not None:
                raise KeyboardInterrupt

        return short(study, settings, on_step=after_save, checkpoint=checkpoint)

    options = (study_path, "--out", tmp_path, "--transform", "rigid")
    monkeypatch.setattr(methods, "simultaneous", interrupted)
    code, output = joint(*options)
    assert code == 130
    assert "Go on with --resume" in output
    assert os.listdir(tmp_path) == ["checkpoint.h5"]

    monkeypatch.setattr(methods, "simultaneous", short)
    code, output = joint(*options)
    assert code == 2
    assert "expected a folder without an unfinished run" in output
    assert "Pass --resume" in output

    code, output = joint(study_path, "--out", tmp_path, "--transform", "affine", "--resume")
    assert code == 2
    assert "got that of one with another settings. Choose another folder" in output

    code, output = joint(*options, "--resume")
    assert code == NOT_TRUSTED, output
    assert "Resuming in stage 2" in output
    assert "checkpoint.h5" not in os.listdir(tmp_path)
    resumed = read_result(tmp_path)

    code, output = joint(*options, "--resume")
    assert code == NOT_TRUSTED, output
    assert "Finished already" in output
    assert torch.equal(read_result(tmp_path).volume, resumed.volume)


def test_divergence_is_an_exit_code_and_keeps_what_was_good(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = limited(2)

    def diverging(*arguments: Any, **options: Any) -> Result:
        return replace(short(*arguments, **options), status=Status.DIVERGED, reason="NaN came up.")

    monkeypatch.setattr(methods, "simultaneous", diverging)
    code, output = joint(study_path, "--out", tmp_path)
    assert code == NOT_TRUSTED
    assert "Diverged: NaN came up." in output
    assert str(tmp_path / "checkpoint.h5") in output
    saved = read_result(tmp_path)
    assert saved.status is Status.DIVERGED
    assert bool(saved.volume.isfinite().all())
    assert (tmp_path / "checkpoint.h5").exists()


def test_too_little_memory_is_said_before_the_start(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = joint(study_path, "--out", tmp_path, "--max-memory", "0.0001")
    assert code == 2
    assert "expected to need at most --max-memory 0.0001 GB; got about" in output
    monkeypatch.setattr(_memory, "available_bytes", lambda _: 1000)
    code, output = joint(study_path, "--out", tmp_path)
    assert code == 2
    assert "expected 1.1 GB of memory on cpu; got " in output
    assert "Free some, or use larger voxels" in output
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--transform", "elastic"), "expected --transform as one of translation, rigid, affine, bspline"),
        (
            ("--transform", "bspline:3"),
            "or three counts of them (z, y, x), bspline:7,9,9, for --transform; got bspline:3",
        ),
    ],
)
def test_wrong_options_are_explained(
    options: tuple[str, ...], message: str, study_path: Path, tmp_path: Path
) -> None:
    code, output = joint(study_path, "--out", tmp_path / "new", *options)
    assert code == 2
    assert message in output
    assert not (tmp_path / "new").exists()


def test_files_that_cannot_be_used_are_explained(study_path: Path, tmp_path: Path) -> None:
    code, output = joint(tmp_path / "none.h5", "--out", tmp_path)
    assert code == 2
    assert "read_scan: expected a file or a folder at" in output
    (tmp_path / "result.json").write_text("mine")
    code, output = joint(study_path, "--out", tmp_path)
    assert code == 2
    assert "as write_result wrote it" in output


def test_two_runs_do_not_share_a_folder(study_path: Path, tmp_path: Path) -> None:
    with locked("another", tmp_path):
        code, output = joint(study_path, "--out", tmp_path)
    assert code == 2
    assert "got another run that writes there" in output


def test_a_missing_library_is_missed_before_the_run(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nibabel", None)
    code, output = joint(study_path, "--out", tmp_path)
    assert code == 2
    assert "expected nibabel to be installed" in output


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_missing_cuda_is_said_not_replaced(study_path: Path, tmp_path: Path) -> None:
    code, output = joint(study_path, "--out", tmp_path, "--device", "cuda")
    assert code == 2
    assert "no CUDA device is available here" in output


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_on_the_gpu(study_path: Path, tmp_path: Path) -> None:
    code, output = joint(study_path, "--out", tmp_path, "--device", "cuda", "--transform", "translation")
    assert code == 0, output


def test_the_checkpoint_is_of_this_study_and_these_settings(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[CheckpointFile] = []
    short = limited(1)

    def noting(*arguments: Any, checkpoint: CheckpointFile, **options: Any) -> Result:
        seen.append(checkpoint)
        return short(*arguments, checkpoint=checkpoint, **options)

    monkeypatch.setattr(methods, "simultaneous", noting)
    joint(study_path, "--out", tmp_path)
    settings = Settings.automatic(tiny_study())
    assert seen[0].fingerprint == fingerprint(tiny_study(), method="simultaneous", settings=settings)


def test_help_lists_the_command() -> None:
    assert "joint" in CliRunner().invoke(main, ["--help"]).output
