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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
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

    def __init__(
        self, folder: Path, *, module: str = "tests.fuzz.drawn.worker", longest_s: float = LONGEST_S
    ) -> None:
        self._folder, self._module, self._longest_s = folder, module, longest_s
        self._process: subprocess.Popen[str] | None = None

    def run(self, name: str) -> Ended:
        """Try the input of a name."""
        process, place = self._running(), self._folder / "place"
        assert process.stdin is not None
        begun = time.monotonic()
        # One that has ended gives no answer.
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([name, str(place)]) + "\n")
            process.stdin.flush()
        answer = _line(process, self._longest_s)
        seconds = time.monotonic() - begun
        shutil.rmtree(place, ignore_errors=True)
        if answer:
            return Ended(**json.loads(answer))
        hung = seconds >= self._longest_s
        fault = f"took over {self._longest_s:g} s" if hung else f"the process ended with {_ending(process)}"
        self.close()
        return Ended(name=name, code=None, seconds=seconds, mib=0.0, fault=fault)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            own = {
                "PYTHONPATH": os.pathsep.join(str(_ROOT / part) for part in (".", "src")),
                "TMPDIR": str(self._folder),
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
                env=os.environ | own,
            )
            if _line(self._process, _START_S).strip() != "ready":
                said = (self._folder / "stray.txt").read_text(errors="replace")
                raise RuntimeError(f"expected a worker that starts; got: {said[-2000:]}")
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _line(process: subprocess.Popen[str], longest_s: float) -> str:
    """Return a line that a process says, "" if it ends or takes longer."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], longest_s)
    return process.stdout.readline() if ready else ""


def _ending(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


@contextmanager
def trials(names: Iterable[str], folder: Path, *, n_workers: int = 2) -> Iterator[dict[str, Future[Ended]]]:
    """Give how each input ends, by its name: at once, while workers try one after another."""
    workers = [Worker(folder / str(number)) for number in range(n_workers)]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def run(name: str) -> Ended:
        worker = idle.get()
        try:
            return worker.run(name)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(n_workers)
    try:
        yield {name: threads.submit(run, name) for name in names}
    finally:
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


def tried(names: Iterable[str], folder: Path) -> Iterator[Ended]:
    """Give how each input ended, in the order in which they do."""
    with trials(names, folder) as ends:
        for one in as_completed(ends.values()):
            yield one.result()


def summary(ended: Sequence[Ended], seconds: float) -> str:
    """Return in words how many inputs there were, how many of them with a fault, and the largest of them."""
    n_faults = sum(one.fault is not None for one in ended)
    slowest, largest = max(one.seconds for one in ended), max(one.mib for one in ended)
    codes = {code: sum(one.code == code for one in ended) for code in (0, 2, 3)}
    return (
        f"{len(ended)} inputs in {seconds:.0f} s, {n_faults} with a fault; exit codes {codes}; at most "
        f"{slowest:.1f} s and {largest:.0f} MiB"
    )


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
    print(summary(ended, time.monotonic() - begun))
    return sum(one.fault is not None for one in ended)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
