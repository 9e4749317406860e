"""No input breaks a command: it is refused with a message, or read; nothing is read or written elsewhere.

Every input that `tests.fuzz` makes is given to a command, in a process that a crash would end. The command
ends with exit code 2 and a message that says what was expected and of which file; without a traceback, and
without taking much memory or time, opening or writing anything outside of the input and the output, or
leaving something that looks like a result.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest
import typer

from duotomo.report import page, page_server
from duotomo.report.page import SCRIPT, STYLE
from tests.cli.commands import NOT_TRUSTED, Ran, duotomo
from tests.fuzz.drawn.pool import Ended
from tests.fuzz.fixed import fixed
from tests.fuzz.hostile import Category
from tests.fuzz.samples import SAMPLES, Sample
from tests.fuzz.watch import filled, judge, snapshot

INPUTS = fixed()
LONGEST_S = 300
COMMANDS = {"change", "joint", "reconstruct", "register", "info", "convert", "report", "view"}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")


@pytest.fixture
def _no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the viewer out of pages, and let `view` end where it would begin to serve."""

    def served(*_: object, **__: object) -> None:
        raise typer.Exit(0)

    monkeypatch.setattr(page, "viewer_part", {SCRIPT: "1", STYLE: "a {}"}.__getitem__)
    monkeypatch.setattr(page_server, "PageServer", served)


@pytest.mark.usefixtures("_no_viewer")
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=list(SAMPLES))
def test_whole_inputs_are_read(sample: Sample, tmp_path: Path) -> None:
    """The samples are good before they are damaged: otherwise nothing would be tested."""
    work = tmp_path / "work"
    (work / "in").mkdir(parents=True)
    sample.put(work / "in")
    for words in sample.commands[:2]:
        ran = duotomo(*filled(words, work))
        assert ran.code in ((2,) if sample.name == "checkpoint" else (0, NOT_TRUSTED)), (words, ran.err)


@pytest.mark.parametrize("tried_input", INPUTS)
def test_hostile_inputs_do_no_harm(tried_input: str, ends: Mapping[str, Future[Ended]]) -> None:
    if INPUTS[tried_input].category is Category.PERMISSION and os.geteuid() == 0:
        pytest.skip("root may read everything")
    assert ends[tried_input].result().fault is None


def test_there_are_enough_of_them() -> None:
    assert len(INPUTS) >= 1000
    assert {hostile.category for hostile in INPUTS.values()} == set(Category)
    assert {hostile.words[0] for hostile in INPUTS.values()} == COMMANDS
    for sample in SAMPLES:
        assert sum(f"/{sample}/" in f"/{one.name}/" for one in INPUTS.values()) >= 5, sample


PROCESSES = (
    "claimed size: npy/",
    "XML entity: rtk/laughs",
    "pickle: npy/objects",
    "deep nesting: geometry/list",
    "path out of the folder: mhd/data in /etc/passwd",
)


@pytest.mark.parametrize("start", PROCESSES)
def test_processes_of_their_own_end_the_same_way(start: str, tmp_path: Path) -> None:
    """As a shell would run it: the exit code is that of the process, and nothing goes to standard output."""
    hostile = next(one for name, one in INPUTS.items() if name.startswith(start) and one.words[0] != "info")
    (tmp_path / "work/in").mkdir(parents=True)
    hostile.make(tmp_path / "work/in")
    before = snapshot(tmp_path)
    code = f"from duotomo.cli import main; main({filled(hostile.words, tmp_path / 'work')!r})"
    done = _apart(code, tmp_path)
    judge(hostile, Ran(done.returncode, done.stdout, done.stderr), tmp_path / "work")
    assert snapshot(tmp_path) == before


def _apart(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, for as long as nothing takes."""
    # pytest's own path is relative, and the process starts elsewhere.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
        timeout=LONGEST_S,
    )
