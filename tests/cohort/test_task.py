"""A case on a worker: how it ends, whatever becomes of its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from duotomo.cohort import task as tasks
from duotomo.cohort.task import DONE, KILLED, REFUSED, STOPPED, TOO_LARGE, Outcome, Task, run_case
from duotomo.io.durable import held


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PROGRAM", "tests.cohort.fake_command")


def task_of(folder: Path, how: str) -> Task:
    (folder / "scan").write_text(how)
    (folder / "session").write_text("key")
    return Task(
        name="a",
        words=("joint", str(folder / "scan")),
        out=str(folder / "out"),
        log=str(folder / "log.txt"),
        thumbnail=str(folder / "a.png"),
        session=str(folder / "session"),
        key="key",
        n_threads=1,
        n_retries=1,
        patience_s=0.3,
    )


def test_a_case_ends_as_its_command_does(tmp_path: Path) -> None:
    ended = run_case(task_of(tmp_path, "well"))
    assert (ended.code, ended.error, ended.attempts) == (DONE, "", 1)
    words = json.loads((tmp_path / "out" / "words.json").read_text())
    assert words[2:] == ["--out", str(tmp_path / "out"), "--resume", "--json", "--threads", "1"]


def test_what_a_command_refuses_is_said(tmp_path: Path) -> None:
    ended = run_case(task_of(tmp_path, "refused"))
    assert (ended.code, ended.attempts) == (REFUSED, 1)
    assert ended.error.endswith("expected views")


def test_a_process_that_is_killed_is_gone_on_with(tmp_path: Path) -> None:
    ended = run_case(task_of(tmp_path, "killed once"))
    assert (ended.code, ended.attempts) == (DONE, 2)
    assert "attempt 2 from its checkpoint" in (tmp_path / "log.txt").read_text()


def test_a_process_that_is_killed_again_and_again_is_given_up(tmp_path: Path) -> None:
    ended = run_case(task_of(tmp_path, "killed"))
    assert (ended.code, ended.attempts) == (KILLED, 2)
    assert "got SIGKILL, 2 times" in ended.error


def test_more_memory_than_its_share_ends_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "share_bytes", lambda: 200_000_000)
    ended = run_case(task_of(tmp_path, "large"))
    assert (ended.code, ended.attempts) == (TOO_LARGE, 1)
    assert "at most 0.2 GB, its share" in ended.error


def test_a_case_that_nobody_waits_for_is_stopped(tmp_path: Path) -> None:
    task, ended = task_of(tmp_path, "long"), list[Outcome]()
    worker = threading.Thread(target=lambda: ended.append(run_case(task)))
    worker.start()
    pid = int(_written(tmp_path / "out" / "checkpoint.h5"))
    Path(task.session).write_text("another")
    worker.join(timeout=20)
    assert ended[0].code == STOPPED
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert run_case(replace(task, key="none")).code == STOPPED


def test_another_writer_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    task = task_of(tmp_path, "well")
    with held("test", Path(task.out)):
        ended = run_case(task)
    assert (ended.code, ended.attempts) == (REFUSED, 0)
    assert "got another run" in ended.error
    assert run_case(task).code == DONE


def test_a_command_dies_with_the_worker_that_is_killed(tmp_path: Path) -> None:
    task = task_of(tmp_path, "long")
    source = (
        f"import duotomo.cohort.task as t\nt.PROGRAM = 'tests.cohort.fake_command'\nt.run_case(t.{task!r})\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", source])
    pid = int(_written(tmp_path / "out" / "checkpoint.h5"))
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and _state(pid) != "Z" and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists() or _state(pid) == "Z"
    # Its lock is gone as well.
    (tmp_path / "scan").write_text("well")
    assert run_case(task).code == DONE


def test_a_command_whose_parent_is_gone_does_not_begin(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "duotomo.cohort.child", "1", "tests.cohort.fake_command", "joint"]
    assert subprocess.run(words, check=False).returncode == 1


def _written(path: Path) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(path)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
