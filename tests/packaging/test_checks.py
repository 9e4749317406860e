"""The same checks run here, before a commit, and on the server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def recipe(target: str) -> str:
    """Return the prerequisites and commands of a target."""
    found = re.search(rf"^{target}:.*\n(?:\t.*\n)*", MAKEFILE, flags=re.MULTILINE)
    assert found, target
    return found[0]


def test_continuous_integration_runs_make_check() -> None:
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("\nmake check")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    steps = [step.get("run") for step in workflow["jobs"]["check"]["steps"]]
    assert "make check" in steps


def test_the_server_tries_every_python_that_is_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    promised = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == promised


def test_the_demo_needs_no_developer() -> None:
    assert "$(CORE)" in recipe("demo")
    assert "$(DEV)" not in recipe("demo")
    for target in (
        "test",
        "lint",
        "types",
        "layers",
        "docs",
        "lock",
        "bom",
        "dist",
        "bench",
        "evidence",
        "figures",
    ):
        assert "$(DEV)" in recipe(target), target
    # Whoever has what developers need has what users need.
    assert "touch $(CORE) $@" in recipe(re.escape("$(DEV)"))


def test_hooks_run_what_make_runs() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    commands = {hook["id"]: hook["entry"] for hook in local["hooks"]}
    assert set(commands) == {"ruff-check", "ruff-format", "mypy"}
    checked = recipe("lint") + recipe("types")
    assert all(entry.split()[0].replace(".venv/bin", "$(BIN)") in checked for entry in commands.values())
