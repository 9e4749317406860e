"""Every command that computes: killed, without disk or folder, or with other inputs, it loses nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from duotomo.io import read_result
from tests.cli.commands import Ran
from tests.cli.faults import (
    CHECKPOINTED,
    COMPUTATIONS,
    RESULTS,
    WRITERS,
    Computation,
    Place,
    prepare,
    same,
    write_inputs,
)
from tests.io.saved_helpers import KilledError, killed_at, python

LONG, MANY_FILES = ("joint", "change", "demo"), ("simulate", "convert to views")
"""Computations that take seconds for every run, and that can be killed at dozens of moments."""

Finished = tuple[Computation, Path]
"""A computation, and the folder that it left."""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch.setattr)
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def finished(
    request: pytest.FixtureRequest, inputs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    """Give a computation, and the folder that it left, which no test changes."""
    compute, out = COMPUTATIONS[request.param], tmp_path_factory.mktemp("finished") / "out"
    ran = compute(inputs, out)
    assert ran.code == compute.code, ran.err
    return compute, out


def of(names: Iterable[str], *, slow: Iterable[str] = LONG) -> pytest.MarkDecorator:
    """Let a test run for each of these computations."""
    params = [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in names]
    return pytest.mark.parametrize("finished", params, indirect=True, scope="module")


def at(place: Place, patch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Let something happen right after a function was called."""
    function = getattr(*place)

    def stopping(*arguments: Any, **options: Any) -> Any:
        done = function(*arguments, **options)
        then()
        return done

    patch.setattr(*place, stopping)


def killed(*_: object, **__: object) -> None:
    raise KilledError


def interrupted() -> None:
    raise KeyboardInterrupt


