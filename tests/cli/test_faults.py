"""Every command that computes: killed, without disk or folder, or with other inputs, it loses nothing."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from duotomo.io import CheckpointFile, SavedResult, read_result, write_study, write_volume
from duotomo.io import durable as durable_files
from duotomo.io.durable import locked
from duotomo.transforms import Translation
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.cli.test_register import GRID, SHIFT_MM, blob
from tests.cli.tiny import tiny_study
from tests.io.saved_helpers import KilledError, python


@dataclass(frozen=True)
class Computation:
    """A command, where `{in}` is the folder of its inputs, and what it ends with."""

    words: tuple[str, ...]
    code: int = 0

    def __call__(self, inputs: Path, out: Path, *more: object) -> Any:
        words = [word.replace("{in}", str(inputs)) for word in self.words]
        return duotomo(*words, "--out", out, *more)


COMPUTATIONS = {
    "joint": Computation(
        ("joint", "{in}/study.h5", "--transform", "translation", "--steps", "3"), NOT_TRUSTED
    ),
    "reconstruct": Computation(("reconstruct", "{in}/study.h5", "--steps", "60"), NOT_TRUSTED),
    "register": Computation(
        ("register", "{in}/one.nii.gz", "{in}/two.nii.gz", "--transform", "rigid", "--steps", "5")
    ),
}


def write_inputs(folder: Path, factor: float = 1.0) -> None:
    study = tiny_study()
    visits = tuple(replace(one, projections=factor * one.projections) for one in study.visits)
    write_study(folder / "study.h5", replace(study, visits=visits))
    shift = Translation(GRID)
    moved = shift.warp(shift.params(translation_mm=SHIFT_MM), GRID, GRID)(blob())
    write_volume(folder / "one.nii.gz", factor * blob(), GRID)
    write_volume(folder / "two.nii.gz", moved, GRID)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(
    scope="module", params=[pytest.param("joint", marks=pytest.mark.slow), "reconstruct", "register"]
)
def finished(
    request: pytest.FixtureRequest, inputs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Computation, Path]:
    """Give a computation, and the folder of its result, which no test changes."""
    compute, out = COMPUTATIONS[request.param], tmp_path_factory.mktemp(request.param)
    ran = compute(inputs, out)
    assert ran.code == compute.code, ran.err
    return compute, out


def same(one: SavedResult, other: SavedResult) -> bool:
    """Return whether two results are equal bit for bit, but for the seconds that they took."""
    steps = [[replace(step, seconds=0.0) for step in found.history] for found in (one, other)]
    return (
        torch.equal(one.volume, other.volume)
        and list(one.others) == list(other.others)
        and all(torch.equal(one.others[name], other.others[name]) for name in one.others)
        and all(torch.equal(a, b) for a, b in zip(one.params, other.params, strict=True))
        and steps[0] == steps[1]
        and (one.status, one.reason, one.applications) == (other.status, other.reason, other.applications)
    )


def stop_at_save(monkeypatch: pytest.MonkeyPatch, then: Any) -> None:
    """Let something happen right after the first checkpoint was written."""
    save = CheckpointFile.save

    def stopping(file: CheckpointFile, state: Any) -> None:
        save(file, state)
        then()

    monkeypatch.setattr(CheckpointFile, "save", stopping)


def killed(*_: object) -> None:
    raise KilledError


def test_a_killed_run_goes_on_to_the_same_result(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    with monkeypatch.context() as patch:
        stop_at_save(patch, killed)
        with pytest.raises(KilledError):
            compute(inputs, tmp_path)
    assert os.listdir(tmp_path) == ["checkpoint.h5"]
    assert compute(inputs, tmp_path).code == 2
    ran = compute(inputs, tmp_path, "--resume")
    assert ran.code == compute.code, ran.err
    assert "Resuming in stage" in ran.err
    assert same(read_result(tmp_path), read_result(expected))
    assert not (tmp_path / "checkpoint.h5").exists()


def test_inputs_that_changed_are_not_resumed(
    finished: tuple[Computation, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    (tmp_path / "in").mkdir()
    write_inputs(tmp_path / "in")
    with monkeypatch.context() as patch:
        stop_at_save(patch, killed)
        with pytest.raises(KilledError):
            compute(tmp_path / "in", tmp_path / "out")
    write_inputs(tmp_path / "in", factor=1.5)
    ran = compute(tmp_path / "in", tmp_path / "out", "--resume")
    assert ran.code == 2
    assert "another study" in ran.err
    assert os.listdir(tmp_path / "out") == ["checkpoint.h5"]


def test_a_finished_run_is_not_computed_again(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "save", killed)
        ran = compute(inputs, tmp_path / "out", "--resume")
    assert ran.code == compute.code, ran.err
    assert "Finished already" in ran.out
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    damaged = tmp_path / "out" / "README.txt"
    damaged.write_text("mine" + damaged.read_text()[4:])
    ran = compute(inputs, tmp_path / "out", "--resume")
    assert ran.code == 2
    assert "expected README.txt as it was written" in ran.err


def test_the_result_of_another_run_is_not_resumed(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    ran = compute(inputs, tmp_path / "out", "--resume", "--steps", 2)
    assert ran.code == 2
    assert "got the result of one with another settings. Leave out --resume" in ran.err


def test_a_folder_that_is_removed_ends_the_run(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    with monkeypatch.context() as patch:
        stop_at_save(patch, lambda: shutil.rmtree(tmp_path / "out", ignore_errors=True))
        ran = compute(inputs, tmp_path / "out")
    assert ran.code == 2
    assert "expected" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_noticed_before_anything_is_computed(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    open_file = os.open

    def read_only(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and Path(path).parent == tmp_path:
            raise PermissionError(13, "Permission denied")
        return open_file(path, flags, *mode)

    with monkeypatch.context() as patch:
        # Not by its mode: root may write everywhere.
        patch.setattr(durable_files.os, "open", read_only)
        patch.setattr(CheckpointFile, "save", killed)
        ran = compute(inputs, tmp_path)
    assert ran.code == 2
    assert "Check that the folder can be written to" in ran.err
    assert os.listdir(tmp_path) == []


def test_two_runs_do_not_share_a_folder(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path
) -> None:
    compute, _ = finished
    with locked("another", tmp_path):
        ran = compute(inputs, tmp_path)
    assert ran.code == 2
    assert "got another run that writes there" in ran.err


def test_a_file_of_somebody_else_is_noticed_before_anything_is_computed(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    (tmp_path / "README.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "save", killed)
        ran = compute(inputs, tmp_path)
    assert ran.code == 2
    assert "got a file that is of no result there. Move it away" in ran.err
    assert (tmp_path / "README.txt").read_text() == "mine"


def test_a_page_that_cannot_be_written_leaves_the_older_result(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    replace_file = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).name == "report.html":
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        ran = compute(inputs, tmp_path / "out", "--format", "nrrd")
    assert ran.code == 2
    assert "No space left on device" in ran.err
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {name: data for name, data in after.items() if name != "checkpoint.h5"} == before


def test_all_is_for_its_owner_only(finished: tuple[Computation, Path], inputs: Path, tmp_path: Path) -> None:
    compute, expected = finished
    assert {path.stat().st_mode & 0o777 for path in expected.iterdir()} == {0o600}
    ran = compute(inputs, tmp_path / "new" / "out", "--max-memory", "0")
    assert ran.code == 2
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("new/**/")} == {0o700}


KILLS, SIZES = 20, 10

DRIVER = """
import os, random, resource, signal, sys, time, traceback
kind, inputs, out, seconds, n = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
code, words = int(sys.argv[6]), sys.argv[7:]
# Imported once: that takes longer than all else. Threads start in the children only.
import duotomo.cli, duotomo.io, duotomo.methods, duotomo.reconstruct, duotomo.report.page, matplotlib.figure
from duotomo.io import read_result

