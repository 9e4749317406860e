"""A case on a worker: how it ends, whatever becomes of its process."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from duotomo.cohort import forkserver
from duotomo.cohort import task as tasks
from duotomo.cohort.programs import MODULES, ForkServer, ForkServers
from duotomo.cohort.task import DONE, KILLED, REFUSED, STOPPED, TOO_LARGE, Outcome, Task, run_case
from duotomo.io.durable import held


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tasks, "PROGRAM", "tests.cohort.fake_command")
    servers = ForkServers(modules=())
    monkeypatch.setattr(tasks, "_SERVERS", servers)
    yield
    servers.close()


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
        begun=str(folder / "begun"),
        digest="1",
        n_threads=1,
        n_retries=1,
        patience_s=0.3,
    )


def test_a_case_ends_as_its_command_does(tmp_path: Path) -> None:
    ended = run_case(task_of(tmp_path, "well"))
    assert (ended.code, ended.error, ended.attempts) == (DONE, "", 1)
    words = json.loads((tmp_path / "out" / "words.json").read_text())
    assert words[2:] == ["--out", str(tmp_path / "out"), "--json", "--threads", "1", "--resume"]


def test_what_other_scans_or_options_left_is_not_gone_on_with(tmp_path: Path) -> None:
    task, kept = task_of(tmp_path, "well"), tmp_path / "out" / "checkpoint.h5"
    words = tmp_path / "out" / "words.json"

    def resumed(digest: str, *, checkpoint: bool) -> bool:
        if checkpoint:
            kept.write_text("state")
        assert run_case(replace(task, digest=digest)).code == DONE
        return "--resume" in json.loads(words.read_text())

    assert resumed("1", checkpoint=False)
    assert resumed("1", checkpoint=True)
    # Its checkpoint is removed: the command would refuse to begin beside it.
    assert not resumed("2", checkpoint=True)
    # The result in the folder may still be that of the first.
    assert not resumed("2", checkpoint=False)
    assert resumed("2", checkpoint=True)
    Path(task.begun).unlink()
    assert resumed("3", checkpoint=False)


def test_cases_are_forks_of_one_process_and_know_nothing_of_each_other(tmp_path: Path) -> None:
    task = task_of(tmp_path, "well")
    assert run_case(task).code == DONE
    (before,) = tasks._SERVERS._idle
    assert run_case(task).code == DONE
    assert tasks._SERVERS._idle == [before]
    assert before.pid != before._process.pid
    # One that is gone is replaced, and so is one of another number of threads.
    before._process.kill()
    before._process.wait()
    assert run_case(task).code == DONE
    (other,) = tasks._SERVERS._idle
    assert other is not before
    assert run_case(replace(task, n_threads=2)).code == DONE
    assert [server.n_threads for server in tasks._SERVERS._idle] == [1, 2]
    tasks._SERVERS.close()
    assert not other.is_there


def test_modules_that_are_imported_first_are_there() -> None:
    for name in MODULES:
        assert importlib.util.find_spec(name), name


def test_a_fork_has_what_its_process_has_imported(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    with said.open("wb") as file:
        server = ForkServer(1, file, modules=["graphlib", "no.such.module"])
        try:
            assert server.begin("tests.cohort.says_modules", ["graphlib", "json"], file, file) is None
            assert server.ended(30.0) == 7
        finally:
            server.close()
    assert said.read_text() == "graphlib 1 2\n"
    with said.open("ab") as file:
        assert server.begin("tests.cohort.says_modules", [], file, file) == -signal.SIGKILL


def test_nothing_is_imported_beforehand_where_forks_could_then_not_use_a_gpu(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as file:
        server = ForkServer(1, file, modules=["graphlib", "tests.cohort.looks_at_cuda"])
        try:
            assert server.begin("tests.cohort.says_modules", ["graphlib", "torch"], file, file) is None
            assert server.ended(60.0) == 7
        finally:
            server.close()
    assert said.read_text() == "1 2\n"


@pytest.mark.parametrize("before", [None, "0"])
def test_a_gpu_is_counted_by_its_driver_while_modules_are_imported_and_no_longer(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def looking(_: str) -> None:
        seen.append(os.environ.get(forkserver.ASK_THE_DRIVER))

    monkeypatch.setattr(importlib, "import_module", looking)
    if before is None:
        monkeypatch.delenv(forkserver.ASK_THE_DRIVER, raising=False)
    else:
        monkeypatch.setenv(forkserver.ASK_THE_DRIVER, before)
    assert forkserver.imported(["torch"])
    assert seen == ["1"]
    assert os.environ.get(forkserver.ASK_THE_DRIVER) == before


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
        f"import duotomo.cohort.task as t\nt.PROGRAM = 'tests.cohort.fake_command'\n"
        f"t._SERVERS = t.ForkServers(modules=())\nt.run_case(t.{task!r})\n"
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