def seen(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder but those that are not finished."""
    paths = (path for path in folder.rglob("*") if path.is_file() and ".unfinished" not in str(path))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def older(compute: Computation, inputs: Path, out: Path, expected: Path) -> None:
    """Make a folder in which something older is."""
    if compute.older:
        assert compute(inputs, out, *compute.older).code == compute.code
    else:
        shutil.copytree(expected, out)


@of(COMPUTATIONS)
def test_a_run_killed_midway_goes_on_to_the_same(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        at(compute.midway, patch, killed)
        with pytest.raises(KilledError):
            compute(inputs, out)
    if compute in RESULTS.values():
        assert os.listdir(out) == ["checkpoint.h5"]
    if compute.resume:
        ran = compute(inputs, out)
        assert ran.code == 2
        assert "Pass --resume to go on with it" in ran.err
    ran = compute(inputs, out, *compute.resume)
    assert ran.code == compute.code, ran.err
    assert ("Resuming in stage" in ran.err) == bool(compute.resume)
    assert compute.state(out) == compute.state(expected)
    assert sorted(seen(out)) == sorted(seen(expected))
    if compute in RESULTS.values():
        assert same(read_result(out), read_result(expected))


@of(COMPUTATIONS)
def test_ctrl_c_ends_with_its_code_and_the_next_run_with_a_result(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        at(compute.midway, patch, interrupted)
        ran = compute(inputs, out)
    assert ran.code == 130, ran.err
    assert "Stopped." in ran.err
    assert "Traceback" not in ran.err
    assert compute(inputs, out, *compute.resume).code == compute.code
    assert compute.state(out) == compute.state(expected)


@of(WRITERS, slow=MANY_FILES)
@pytest.mark.parametrize("after", [False, True])
def test_files_are_the_older_ones_or_the_new_ones_whenever_a_run_is_killed(
    finished: Finished, inputs: Path, tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    new = compute.state(expected)
    for call in count(1):
        out = tmp_path / f"out_{call}"
        older(compute, inputs, out, expected)
        old, before = compute.state(out), seen(out)
        with (
            killed_at(call, after=after, monkeypatch=monkeypatch) as calls,
            suppress(KilledError),
        ):
            compute(inputs, out)
        if len(calls) < call:
            break
        assert compute.state(out) in (old, new), calls
        # What lies under its own name is of one set.
        there = {name for name, data in seen(out).items() if seen(expected)[name] != before.get(name)}
        assert len({seen(out)[name] == before.get(name) for name in there}) < 2, calls
        ran = compute(inputs, out)
        assert ran.code == compute.code, (calls, ran.err)
        assert compute.state(out) == new
        assert not list(out.glob(".*"))
    assert call > 5


@of(RESULTS)
def test_inputs_that_changed_are_not_resumed(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    (tmp_path / "in").mkdir()
    write_inputs(tmp_path / "in")
    with monkeypatch.context() as patch:
        at(compute.midway, patch, killed)
        with pytest.raises(KilledError):
            compute(tmp_path / "in", tmp_path / "out")
    write_inputs(tmp_path / "in", factor=1.5)
    ran = compute(tmp_path / "in", tmp_path / "out", "--resume")
    assert ran.code == 2
    assert "another study" in ran.err
    assert os.listdir(tmp_path / "out") == ["checkpoint.h5"]


@of(CHECKPOINTED)
def test_a_finished_run_is_not_computed_again(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    before = seen(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(*compute.midway, killed)
        ran = compute(inputs, tmp_path / "out", *compute.resume)
    assert ran.code == compute.code, ran.err
    assert "Finished already" in ran.out or ran.out.count("finished before") == 6
    assert seen(tmp_path / "out") == before


@of(RESULTS)
def test_a_result_that_was_changed_is_not_taken_for_finished(
    finished: Finished, inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    damaged = tmp_path / "out" / "README.txt"
    damaged.write_text("mine" + damaged.read_text()[4:])
    ran = compute(inputs, tmp_path / "out", "--resume")
    assert ran.code == 2
    assert "expected README.txt as it was written" in ran.err


@of(RESULTS)
def test_the_result_of_another_run_is_not_resumed(finished: Finished, inputs: Path, tmp_path: Path) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    ran = compute(inputs, tmp_path / "out", "--resume", "--steps", 2)
    assert ran.code == 2
    assert "got the result of one with another settings. Leave out --resume" in ran.err


@of(COMPUTATIONS)
def test_a_folder_that_is_removed_ends_the_run(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        at(compute.midway, patch, lambda: shutil.rmtree(out, ignore_errors=True))
        ran = compute(inputs, out)
    assert ran.code == 2
    assert "expected" in ran.err
    assert "unforeseen" not in ran.err
    assert not out.exists()
    assert compute(inputs, out, *compute.resume).code == compute.code
    assert compute.state(out) == compute.state(expected)


@of(COMPUTATIONS)
def test_a_folder_that_cannot_be_written_to_is_noticed_before_anything_is_computed(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    out = tmp_path / "out"
    compute.given(inputs, out)
    out.mkdir(exist_ok=True)
    before, open_file, make_folder = seen(out), os.open, os.mkdir

    def refused(path: Any) -> None:
        if out in (Path(path), *Path(path).parents):
            raise PermissionError(13, "Permission denied")

    def read_only_open(path: Any, flags: int, *mode: Any, **more: Any) -> int:
        if flags & os.O_CREAT:
            refused(path)
        return open_file(path, flags, *mode, **more)

    def read_only_mkdir(path: Any, *mode: Any, **more: Any) -> None:
        if not os.path.isdir(path):
            refused(path)
        make_folder(path, *mode, **more)

    with monkeypatch.context() as patch:
        # Not by its mode: root may write everywhere.
        patch.setattr(os, "open", read_only_open)
        patch.setattr(os, "mkdir", read_only_mkdir)
        patch.setattr(*compute.begins, killed)
        ran = compute(inputs, out)
    assert ran.code == 2
    assert "can be written to" in ran.err
    assert seen(out) == before


@of(COMPUTATIONS)
def test_two_runs_do_not_share_a_folder(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    out = tmp_path / "out"
    others: list[Ran | None] = []

    def run_another() -> None:
        if not others:
            others.append(None)
            others.append(compute(inputs, out, *compute.resume))

    with monkeypatch.context() as patch:
        at(compute.midway, patch, run_another)
        ran = compute(inputs, out)
    assert ran.code == compute.code, ran.err
    assert others[1] is not None
    assert others[1].code == 2
    assert "got another run that writes there" in others[1].err
    assert compute.state(out) == compute.state(expected)


@of((*RESULTS, "demo"))
def test_a_file_of_somebody_else_is_noticed_before_anything_is_computed(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = finished
    theirs = tmp_path / compute.foreign
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(*compute.begins, killed)
        ran = compute(inputs, tmp_path)
    assert ran.code == 2
    assert "got a file that is of no result there. Move it away" in ran.err
    assert theirs.read_text() == "mine"


@of(RESULTS)
def test_a_page_that_cannot_be_written_leaves_the_older_result(
    finished: Finished, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, expected = finished
    shutil.copytree(expected, tmp_path / "out")
    before = seen(tmp_path / "out")
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
    after = seen(tmp_path / "out")
    assert {name: data for name, data in after.items() if name != "checkpoint.h5"} == before


@of(COMPUTATIONS)
def test_all_is_for_its_owner_only(finished: Finished) -> None:
    _, expected = finished
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in expected.rglob("*")}
    assert modes.get(False) == 0o600
    assert modes.get(True, 0o700) == 0o700


@of(RESULTS)
def test_folders_above_are_for_their_owner_only(finished: Finished, inputs: Path, tmp_path: Path) -> None:
    ran = finished[0](inputs, tmp_path / "new" / "out", "--max-memory", "0")
    assert ran.code == 2
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("new/**/")} == {0o700}


KILLS, SIZES = 20, 10

DRIVER = """
import os, random, resource, shutil, signal, sys, time
from pathlib import Path
kind, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
inputs, out, expected = map(Path, sys.argv[4:])
# Imported once: that takes longer than all else. Threads start in the children only.
import duotomo.cli, duotomo.io, duotomo.methods, duotomo.reconstruct, duotomo.report.page, matplotlib.figure
from tests.cli.faults import COMPUTATIONS, WRITERS, prepare
prepare(setattr)
compute = COMPUTATIONS[name]

def start(*more, limit=None, to=out):
    words = compute.given(inputs, to)
    child = os.fork()
    if child:
        return child
    sys.stderr = sys.stdout = open(os.devnull, "w")
    ends = 70
    try:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        duotomo.cli.main([*words, *more])
    except SystemExit as end:
        ends = end.code or 0
    finally:
        os._exit(ends if isinstance(ends, int) else 70)

def ended(child):
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)