def start(*more, limit=None):
    child = os.fork()
    if child:
        return child
    sys.stderr = sys.stdout = open(os.devnull, "w")
    ends = 70
    try:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        duotomo.cli.main([*words, "--out", out, *more])
    except SystemExit as end:
        ends = end.code or 0
    finally:
        os._exit(ends if isinstance(ends, int) else 70)

def ended(child):
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)

def generation():
    try:
        return read_result(out).volume.sum().item()
    except duotomo.io.FileError as error:
        assert "nothing there" in str(error), error
        return None

moments = random.Random(0)
if kind == "kill":
    n_killed = 0
    for number in range(n):
        child = start("--resume")
        time.sleep(moments.uniform(0.2, 1.0) * seconds)
        os.kill(child, signal.SIGKILL)
        n_killed += ended(child) == -9
        generation()
    assert ended(start("--resume")) == code
    print(n_killed, generation())
else:
    before, codes = generation(), set()
    largest = max(entry.stat().st_size for entry in os.scandir(out))
    for tenth in range(n):
        codes.add(ended(start(limit=largest * tenth // n)))
        assert generation() == before, (tenth, generation())
        if os.path.exists(out + "/checkpoint.h5"):
            os.remove(out + "/checkpoint.h5")
    print(sorted(codes), sorted(name for name in os.listdir(out) if name.startswith(".")))
"""


def drive(kind: str, compute: Computation, inputs: Path, out: Path, n: int, seconds: float = 0.0) -> str:
    words = [word.replace("{in}", str(inputs)) for word in compute.words]
    done = python(DRIVER, kind, str(inputs), str(out), str(seconds), str(n), str(compute.code), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_runs_killed_at_twenty_moments_end_in_the_same_result(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    found = drive("kill", compute, inputs, tmp_path, KILLS, seconds=max(2.0, read_result(expected).seconds))
    assert found.split()[1] == str(read_result(expected).volume.sum().item())
    assert same(read_result(tmp_path), read_result(expected))


@pytest.mark.slow
def test_a_disk_that_is_full_at_ten_sizes_leaves_the_older_result(
    finished: tuple[Computation, Path], inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    assert drive("full", compute, inputs, tmp_path / "out", SIZES) == "[2] []"
    assert same(read_result(tmp_path / "out"), read_result(expected))
