"""Workers that try hostile inputs; one that dies or hangs is a fault of its input, and a fresh one goes on.

`python -m tests.fuzz.drawn.pool [NAME...]` tries inputs by their names, or by how these begin, or all.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory

LONGEST_S = 20
_START_S = 300
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an input ended. code: None if the process was gone. fault: None if all is well."""

    name: str
    code: int | None
    seconds: float
    mib: float
    fault: str | None


class Worker:
    """A process that tries inputs, started anew whenever it is gone."""

    def __init__(self, folder: Path, module: str = "tests.fuzz.drawn.worker") -> None:
        self._folder, self._module = folder, module
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> Ended:
        """Try the input of a name."""
        process = self._running()
        place = self._folder / "place"
        begun = time.monotonic()
        self._ask(process, json.dumps([name, str(place)]))
        answer = _line(process, LONGEST_S)
        seconds = time.monotonic() - begun
        shutil.rmtree(place, ignore_errors=True)
        if answer:
            return Ended(**json.loads(answer))
        self.close()
        hung = seconds >= LONGEST_S
        fault = f"took over {LONGEST_S} s" if hung else f"the process ended with {_ending(process)}"
        return Ended(name=name, code=None, seconds=seconds, mib=0.0, fault=fault)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            paths = os.pathsep.join(str(_ROOT / part) for part in (".", "src"))
            environment = os.environ | {
                "PYTHONPATH": paths,
                "PYTHONFAULTHANDLER": "1",
                "TMPDIR": str(self._folder),
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
                env=environment,
            )
            if _line(self._process, _START_S).strip() != "ready":
                said = (self._folder / "stray.txt").read_text(errors="replace")
                raise RuntimeError(f"expected a worker that starts; got: {said[-2000:]}")
        return self._process

    @staticmethod
    def _ask(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        except BrokenPipeError:
            # It has ended: there will be no answer.
            pass

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _line(process: subprocess.Popen[str], longest_s: float) -> str:
    """Return a line that a process says, "" if it ends or takes longer."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], longest_s)
    return process.stdout.readline() if ready else ""


def _ending(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def tried(names: Iterable[str], folder: Path, *, n_workers: int = 2) -> Iterator[Ended]:
    """Give how each input ended, in the order in which they do."""
    waiting: SimpleQueue[str] = SimpleQueue()
    done: SimpleQueue[Ended] = SimpleQueue()
    n_names = 0
    for n_names, name in enumerate(names, start=1):  # noqa: B007
        waiting.put(name)
    with ThreadPoolExecutor(n_workers) as threads:
        tasks = [threads.submit(_work, waiting, done.put, folder / str(n)) for n in range(n_workers)]
        for _ in range(n_names):
            while True:
                try:
                    yield done.get(timeout=1.0)
                    break
                except Empty:
                    # A worker that cannot start says why.
                    [task.result() for task in tasks if task.done()]


def _work(waiting: SimpleQueue[str], done: Callable[[Ended], None], folder: Path) -> None:
    worker = Worker(folder)
    try:
        while True:
            done(worker.run(waiting.get_nowait()))
    except Empty:
        return
    finally:
        worker.close()


def main(starts: Sequence[str]) -> int:
    """Try inputs whose names begin so, say which have a fault, and return how many."""
    from tests.fuzz.drawn.inputs import drawn

    names = [one.name for one in drawn() if not starts or one.name.startswith(tuple(starts))]
    begun, ended = time.monotonic(), []
    with TemporaryDirectory(prefix="duotomo-fuzz-") as folder:
        for one in tried(names, Path(folder)):
            ended.append(one)
            if one.fault:
                print(f"{one.name}: {one.fault}\n", flush=True)
    faults = sum(one.fault is not None for one in ended)
    slowest, largest = (max(ended, key=lambda one, by=by: getattr(one, by)) for by in ("seconds", "mib"))
    print(f"{len(ended)} inputs in {time.monotonic() - begun:.0f} s, {faults} with a fault")
    print(f"slowest: {slowest.seconds:.1f} s, {slowest.name}; largest: {largest.mib:.0f} MiB, {largest.name}")
    print(f"exit codes: { {code: sum(one.code == code for one in ended) for code in (0, 2, 3, None)} }")
    return faults


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