def state():
    return compute.state(out) if out.exists() else None

moments = random.Random(0)
if kind == "kill":
    # What is compiled is there the second time.
    for number in range(2):
        began = time.monotonic()
        assert ended(start(to=out.with_name(f"timed_{number}"))) == compute.code
    seconds, n_killed, new = time.monotonic() - began, 0, compute.state(expected)
    whole = (state(), new)
    for attempt in range(10 * n):
        child = start(*compute.resume)
        time.sleep(moments.uniform(0.1, 1.0) * seconds)
        os.kill(child, signal.SIGKILL)
        # Raises unless it is whole.
        code, found = ended(child), state()
        n_killed += code == -9
        if name in WRITERS:
            assert found in whole, found
        elif code != -9:
            # It was done before: from the beginning, or there is nothing more to kill.
            assert (code, found) == (compute.code, new), (attempt, code, found, new)
            shutil.rmtree(out)
        if n_killed == n:
            break
    code = ended(start(*compute.resume))
    assert (code, state()) == (compute.code, new), (code, state(), new)
    print(n_killed)
else:
    before, codes = state(), set()
    largest = max(path.stat().st_size for path in expected.rglob("*") if path.is_file())
    for tenth in range(n):
        codes.add(ended(start(limit=largest * tenth // n)))
        if before is not None:
            assert state() == before, (tenth, state())
        for left in out.rglob("*checkpoint.h5"):
            left.unlink()
    hidden = sorted(path.name for path in out.rglob(".*"))
    assert ended(start(*compute.resume)) == compute.code
    assert state() == compute.state(expected)
    print(sorted(codes), hidden)
"""


def drive(kind: str, finished: Finished, inputs: Path, out: Path, n: int) -> str:
    compute, expected = finished
    name = next(name for name, one in COMPUTATIONS.items() if one is compute)
    done = python(DRIVER, kind, name, str(n), str(inputs), str(out), str(expected))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@of(COMPUTATIONS)
@pytest.mark.slow
def test_runs_killed_at_twenty_moments_end_in_the_same_state(
    finished: Finished, inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    if compute in WRITERS.values():
        older(compute, inputs, tmp_path / "out", expected)
    assert int(drive("kill", finished, inputs, tmp_path / "out", KILLS)) == KILLS
    if compute in RESULTS.values():
        assert same(read_result(tmp_path / "out"), read_result(expected))


@of(COMPUTATIONS)
@pytest.mark.slow
def test_a_disk_that_is_full_at_ten_sizes_leaves_what_is_older(
    finished: Finished, inputs: Path, tmp_path: Path
) -> None:
    compute, expected = finished
    # An experiment that is finished writes nothing.
    if compute is not COMPUTATIONS["reproduce"]:
        older(compute, inputs, tmp_path / "out", expected)
    assert drive("full", finished, inputs, tmp_path / "out", SIZES) == "[2] []"
