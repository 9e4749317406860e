"""The commands write a page and serve one, and end as they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from urllib.request import ProxyHandler, build_opener

import pytest
from typer.testing import CliRunner

from duotomo.cli import main
from duotomo.io import read_result
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


def viewing(folder: Path, *options: str, browser: str = "") -> subprocess.Popen[str]:
    """Start `view` in a process of its own, since Ctrl-C goes to the whole of one."""
    code = (
        f"{HEED}from duotomo.report import page; "
        f"page.viewer_part = {{{SCRIPT!r}: '1', {STYLE!r}: 'a {{}}'}}.__getitem__; "
        "from duotomo.cli import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, "view", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path]), "BROWSER": browser},
    )


def get(url: str) -> bytes:
    # Without a proxy, whatever the environment says.
    with build_opener(ProxyHandler({})).open(url, timeout=30) as answer:
        return bytes(answer.read())


def ended(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, and return what the process said on standard error."""
    try:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "Stopped" in said
    return said


def test_view_serves_until_it_is_interrupted(folder: Path) -> None:
    before = sorted(folder.iterdir())
    process = viewing(folder, "--no-browser")
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), process.communicate(timeout=60)
    assert b"Visit 1 (reference)" in get(url)
    ended(process)
    assert sorted(folder.iterdir()) == before


def test_view_is_interrupted_while_requests_arrive(folder: Path) -> None:
    process, stopped = viewing(folder, "--no-browser"), Event()
    assert process.stdout is not None
    url = process.stdout.readline().strip()

    def ask() -> None:
        while not stopped.is_set():
            with suppress(OSError, HTTPException):
                get(url)

    askers = [Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        ended(process)
    finally:
        stopped.set()
        for asker in askers:
            asker.join()


def test_the_browser_is_not_started_with_the_address(folder: Path, tmp_path: Path) -> None:
    """Everybody on the machine sees what programs are started with."""
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {told}.new\nfile="${{1#file://}}"\n'
        f'stat -c %a "$file" >> {told}.new\ncat "$file" >> {told}.new\nmv {told}.new {told}\n'
    )
    browser.chmod(0o700)
    process = viewing(folder, browser=str(browser))
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    while not told.exists():
        assert process.poll() is None
        time.sleep(0.05)
    ended(process)
    address, mode, page = told.read_text().split("\n", 2)
    assert address.startswith("file://")
    assert url.split("/")[3] not in address
    assert mode == "600"
    assert f"url={url}" in page
    assert not Path(address.removeprefix("file://")).exists()


def test_a_damaged_page_is_noticed_and_made_anew(folder: Path) -> None:
    assert run("report", folder)[0] == 0
    (folder / "report.html").write_text("something else")
    code, output = run("view", folder)
    assert code == 2
    assert "expected report.html as it was written" in output
    assert "duotomo report" in output
    assert run("report", folder)[0] == 0
    assert read_result(folder).notes == ()


def test_results_of_an_earlier_version_are_read_with_a_note(tmp_path: Path, folder: Path) -> None:
    old = Path(__file__).parents[1] / "data" / "version_1" / "result"
    code, output = run("report", old, "--out", tmp_path / "page.html")
    assert code == 0, output
    assert "Note: An earlier version wrote result.json" in output
    assert "An earlier version wrote result.json" in (tmp_path / "page.html").read_text(encoding="utf-8")
