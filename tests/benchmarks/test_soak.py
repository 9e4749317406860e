"""Soak runs measure what they say, find what grows, and find nothing in short runs of joint and view."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from benchmarks import soak, soak_clients, soak_joint, soak_view
from benchmarks.usage import Limits, Usage, verdict

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")

LIMITS = Limits(warm_up=5, mib_each=0.05, mib=16.0, objects_each=2.0)
SHORT = Limits(warm_up=2, mib_each=8.0, mib=16.0, objects_each=2000.0)
"""For runs so short that memory is still settling: what they find are threads, handles and files."""


def moments(n: int = 50, **each: float) -> list[Usage]:
    """Return level moments, to which something comes on with each; memory wavers by 1 MiB."""
    level = Usage(seconds=0.0, resident_mib=700.0, n_threads=3, n_handles=7, n_temporary=1, n_objects=1000)
    wavering = [replace(level, resident_mib=700.0 + (7 * i % 5 - 2) / 2) for i in range(n)]
    return [
        replace(
            one,
            **{name: getattr(one, name) + type(getattr(one, name))(i * more) for name, more in each.items()},
        )
        for i, one in enumerate(wavering)
    ]


def test_what_wavers_is_level() -> None:
    found = verdict(moments(), LIMITS)
    assert found.level
    assert str(found).startswith("level: ")


@pytest.mark.parametrize(
    ("each", "fault"),
    [
        ({"resident_mib": 0.1}, "MiB from one moment to the next, expected at most 0.05"),
        ({"resident_mib": 1.0}, "MiB in all, expected at most 16"),
        ({"n_objects": 3.0}, "3 objects from one moment to the next, expected at most 2"),
        ({"n_threads": 0.03}, "threads from 3 to 4, expected equal"),
        ({"n_handles": 1.0}, "handles from 12 to 56, expected equal"),
        ({"n_temporary": 0.03}, "temporary from 1 to 2, expected equal"),
    ],
)
def test_what_grows_is_found(each: dict[str, float], fault: str) -> None:
    found = verdict(moments(**each), LIMITS)
    assert not found.level
    assert any(fault in one for one in found.faults), found.faults
    assert "NOT LEVEL" in str(found)


def test_what_comes_while_it_warms_up_does_not_count() -> None:
    warming = [replace(one, resident_mib=600.0, n_threads=1) for one in moments(5)]
    assert verdict([*warming, *moments(30)], LIMITS).level


def test_too_few_moments_say_nothing() -> None:
    with pytest.raises(ValueError, match="expected two moments or more after a warm-up of 5; got 1"):
        verdict(moments(6), LIMITS)


def test_a_process_shows_what_it_holds(tmp_path: Path) -> None:
    before, stop = Usage.of(os.getpid(), tmp_path), Event()
    thread = Thread(target=stop.wait)
    thread.start()
    held = bytearray(os.urandom(1) * (64 * 2**20))
    with (tmp_path / "file").open("w"):
        after = Usage.of(os.getpid(), tmp_path)
    stop.set()
    thread.join()
    assert (after.n_threads - before.n_threads, after.n_handles - before.n_handles) == (1, 1)
    assert after.n_temporary - before.n_temporary == 1
    assert after.resident_mib - before.resident_mib > 0.9 * len(held) / 2**20


def test_joint_runs_in_one_process_stay_level() -> None:
    assert verdict(list(soak_joint.soak_joint(5)), SHORT).faults == ()


def test_a_handle_that_a_run_keeps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    def keeping(_: Path, out: Path, said: io.StringIO) -> None:
        out.mkdir(exist_ok=True)
        kept.append(os.open(os.devnull, os.O_RDONLY))

    monkeypatch.setattr(soak_joint, "run_joint", keeping)
    found = verdict(list(soak_joint.soak_joint(5)), SHORT)
    for one in kept:
        os.close(one)
    assert [fault.split()[0] for fault in found.faults] == ["handles"]


def test_a_run_that_ends_otherwise_is_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"expected a result and exit code 3; got 2: .*got nothing there"):
        soak_joint.run_joint(tmp_path / "none.h5", tmp_path, io.StringIO())


def test_a_server_stays_level_under_load_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_view, "LOAD_S", 1.5)
    asked: Counter[str] = Counter()
    ends: dict[str, float] = {}
    found = list(soak_view.soak_view(0.1, asked, ends))
    assert verdict(found, replace(SHORT, warm_up=0)).faults == ()
    assert sum(asked.values()) > 10
    assert soak.faults_of_end(ends) == []
    assert ends["end_seconds"] < soak_clients.END_S
    assert ends["most_n_threads"] <= found[0].n_threads + 2 * soak_view.N_CLIENTS


def test_a_server_that_answers_otherwise_is_said() -> None:
    with pytest.raises(soak_clients.WrongAnswerError, match="expected the status 200 or 304; got 404"):
        soak_clients.expect(404, 200, 304)


@pytest.mark.parametrize(("grows", "code"), [({}, 0), ({"n_handles": 1.0}, 1)])
def test_the_exit_code_says_whether_something_grows(
    grows: dict[str, float],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(soak_joint, "soak_joint", lambda n_runs: iter(moments(n_runs, **grows)))
    assert soak.main(["joint", "--runs", "60", "--json", str(tmp_path / "joint.json")]) == code
    assert ("NOT LEVEL" in capsys.readouterr().out) == bool(code)
    content = json.loads((tmp_path / "joint.json").read_text())
    assert len(content["moments"]) == 60
    assert bool(content["verdict"]["faults"]) == bool(code)


@pytest.mark.parametrize(("left", "code"), [(0, 0), (1, 1)])
def test_what_a_server_leaves_behind_is_a_fault(
    left: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ending(minutes: float, asked: Counter[str], ends: dict[str, float]) -> Iterator[Usage]:
        asked["page"] += 3
        yield from moments(60)
        ends |= {"exit_code": 0, "n_temporary": left, "n_tracebacks": 0}

    monkeypatch.setattr(soak_view, "soak_view", ending)
    assert soak.main(["view", "--minutes", "1"]) == code
    said = capsys.readouterr().out
    assert "3 requests: 3 page" in said
    assert ("n_temporary 1, expected 0" in said) == bool(left)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("joint", "--runs", "60"), ("view", "--minutes", "3", "--warm-up", "9")], ids=["joint", "view"]
)
def test_longer_runs_stay_level(words: tuple[str, ...]) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", *words], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
