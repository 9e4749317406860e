"""`change`, and `joint --change`, say what changed, in words, files and JSON; or why nothing is said."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydicom
import pytest

import duotomo.change as core
from duotomo import methods
from duotomo.change import Change
from duotomo.change.change import RESEARCH
from duotomo.io import read_change, read_result, write_study
from duotomo.methods import Result, Settings
from duotomo.solvers import Status
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.cli.patients import SECRETS, WHO, write_visits
from tests.cli.short_runs import ended, shorten, trusting
from tests.cli.tiny import GRID, tiny_study
from tests.io.change_helpers import GONE, NEW, a_change, same_change

FILES = {"findings.json", "findings.csv", "change_z.nii.gz", "change_silent.nii.gz", "current.nii.gz"}
DICOM = {"current.dcm", "findings_segmentation.dcm", "findings_report.dcm"}
CHANGE = a_change(
    GRID,
    findings=(
        replace(NEW, place_mm=(3.0, 20.0, 30.0), size_mm=9.0, size_interval_mm=(7.0, 11.5)),
        replace(GONE, place_mm=(-6.0, 25.0, 26.0)),
    ),
)


class Core:
    """Stands for the computation of what changed, and remembers how it was called."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.found = CHANGE

    def __call__(self, study: Any, settings: Settings, result: Result, *, on_part: Any) -> Change:
        self.calls.append({"study": study, "result": result})
        on_part(1, 2)
        return self.found if result.grid == GRID else a_change(result.grid, findings=self.found.findings)


@pytest.fixture(autouse=True)
def computed(monkeypatch: pytest.MonkeyPatch) -> Core:
    """Leave out what these tests are not about, and the computation itself."""
    stub = Core()
    monkeypatch.setattr(core, "change_of", stub, raising=False)
    shorten(monkeypatch, n_steps=3)
    return stub


def run(command: str, *words: object) -> tuple[int, str]:
    ran = duotomo(command, *words, "--transform", "translation")
    return ran.code, ran.out + ran.err


@pytest.mark.parametrize("words", [("change",), ("joint", "--change")])
def test_findings_are_shown_and_written(
    words: tuple[str, ...], study_path: Path, tmp_path: Path, computed: Core
) -> None:
    code, output = run(words[0], study_path, *words[1:], "--uncertainty", "--out", tmp_path)
    assert code == 0, output
    assert "What changed since the prior visit" in output
    for text in ("new", "gone", "3.0, 20.0,", "9 (7 to", "+7.2", "-5.5", "chest", RESEARCH):
        assert text in output, text
    assert all(str(tmp_path / name) in output for name in FILES)
    assert set(os.listdir(tmp_path)) >= FILES
    assert same_change(read_change(tmp_path), CHANGE)
    (call,) = computed.calls
    (known,) = call["result"].uncertainties
    assert known.is_known
    assert read_result(tmp_path).saved_uncertainties
    assert (tmp_path / "report.html").exists()
    if words[0] == "joint":
        assert "change = true" in (tmp_path / "settings.toml").read_text()


def test_joint_computes_it_only_if_asked(study_path: Path, tmp_path: Path, computed: Core) -> None:
    code, output = run("joint", study_path, "--out", tmp_path)
    assert code == 0, output
    assert not computed.calls
    assert not FILES & set(os.listdir(tmp_path))
    assert RESEARCH not in output


def test_json_is_one_object(study_path: Path, tmp_path: Path) -> None:
    ran = duotomo("change", study_path, "--transform", "translation", "--json", "--out", tmp_path)
    assert ran.code == 0, ran.err
    found = ran.json["change"]
    assert [one["kind"] for one in found["findings"]] == ["new", "gone"]
    assert (found["research_use"], found["reason"], found["threshold"]) == (RESEARCH, "", 4.75)
    assert "What changed since the prior visit" in ran.err


