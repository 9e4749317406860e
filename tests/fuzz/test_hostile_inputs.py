"""No input breaks a command: it is refused with a message, or read; nothing is written elsewhere.

Every input that `tests.fuzz` generates is given to a command. It ends with exit code 2 and a message that
says what was expected and of which file; without a traceback, without taking much memory, without writing
anything outside the output, and without leaving something that looks like a result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from duotomo.report import page, page_server
from duotomo.report.page import SCRIPT, STYLE
from tests.cli.commands import NOT_TRUSTED, Ran, duotomo
from tests.fuzz.crafted import crafted
from tests.fuzz.damage import damaged
from tests.fuzz.headers import crashes
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import SAMPLES, Sample
from tests.fuzz.watch import filled, judge, run, snapshot

SEED = int(os.environ.get("DUOTOMO_FUZZ_SEED", "1"))
INPUTS = [*damaged(SEED), *crafted()]
LONGEST_S = 300
COMMANDS = {"joint", "reconstruct", "register", "info", "convert", "report", "view"}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")


@pytest.fixture(autouse=True)
def _no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the viewer out of pages, and let `view` end where it would begin to serve."""

    def served(*_: object, **__: object) -> None:
        raise typer.Exit(0)

    monkeypatch.setattr(page, "viewer_part", {SCRIPT: "1", STYLE: "a {}"}.__getitem__)
    monkeypatch.setattr(page_server, "PageServer", served)


@pytest.fixture(scope="module", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import and compile what the commands need, so that the memory they take is their own."""
    for name in ("scan", "volume nifti"):
        work = tmp_path_factory.mktemp("warm")
        SAMPLES[name].put(work / "in")
        duotomo(*filled(SAMPLES[name].commands[2], work))


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=list(SAMPLES))
def test_whole_inputs_are_read(sample: Sample, tmp_path: Path) -> None:
    """The samples are good before they are damaged: otherwise nothing would be tested."""
    work = tmp_path / "work"
    (work / "in").mkdir(parents=True)
    sample.put(work / "in")
    for words in sample.commands[:2]:
        ran = duotomo(*filled(words, work))
        assert ran.code in ((2,) if sample.name == "checkpoint" else (0, NOT_TRUSTED)), (words, ran.err)


@pytest.mark.parametrize("hostile", INPUTS, ids=str)
def test_hostile_inputs_do_no_harm(hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if hostile.category is Category.PERMISSION and os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ran = run(hostile, tmp_path)
    if hostile.fate is Fate.HARMLESS and ran.code == 0:
        assert json.loads(ran.out) == _whole(hostile, tmp_path)


def _whole(hostile: Hostile, folder: Path) -> object:
    """Return what the command says of the same input without the damage."""
    sample = SAMPLES[hostile.name.split("/")[1]]
    sample.put(folder / "whole/in")
    return json.loads(duotomo(*filled(hostile.words, folder / "whole")).out)


def test_there_are_enough_of_them() -> None:
    names = [str(hostile) for hostile in INPUTS]
    assert len(names) == len(set(names)) >= 200
    assert {hostile.category for hostile in INPUTS} == set(Category) - {Category.CRASH}
    assert {hostile.words[0] for hostile in INPUTS} == COMMANDS
    for sample in SAMPLES:
        assert sum(f"/{sample}/" in f"/{hostile.name}/" for hostile in INPUTS) >= 5, sample


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
    hostile = next(one for one in INPUTS if str(one).startswith(start) and one.words[0] != "info")
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


def test_headers_that_made_a_reader_crash_are_refused(tmp_path: Path) -> None:
    """In one process of their own, which a crash would end before the last of them."""
    cases = list(crashes())
    for number, hostile in enumerate(cases):
        (tmp_path / f"{number}/in").mkdir(parents=True)
        hostile.make(tmp_path / f"{number}/in")
    words = [filled(hostile.words, tmp_path / str(number)) for number, hostile in enumerate(cases)]
    code = (
        "import json; from tests.cli.commands import duotomo\n"
        f"for words in {words!r}: print(json.dumps(vars(duotomo(*words))), flush=True)"
    )
    done = _apart(code, tmp_path)
    ended = [Ran(**json.loads(line)) for line in done.stdout.splitlines()]
    for number, (hostile, ran) in enumerate(zip(cases, ended, strict=False)):
        judge(hostile, ran, tmp_path / str(number))
    assert len(ended) == len(cases), f"{cases[len(ended)]}: {done.returncode} {done.stderr}"
