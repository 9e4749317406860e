"""`joint` says how sure the motion is, and before what that costs: in words, files and on the page."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duotomo import methods
from duotomo.cli import _memory
from duotomo.io import read_result
from duotomo.methods import Settings, uncertainty_summary
from duotomo.methods.uncertainty_cost import most_uncertainty_bytes
from duotomo.solvers import Status
from duotomo.transforms import Translation
from tests.cli.commands import duotomo
from tests.cli.short_runs import ended, shorten
from tests.cli.tiny import GRID, tiny_study
from tests.io.saved_helpers import python

FILE, MAP = "visit_2_uncertainty.json", "visit_2_uncertainty.nii.gz"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what these tests are not about: most steps, rays held back, and visits alone."""
    shorten(monkeypatch, n_steps=6)


def joint(study_path: Path, out: Path, *options: str) -> tuple[int, str]:
    ran = duotomo("joint", study_path, "--out", out, "--transform", "translation", *options)
    return ran.code, ran.out + ran.err


def cost_of(share: float, n_bytes: int = 1000) -> Callable[..., methods.UncertaintyCost]:
    cost = methods.UncertaintyCost(applications=135.0, share=share, seconds=200.0, n_bytes=n_bytes)
    return lambda *_: cost


def test_asked_for_it_is_said_written_and_shown(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, summary = [], uncertainty_summary._summary
    monkeypatch.setattr(uncertainty_summary, "_summary", lambda *of: made.append(1) or summary(*of))
    code, output = joint(study_path, tmp_path, "--uncertainty")
    assert len(made) == 1
    assert code == 0, output
    assert "How sure the motion is: about " in output
    (line,) = [line for line in output.splitlines() if line.startswith("how sure of visit 2")]
    assert " mm in plane, " in line
    assert " mm in depth (median over the breast); least determined: " in line
    assert {FILE, MAP} <= set(os.listdir(tmp_path))
    assert str(tmp_path / MAP) in output
    saved = read_result(tmp_path)
    (known,) = saved.saved_uncertainties
    assert known.map_mm is not None
    assert bool((known.map_mm > 0).all())
    assert saved.quality["uncertainty"][0]["words"] == known.summary.words
    assert known.summary.words in line
    assert known.summary.words in (tmp_path / "report.html").read_text()
    assert "uncertainty = true" in (tmp_path / "settings.toml").read_text()


def test_a_run_that_did_not_converge_has_a_reason_and_no_numbers(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "simultaneous", ended(Status.STEP_LIMIT, n_steps=6))
    _, output = joint(study_path, tmp_path)
    assert "how sure of visit 2     not known. The run did not converge" in output
    content = json.loads((tmp_path / FILE).read_text())
    assert "The run did not converge" in content["reason"]
    assert "That is how it ended." in content["reason"]
    assert content["covariance"] is None
    assert not (tmp_path / MAP).exists()
    assert "not known. The run did not converge" in (tmp_path / "report.html").read_text()


def test_what_costs_too_much_is_left_out_unless_asked_for(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "uncertainty_cost", cost_of(0.7))
    _, output = joint(study_path, tmp_path)
    assert "How sure the motion is: about 3.3 min, 70 % of the run, and 1e-06 GB: left out, ask" in output
    assert FILE not in os.listdir(tmp_path)
    _, output = joint(study_path, tmp_path, "--resume", "--uncertainty")
    assert "it does not say how sure the motion is; that is not computed now" in output
    _, output = joint(study_path, tmp_path, "--uncertainty")
    assert {FILE, MAP} <= set(os.listdir(tmp_path))
    monkeypatch.setattr(methods, "uncertainty_cost", cost_of(0.3))
    _, output = joint(study_path, tmp_path, "--no-uncertainty")
    assert "ow sure" not in output
    assert not {FILE, MAP} & set(os.listdir(tmp_path))


def test_without_the_memory_the_run_is_not_lost(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "uncertainty_cost", cost_of(0.1, n_bytes=2**60))
    code, output = joint(study_path, tmp_path, "--uncertainty", "--quiet")
    assert code == 0
    assert "GB of memory, which is not there or not allowed: left out" in output
    assert FILE not in os.listdir(tmp_path)
    assert read_result(tmp_path).saved_uncertainties == ()


def test_its_memory_is_part_of_what_is_needed(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.staged(GRID, Translation)
    needed = [of(tiny_study(), settings) for of in (methods.memory_bytes, most_uncertainty_bytes)]
    assert needed[0] < needed[1]
    monkeypatch.setattr(_memory, "available_bytes", lambda _: sum(needed) // 2)
    code, output = joint(study_path, tmp_path, "--uncertainty")
    assert code == 2
    assert "of memory on cpu; got" in output


def test_killed_meanwhile_the_run_goes_on_from_its_checkpoint(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    original = methods.uncertainty_of
    monkeypatch.setattr(methods, "uncertainty_of", killed)
    code, output = joint(study_path, tmp_path, "--uncertainty")
    assert code == 130
    assert "Go on with --resume" in output
    assert os.listdir(tmp_path) == ["checkpoint.h5"]
    monkeypatch.setattr(methods, "uncertainty_of", original)
    code, output = joint(study_path, tmp_path, "--uncertainty", "--resume")
    assert code == 0, output
    assert "Resuming in stage" in output
    assert {FILE, MAP} <= set(os.listdir(tmp_path))
    assert "checkpoint.h5" not in os.listdir(tmp_path)


BATCH_BY_BATCH = """
import os, signal, sys
from duotomo.cli import main
from duotomo.io import durable
from duotomo.io.solve_files import SolveFiles
from duotomo.methods import solves
from duotomo.methods.profiled_curvature import ProfiledCurvature
import pytest
from tests.cli.short_runs import shorten
shorten(pytest.MonkeyPatch(), n_steps=6)
solves.MOST_AT_ONCE, solves.EVERY_S = 1, 0.0
deadly, n_solves, sync, columns = sys.argv[1], 0, durable.sync, ProfiledCurvature.columns

def dying(path):
    if path.name == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(path)

def counting(self, directions):
    global n_solves
    n_solves += len(directions)
    return columns(self, directions)

durable.sync, ProfiledCurvature.columns = dying, counting
try:
    main(sys.argv[2:])
finally:
    print("solved for", n_solves)
"""
"""Runs a command that is killed while it writes a certain file."""


def test_killed_between_solves_it_goes_on_to_the_same(study_path: Path, tmp_path: Path) -> None:
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    words = ("joint", str(study_path), "--transform", "translation", "--uncertainty")
    ran = python(BATCH_BY_BATCH, "nothing", *words, "--out", str(undisturbed))
    assert ran.returncode == 0, ran.stderr
    assert "solved for 3" in ran.stdout
    assert not (undisturbed / "checkpoint_solves").exists()
    ran = python(BATCH_BY_BATCH, ".unfinished-columns_2.h5", *words, "--out", str(out))
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    kept = out / "checkpoint_solves"
    assert sorted(os.listdir(out)) == ["checkpoint.h5", kept.name]
    assert sorted(os.listdir(kept)) == [".unfinished-columns_2.h5", "columns_0.h5", "columns_1.h5"]
    (kept / "columns_0.h5").write_bytes(b"damaged")
    ran = python(BATCH_BY_BATCH, "nothing", *words, "--out", str(out), "--resume")
    assert ran.returncode == 0, ran.stderr
    assert "solved for 2" in ran.stdout
    assert "columns_0.h5" in ran.stderr
    assert "Its solves are computed again" in ran.stderr
    for name in (FILE, MAP):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes()
    assert sorted(os.listdir(out)) == sorted(os.listdir(undisturbed))


def test_other_methods_have_no_covariance(study_path: Path, tmp_path: Path) -> None:
    code, output = joint(study_path, tmp_path / "new", "--uncertainty", "--method", "sequential")
    assert code == 2
    assert "expected --uncertainty with --method simultaneous" in output
    assert not (tmp_path / "new").exists()