def test_quiet_says_nothing(study_path: Path, tmp_path: Path) -> None:
    ran = duotomo("change", study_path, "--transform", "translation", "--quiet", "--out", tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_no_findings_are_an_answer(study_path: Path, tmp_path: Path, computed: Core) -> None:
    computed.found = replace(CHANGE, findings=())
    code, output = run("change", study_path, "--out", tmp_path)
    assert code == 0
    assert "No findings: no place changed with |z| of 4.75 or more" in output
    assert RESEARCH in output
    assert json.loads((tmp_path / "findings.json").read_text())["findings"] == []


def test_a_result_that_is_not_trusted_says_nothing_of_changes(
    study_path: Path, tmp_path: Path, computed: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "trust_of", trusting(False))
    code, output = run("change", study_path, "--quiet", "--out", tmp_path)
    assert code == NOT_TRUSTED
    assert "Warning: nothing is said of what changed. The result is not to be trusted. " in output
    assert not computed.calls
    assert read_change(tmp_path).reason.startswith("The result is not to be trusted. ")
    assert set(os.listdir(tmp_path)) >= FILES


def test_a_motion_of_which_nothing_is_known_is_a_reason(
    study_path: Path, tmp_path: Path, computed: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "simultaneous", ended(Status.STEP_LIMIT, n_steps=3))
    code, output = run("change", study_path, "--out", tmp_path)
    assert code == 0, output
    assert "nothing is said of what changed. How sure the motion is cannot be said. The run did not" in output
    assert not computed.calls


def test_it_does_without_a_covariance_that_there_is_no_memory_for(
    study_path: Path, tmp_path: Path, computed: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = methods.UncertaintyCost(applications=135.0, share=0.1, seconds=200.0, n_bytes=2**60)
    monkeypatch.setattr(methods, "uncertainty_cost", lambda *_: cost)
    code, output = run("change", study_path, "--out", tmp_path)
    assert code == 0
    assert "What changed since the prior visit" in output
    (call,) = computed.calls
    assert call["result"].uncertainties == ()


@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"laterality": "R"}, "--allow-different-sides", "different sides"),
        ({"view": "MLO"}, "--allow-different-views", "different views"),
        ({"PatientID": "PID-4712"}, "--allow-different-patients", "different patients"),
    ],
)
def test_visits_that_differ_are_not_compared(
    changes: dict[str, str], option: str, words: str, tmp_path: Path, computed: Core
) -> None:
    paths = write_visits(tmp_path, **changes)
    common = (*paths, "--voxel", "6,6,6", "--out", tmp_path / "out")
    code, output = run("change", *common)
    assert code == 2
    assert option in output
    code, output = run("change", *common, option, "--dicom")
    assert code == 0, output
    assert f"Warning: nothing is said of what changed. The visits are of {words}: visit 1 and" in output
    assert not computed.calls
    found = read_change(tmp_path / "out")
    assert (found.findings, words in found.reason) == ((), True)
    assert DICOM & set(os.listdir(tmp_path / "out")) == {"current.dcm", "findings_report.dcm"}
    for_research_and_of_nobody(tmp_path / "out", output, *changes.values())


def test_dicom_is_the_patients_and_all_is_for_research(tmp_path: Path) -> None:
    paths, out = write_visits(tmp_path), tmp_path / "out"
    code, output = run("change", *paths, "--voxel", "3,3,3", "--dicom", "--out", out)
    assert code == 0, output
    assert set(os.listdir(out)) >= DICOM
    for name in DICOM:
        assert pydicom.dcmread(out / name).PatientID == WHO["PatientID"]
    for_research_and_of_nobody(out, output)


def for_research_and_of_nobody(out: Path, output: str, *more: str) -> None:
    """Check that all that says what changed is marked, and that nothing but DICOM says of whom."""
    # Digits may stand by chance in what is not text, and "MLO" and "R" are no secrets.
    secrets = [one for one in (*SECRETS, *more) if one not in ("4711", "101112") and len(one) > 3]
    assert not any(secret in output.replace("\n", "") for secret in secrets)
    assert RESEARCH in output
    for path in out.iterdir():
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        if path.suffix != ".dcm":
            assert not any(secret.encode() in text for secret in secrets), path.name
        if path.name in FILES | DICOM | {"report.html", "README.txt"}:
            # The name of a column counts: without findings a table has nothing else.
            assert b"research use" in text.lower().replace(b"_", b" "), path.name


def test_killed_meanwhile_the_run_goes_on_from_its_checkpoint(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: Core
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(core, "change_of", killed)
    code, output = run("change", study_path, "--out", tmp_path)
    assert code == 130
    assert "Go on with --resume" in output
    monkeypatch.setattr(core, "change_of", computed)
    code, output = run("change", study_path, "--resume", "--out", tmp_path)
    assert code == 0, output
    assert "Resuming in stage" in output
    code, output = run("change", study_path, "--resume", "--out", tmp_path)
    assert code == 0
    assert "Finished already" in output
    assert "What changed since the prior visit" in output
    assert len(computed.calls) == 1


def test_a_finished_run_without_it_says_so(study_path: Path, tmp_path: Path, computed: Core) -> None:
    run("joint", study_path, "--out", tmp_path)
    _, output = run("joint", study_path, "--change", "--resume", "--out", tmp_path)
    assert "Note: it does not say what changed; that is not computed now." in output
    assert not computed.calls


def test_what_contradicts_it_is_refused(study_path: Path, tmp_path: Path) -> None:
    code, output = run("joint", study_path, "--change", "--method", "sequential", "--out", tmp_path / "new")
    assert code == 2
    assert "expected --change with --method simultaneous" in output
    assert not (tmp_path / "new").exists()


def test_voxels_larger_than_what_is_looked_for_are_refused_before_the_run(tmp_path: Path) -> None:
    code, output = run("change", *write_visits(tmp_path), "--voxel", "8,8,8", "--out", tmp_path / "new")
    assert code == 2
    assert "voxels with edges of at most 6 mm; there are edges of 8 mm. Set --voxel" in output
    assert not (tmp_path / "new").exists()


def test_two_visits_are_compared_and_no_more(tmp_path: Path) -> None:
    study = tiny_study()
    third = replace(study.visits[1], projections=study.visits[1].projections * 1.01)
    write_study(tmp_path / "three.h5", replace(study, visits=(*study.visits, third)))
    code, output = run("change", tmp_path / "three.h5", "--out", tmp_path / "new")
    assert code == 2
    assert "expected two visits, the current one and the prior; got 3" in output
    write_study(tmp_path / "one.h5", replace(study, visits=study.visits[:1]))
    code, output = run("change", tmp_path / "one.h5", "--out", tmp_path / "new")
    assert code == 2
    assert "expected at least two visits; got one" in output
