"""What a result is worth is said last of all, in the JSON, in its folder and on its page, with what to do."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch

from duotomo import methods
from duotomo.cli._options import Computing
from duotomo.cli._run import Run
from duotomo.methods import Trust
from duotomo.methods.input_checks import Check
from duotomo.methods.remedies import REMEDIES
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.cli.short_runs import shorten


def judged(*names: str) -> Trust:
    checks = [
        Check(name=name, passed=name not in names, value=0.0, limit=0.0, text=f"About {name}.")
        for name in REMEDIES
    ]
    return Trust.of_checks(checks)


def test_every_check_has_a_remedy() -> None:
    folder = Path(methods.__file__).parent
    trees = [ast.parse((folder / name).read_text()) for name in ("input_checks.py", "cut_off.py", "trust.py")]
    calls = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check"
    ]
    given = {keyword.value for call in calls for keyword in call.keywords if keyword.arg == "name"}
    names = {node.value for node in given if isinstance(node, ast.Constant)}
    constants = {node.id for node in given if isinstance(node, ast.Name)}
    from duotomo.methods import trust

    assert names | {getattr(trust, name) for name in constants} == set(REMEDIES)
    assert all(remedy.endswith(".") for remedy in REMEDIES.values())
    passed = Check(name="folding", passed=True, value=0.0, limit=0.0, text="It does not.")
    assert passed.remedy == ""


def test_a_result_that_is_not_trusted_cannot_be_mistaken(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, n_steps=2)
    monkeypatch.setattr(methods, "trust_of", lambda *_, **__: judged("folding", "explained rays"))
    options = ("joint", study_path, "--transform", "translation", "--no-uncertainty", "--out")
    ran = duotomo(*options, tmp_path / "a")
    assert ran.code == NOT_TRUSTED
    assert "trusted                 NO\n" in ran.out
    assert "check: look             About folding.\n" in ran.out
    last = [line for line in ran.err.splitlines() if "What to do" in line or "do not trust" in line]
    assert ran.err.splitlines()[-3:] == last
    assert last[0] == "Warning: do not trust this result. About folding. About explained rays."
    assert "--transform bspline:40mm" in last[1]
    assert "--transform bspline:25mm" in last[2]
    # The same in the file, on the page, with --json, and with --quiet.
    index = json.loads((tmp_path / "a" / "result.json").read_text())
    looks = [row for row in index["quality"]["checks"] if row["verdict"] == "look"]
    assert [row["words"] for row in looks] == ["About folding.", "About explained rays."]
    assert all("--transform" in row["remedy"] for row in looks)
    assert "What to do: Check that both visits" in (tmp_path / "a" / "report.html").read_text()
    ran = duotomo(*options, tmp_path / "b", "--json", "--quiet")
    assert ran.json["trusted"] is False
    assert ran.json["quality"]["checks"] == index["quality"]["checks"]
    assert ran.err.splitlines() == last
    # A run that has finished is judged again in the same words.
    ran = duotomo(*options, tmp_path / "a", "--resume", "--quiet")
    assert (ran.code, ran.err.splitlines()) == (NOT_TRUSTED, last)


def test_a_result_that_is_trusted_says_so(
    study_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, n_steps=2)
    monkeypatch.setattr(methods, "trust_of", lambda *_, **__: judged())
    ran = duotomo("joint", study_path, "--no-uncertainty", "--out", tmp_path, "--transform", "translation")
    assert ran.code == 0
    assert "trusted                 yes\n" in ran.out
    assert "check: pass             Trusted. All " in ran.out
    assert "do not trust" not in ran.err


@pytest.mark.parametrize(("free", "expected"), [(10**12, "cuda"), (1000, "cpu")])
def test_the_device_is_chosen_by_its_memory(
    free: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, free))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    said: list[str] = []
    run = object.__new__(Run)
    run.device = Computing().prepare(_Talk(said))  # type: ignore[arg-type]
    run._automatic, run._talk = True, _Talk(said)  # type: ignore[assignment]
    assert run.first_device == "cpu"
    assert run.place(10**6) == run.device == expected
    assert said[0].startswith(f"Device {expected}")
    assert "a GPU" in said[0]


class _Talk:
    def __init__(self, said: list[str]) -> None:
        self.progress = said.append
