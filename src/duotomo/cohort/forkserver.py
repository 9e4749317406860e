"""A process that has imported what commands import, and forks: a case then starts at once.

    python -m duotomo.cohort.forkserver DESCRIPTOR MODULES...

The descriptor is a socket. Each line on it is `{"program": ..., "words": [...]}`, and comes with two files:
for the output of the program, and for its errors. The answers are `{"pid": ...}` as it begins and
`{"code": ...}` once it has ended, negative for a signal. It ends with the process that started it, or when
nobody asks for a while. Importing takes about half the time of a small case; what is computed is the same,
for a fork has the program as it was imported, and nothing of the cases before. A fork can use CUDA only if
nothing in this process did: libraries that look for a GPU are told to ask its driver instead, and where one
does more than that, nothing is imported beforehand.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from duotomo.cohort.child import die_with

CUDA = Path("/dev/nvidiactl")
ASK_THE_DRIVER = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""PyTorch then counts GPUs without starting CUDA."""
IDLE_S = 120.0
_NAME = "duotomo.cohort.forkserver"
_AT_ONCE = 65_536


def main() -> None:
    """Serve; in a fork, be the program that was asked for."""
    channel, modules = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    if not imported(modules):
        # Once more, with nothing imported.
        os.execv(sys.executable, [sys.executable, "-m", _NAME, sys.argv[1]])
    asked = _serve(channel)
    if asked is not None:
        program, words = asked
        sys.argv = [program, *words]
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def imported(modules: Sequence[str]) -> bool:
    """Import modules, as far as they are there; return whether forks can still use CUDA, if there is one."""
    before = os.environ.get(ASK_THE_DRIVER)
    os.environ[ASK_THE_DRIVER] = "1"
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    if before is None:
        del os.environ[ASK_THE_DRIVER]
    else:
        os.environ[ASK_THE_DRIVER] = before
    if not CUDA.exists() or "torch" not in sys.modules:
        return True
    import torch

    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitpid(pid, 0)[1] == 0


def _serve(channel: socket.socket) -> tuple[str, list[str]] | None:
    """Fork for each request; return what it asks for in the fork, and None when there are no more."""
    server = os.getpid()
    while (received := _received(channel)) is not None:
        asked, files = received
        pid = os.fork()
        if pid == 0:
            die_with(server)
            channel.close()
            for number, file in enumerate(files, start=1):
                os.dup2(file, number)
                os.close(file)
            return asked["program"], asked["words"]
        for file in files:
            os.close(file)
        _say(channel, {"pid": pid})
        _, status = os.waitpid(pid, 0)
        _say(channel, {"code": os.waitstatus_to_exitcode(status)})
    return None


def _received(channel: socket.socket) -> tuple[Any, list[int]] | None:
    """Return a request and its files, None if nobody is there who asks."""
    line, files = b"", list[int]()
    channel.settimeout(IDLE_S)
    with suppress(OSError):
        while not line.endswith(b"\n"):
            part, came, _, _ = socket.recv_fds(channel, _AT_ONCE, 2)
            if not part:
                return None
            line, files = line + part, files + came
        return json.loads(line), files
    return None


def _say(channel: socket.socket, answer: dict[str, int]) -> None:
    channel.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
