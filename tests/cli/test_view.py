"""The commands write a page and serve one, and end as they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from typer.testing import CliRunner

from duotomo.cli import main
from duotomo.report import page
from duotomo.report.page import SCRIPT, STYLE
from tests.cli.test_interrupted import HEED
from tests.report.page_results import result, save


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a result folder, with a viewer that does nothing."""
    monkeypatch.setattr(page, "viewer_part", {SCRIPT: "1", STYLE: "a {}"}.__getitem__)
    return save(tmp_path / "result", result())


def run(*options: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(option) for option in options], catch_exceptions=False)
    return done.exit_code, done.output


def test_report_writes_the_page_and_says_where(folder: Path) -> None:
    code, output = run("report", folder)
    assert code == 0, output
    assert f"Wrote {folder / 'report.html'}" in output
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_writes_where_it_is_told(folder: Path, tmp_path: Path) -> None:
    options = ["report", folder, "--out", tmp_path / "page.html", "--json"]
    done = CliRunner().invoke(main, [str(option) for option in options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["page"] == str(tmp_path / "page.html")
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("command", ["report", "view"])
def test_a_folder_without_a_result_is_bad_input(tmp_path: Path, command: str) -> None:
    code, output = run(command, tmp_path)
    assert code == 2
    assert "expected a result at" in output
    assert list(tmp_path.iterdir()) == []


def test_view_serves_until_it_is_interrupted(folder: Path) -> None:
    before = sorted(folder.iterdir())
    # A process of its own, since Ctrl-C goes to the whole of one; its viewer does nothing either.
    code = (
        f"{HEED}from duotomo.report import page; "
        f"page.viewer_part = {{{SCRIPT!r}: '1', {STYLE!r}: 'a {{}}'}}.__getitem__; "
        "from duotomo.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "view", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.communicate(timeout=60)
        # Without a proxy, whatever the environment says.
        with build_opener(ProxyHandler({})).open(url, timeout=30) as answer:
            assert b"Visit 1 (reference)" in answer.read()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "Stopped" in said
    assert sorted(folder.iterdir()) == before
