"""Programs that a worker runs, each in a fork of a process that has imported what they need."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

MODULES = (
    *("torch", "torch._dynamo", "torch._decomp.decompositions_for_jvp", "numba", "scipy.stats", "SimpleITK"),
    *("h5py", "nibabel", "pydicom", "rich.progress", "matplotlib.figure", "matplotlib.backends.backend_agg"),
    *("duotomo.cli.joint", "duotomo.cli.change", "duotomo.change", "duotomo.io.result_folder"),
    *("duotomo.kernels.project.cpu", "duotomo.kernels.warp.cpu"),
    *("duotomo.report.page", "duotomo.report.three_views"),
)
"""What commands import that takes long; what is not among them, a case imports by itself."""

_ENDED_S = 60.0
"""For the kernel to end a process that was killed."""


class ForkServer:
    """The other end of `duotomo.cohort.forkserver`: one program at a time."""

    def __init__(self, n_threads: int, errors: IO[bytes], modules: Sequence[str] = MODULES) -> None:
        """n_threads: of libraries. errors: a file for what goes wrong with the server. modules: imported."""
        self._channel, other = socket.socketpair()
        self.n_threads, self.pid, self._said = n_threads, 0, b""
        with other:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "duotomo.cohort.child", str(os.getpid())),
                    *("duotomo.cohort.forkserver", str(other.fileno()), *modules),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[other.fileno()],
                env=_environment(n_threads),
            )

    @property
    def is_there(self) -> bool:
        """Whether it can run a program."""
        return self._process.poll() is None

    def begin(self, program: str, words: Sequence[str], said: IO[bytes], errors: IO[bytes]) -> int | None:
        """Begin a program; return None, or the exit code of the server if it could not.

        said, errors: files for what the program says.
        """
        self.pid = 0
        request = json.dumps({"program": program, "words": list(words)}).encode() + b"\n"
        with suppress(OSError):
            sent = socket.send_fds(self._channel, [request], [said.fileno(), errors.fileno()])
            self._channel.sendall(request[sent:])
            self.pid = self._answer(None).get("pid", 0)
        return None if self.pid else self._process.wait() or -signal.SIGKILL

    def ended(self, within_s: float) -> int | None:
        """Return the exit code of the program, negative for a signal; None if it still runs after a time."""
        try:
            return self._answer(within_s).get("code", -signal.SIGKILL)
        except TimeoutError:
            return None

    def kill(self) -> None:
        """End the program, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if self.ended(_ENDED_S) is None:
            # What it answers later must not be taken for the end of another program.
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _answer(self, within_s: float | None) -> dict[str, int]:
        """Return the next answer, empty if the server is gone; raise TimeoutError where it takes longer."""
        self._channel.settimeout(within_s)
        while b"\n" not in self._said:
            try:
                part = self._channel.recv(4096)
            except ConnectionError:
                part = b""
            if not part:
                return {}
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        answer: dict[str, int] = json.loads(line)
        return answer


def _environment(n_threads: int) -> dict[str, str]:
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    waiting = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive")}
    return {**os.environ, **waiting, **dict.fromkeys(libraries, str(n_threads))}


class ForkServers:
    """Those of a worker: as many as it runs programs at once, each used again and again."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._modules = tuple(modules)
        self._idle: list[ForkServer] = []

    @contextmanager
    def one(self, n_threads: int, errors: IO[bytes]) -> Iterator[ForkServer]:
        """Give a server that is idle, or a new one."""
        server = self._take(n_threads) or ForkServer(n_threads, errors, self._modules)
        try:
            yield server
        finally:
            if server.is_there:
                self._idle.append(server)
            else:
                server.close()

    def _take(self, n_threads: int) -> ForkServer | None:
        kept = list[ForkServer]()
        found = None
        # Tasks run in threads of a worker: each takes one out before it looks at it.
        while found is None:
            try:
                server = self._idle.pop()
            except IndexError:
                break
            if not server.is_there:
                server.close()
            elif server.n_threads == n_threads:
                found = server
            else:
                kept.append(server)
        self._idle += kept
        return found

    def close(self) -> None:
        """End those that are idle."""
        while self._idle:
            self._idle.pop().close()
