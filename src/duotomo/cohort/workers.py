"""Dask's scheduler and workers on this machine, each in a process of its own, for one cohort."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from duotomo.cohort.resources import Allotment
from duotomo.cohort.words import as_words
from duotomo.errors import DuotomoError

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S, TICK_S = 120.0, 0.05

_DASK = {
    # A worker that was lost is nobody's fault but the machine's: a case is tried again, however often.
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1000000",
    # No worker holds cases that another one could begin.
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s",
}


class LocalWorkers:
    """A scheduler and its workers, listening on the loopback address alone; `tend` replaces the dead.

    All of them die with this process, however it ends.
    """

    def __init__(self, allotment: Allotment, logs: Path, scratch: Path) -> None:
        """logs: a folder for what they say. scratch: an empty one for their own files."""
        self._allotment, self._logs, self._scratch = allotment, logs, scratch
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self) -> None:
        """Start the scheduler, wait for its address, and start the workers."""
        said = Path(tempfile.mkdtemp(dir=self._scratch)) / "scheduler.json"
        options: dict[str, str | int | bool] = {"host": LOOPBACK, "port": 0, "scheduler_file": str(said)}
        options |= {"dashboard_address": f"{LOOPBACK}:0"} if find_spec("bokeh") else {"no_dashboard": True}
        self._scheduler = self._process("scheduler", as_words(options), {})
        self.address = _address(self._scheduler, said)
        self._workers = [self._worker(number) for number in range(self._allotment.n_workers)]

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids: that of the scheduler, and those of the workers."""
        every = ([self._scheduler] if self._scheduler else []) + self._workers
        return tuple(one.pid for one in every)

    def tend(self) -> bool:
        """Replace workers that have ended; return whether the scheduler is there."""
        if self._scheduler is None or self._scheduler.poll() is not None:
            return False
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[number] = self._worker(number)
        return True

    def stop(self) -> None:
        """End all of them. What they were computing goes on from its checkpoint another time."""
        # The workers first: without a scheduler they would try to finish.
        every = [*self._workers, *([self._scheduler] if self._scheduler else [])]
        for one in every:
            one.kill()
        for one in every:
            one.wait()
        self._workers, self._scheduler = [], None

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        options: dict[str, str | int | bool] = {
            "no_nanny": True,
            "nthreads": 1,
            "host": LOOPBACK,
            "no_dashboard": True,
            "name": number,
            "memory_limit": self._allotment.share_bytes,
            "death_timeout": 60,
            "local_directory": str(self._scratch),
        }
        gpus = self._allotment.gpus
        seen = {"CUDA_VISIBLE_DEVICES": _gpu(gpus[number])} if gpus else {}
        return self._process("worker", [self.address, *as_words(options)], seen)

    def _process(self, kind: str, words: list[str], seen: dict[str, str]) -> subprocess.Popen[bytes]:
        log = self._logs / f".dask-{kind}.txt"
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "duotomo.cohort.child", str(os.getpid()), "dask", kind, *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_DASK, **seen},
                # Ctrl-C is for the cohort, which ends them.
                start_new_session=True,
            )


@contextmanager
def local_workers(allotment: Allotment, logs: Path) -> Iterator[LocalWorkers]:
    """Give a scheduler and its workers, which end with the context."""
    with tempfile.TemporaryDirectory(prefix="duotomo-", ignore_cleanup_errors=True) as scratch:
        workers = LocalWorkers(allotment, logs, Path(scratch))
        try:
            workers.start()
            yield workers
        finally:
            workers.stop()


def _gpu(number: int) -> str:
    """Return what CUDA calls a GPU, where only some are visible here."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name for name in visible.split(",") if name]
    return names[number] if names else str(number)


def _address(scheduler: subprocess.Popen[bytes], said: Path) -> str:
    end = time.monotonic() + START_TIMEOUT_S
    while scheduler.poll() is None and time.monotonic() < end:
        try:
            return str(json.loads(said.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, KeyError):
            # Not there yet, or half of it.
            time.sleep(TICK_S)
    raise DuotomoError(
        f"cohort: expected Dask's scheduler to start on {LOOPBACK}; got none within {START_TIMEOUT_S:.0f} s. "
        f"Look at logs/.dask-scheduler.txt in the cohort's folder."
    )
