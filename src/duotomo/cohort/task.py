"""One case on a worker: the command in a process of its own, and what became of it.

A worker gets paths and settings, and gives a few words back: no volume travels.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from duotomo.cohort.begun import goes_on
from duotomo.cohort.folder import CHECKPOINT
from duotomo.cohort.programs import ForkServer, ForkServers
from duotomo.cohort.thumbnail import draw_thumbnail
from duotomo.cohort.words import as_words
from duotomo.io.durable import locked
from duotomo.io.paths import FileError, make_folder

DONE, REFUSED, NOT_TRUSTED, INTERRUPTED = 0, 2, 3, 130
"""Exit codes of the commands."""

STOPPED, KILLED, TOO_LARGE = -1, -2, -3
"""Where there is no exit code: nobody waits for the result any more; killed by somebody, too often; and
stopped because it took more memory than its share."""

PROGRAM = "duotomo"
"""The module whose command a case is."""

_SERVERS = ForkServers()
"""Of this worker, which is a process: Dask has no other place for what tasks share."""

POLL_S = 0.2
_MOST_TEXT = 10_000


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker has to know of a case: all of it paths and numbers.

    words: of the command line, without what the worker adds. session: a file that holds `key` while somebody
    waits. begun, digest: as `duotomo.cohort.begun.goes_on` takes them. n_threads: for the computation.
    device_bytes: of a GPU's memory; on the CPU, the worker's own limit counts. n_retries: after the process
    was killed. patience_s: how long another writer to the folder, such as one that a lost worker left, is
    waited for.
    """

    name: str
    words: tuple[str, ...]
    out: str
    log: str
    thumbnail: str
    session: str
    key: str
    begun: str
    digest: str
    n_threads: int
    device_bytes: int | None = None
    n_retries: int = 3
    patience_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case. code: of the process. error: in words, "" if there is a result."""

    name: str
    code: int
    error: str
    attempts: int
    wall_s: float


def run_case(task: Task) -> Outcome:
    """Run the command of a case, again from its checkpoint if it is killed; return how it ended."""
    began, attempts, code, said = time.monotonic(), 0, STOPPED, ""
    if _wanted(task) and _wait_for(task):
        while True:
            attempts += 1
            code, said = _attempt(task, attempts)
            # A signal: the kernel short of memory, or a person.
            if code >= 0 or code in (STOPPED, TOO_LARGE) or attempts > task.n_retries:
                break
    elif _wanted(task):
        code, said = REFUSED, f"expected the folder for this case alone; got another run in {task.out}"
    if code < 0 and code not in (STOPPED, TOO_LARGE):
        name = signal.Signals(-code).name
        code, said = (
            KILLED,
            (
                f"expected to end by itself; got {name}, {attempts} times. If that was the system, short of "
                f"memory: run fewer at once, with `n_workers`, or use larger voxels."
            ),
        )
    error = "" if code in (DONE, NOT_TRUSTED) else said[:_MOST_TEXT] or f"ended with exit code {code}"
    if not error:
        with suppress(FileError):
            draw_thumbnail(Path(task.out), Path(task.thumbnail))
    return Outcome(name=task.name, code=code, error=error, attempts=attempts, wall_s=time.monotonic() - began)


def _wanted(task: Task) -> bool:
    """Return whether somebody still waits for the result."""
    try:
        return Path(task.session).read_text(encoding="ascii") == task.key
    except OSError:
        return False


def _wait_for(task: Task) -> bool:
    """Return once nobody writes to the folder of the case; False if that takes too long."""
    folder, end = Path(task.out), time.monotonic() + task.patience_s
    make_folder("cohort", folder)
    while True:
        try:
            with locked("cohort", folder):
                return True
        except FileError:
            if time.monotonic() > end or not _wanted(task):
                return False
            time.sleep(POLL_S)


def _attempt(task: Task, number: int) -> tuple[int, str]:
    """Return the exit code of one process, and what it says is wrong."""
    most = share_bytes()
    options: dict[str, str | int | bool] = {"out": task.out, "json": True, "threads": task.n_threads}
    if goes_on(Path(task.begun), task.digest, Path(task.out)):
        options["resume"] = True
    if (allowed := task.device_bytes or most) is not None:
        options["max_memory"] = f"{allowed / 1e9:.6g}"
    words = [*task.words, *as_words(options)]
    with tempfile.TemporaryFile() as said, _log(task.log) as log:
        again = " from its checkpoint" if (Path(task.out) / CHECKPOINT).exists() else ""
        log.write(f"--- attempt {number}{again}, {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        log.flush()
        with _SERVERS.one(task.n_threads, log) as server:
            code = _run(server, words, said, log, task, most)
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    return code, _error_in(text) if code >= 0 else _too_large(most) if code == TOO_LARGE else ""


def _run(
    server: ForkServer, words: list[str], said: IO[bytes], log: IO[bytes], task: Task, most: int | None
) -> int:
    """Return the exit code of a command, or why it was stopped."""
    code = server.begin(PROGRAM, words, said, log)
    try:
        while code is None:
            code = server.ended(POLL_S)
            if code is None and not _wanted(task):
                return STOPPED
            if code is None and most is not None and _resident_bytes(server.pid) > most:
                return TOO_LARGE
        return code
    finally:
        if code is None:
            server.kill()


def _log(path: str) -> IO[bytes]:
    descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    return os.fdopen(descriptor, "ab")


def share_bytes() -> int | None:
    """Return the memory that one task on this worker may take, None if the worker has no limit."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # not on a worker
        return None
    limit = worker.memory_manager.memory_limit
    return None if limit is None else int(limit) // int(worker.state.nthreads)


def _resident_bytes(pid: int) -> int:
    """Return the memory that a process takes; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _too_large(most: int | None) -> str:
    return (
        f"expected to need at most {(most or 0) / 1e9:.3g} GB, its share of the memory; got more. "
        f"Run fewer at once, with `n_workers`, or use larger voxels."
    )


def _error_in(text: str) -> str:
    """Return the error of what a command said as JSON, "" if it said none."""
    for line in reversed(text.splitlines()):
        try:
            content: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            return str(content.get("error", ""))
    return ""
