"""The server of `duotomo view` under load: by few clients, at a bounded rate, on this machine only."""

from __future__ import annotations

import io
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from benchmarks.soak_clients import CLIENTS, Server
from benchmarks.soak_joint import run_joint, small_study
from benchmarks.usage import Limits, Usage
from duotomo.io import write_study

LIMITS = Limits(warm_up=12, mib_each=0.02, mib=16.0)

N_CLIENTS, PER_SECOND = 4, 5
"""Clients at a time, and requests of all of them together."""

LOAD_S, BUSY_S, REST_S = 9.0, 0.5, 1.0
"""Seconds of load between two moments, between looks meanwhile, and of rest before a moment."""


def soak_view(minutes: float, asked: Counter[str], ends: dict[str, float]) -> Iterator[Usage]:
    """Give what the server holds between spells of load, for so many minutes; then end it.

    asked: is filled with how often each kind of client came. ends: with the exit code, the seconds from
    Ctrl-C to the end, the temporary files that are left then, the tracebacks that it showed, and the most
    threads and handles under load.
    """
    with tempfile.TemporaryDirectory() as root:
        study, out, temporary = Path(root, "study.h5"), Path(root, "out"), Path(root, "temporary")
        temporary.mkdir()
        write_study(study, small_study())
        run_joint(study, out, io.StringIO())
        server, began = Server(out, temporary), time.monotonic()
        try:
            spell = 0
            while time.monotonic() - began < 60 * minutes:
                for busy in _load(server, temporary, asked, seed=spell, seconds=min(LOAD_S, 60 * minutes)):
                    for name in ("n_threads", "n_handles"):
                        ends[f"most_{name}"] = max(ends.get(f"most_{name}", 0), getattr(busy, name))
                time.sleep(REST_S)
                yield Usage.of(server.process.pid, temporary, began=began)
                spell += 1
        finally:
            ends["exit_code"], ends["end_seconds"] = server.end()
            ends["n_temporary"] = len(os.listdir(temporary))
            ends["n_tracebacks"] = server.said.count("Traceback")


def _load(
    server: Server, temporary: Path, asked: Counter[str], *, seed: int, seconds: float
) -> Iterator[Usage]:
    """Let clients ask for some seconds, and give what the server holds meanwhile; raise what one met."""
    failed: list[Exception] = []
    until = time.monotonic() + seconds

    def ask(number: int) -> None:
        draw = random.Random(N_CLIENTS * seed + number)
        try:
            while (now := time.monotonic()) < until:
                client = draw.choice(CLIENTS)
                client(server)
                asked[client.__name__] += 1
                time.sleep(max(0.0, N_CLIENTS / PER_SECOND - (time.monotonic() - now)))
        except Exception as error:
            failed.append(error)

    clients = [Thread(target=ask, args=(number,)) for number in range(N_CLIENTS)]
    for client in clients:
        client.start()
    while time.monotonic() < until:
        time.sleep(BUSY_S)
        yield Usage.of(server.process.pid, temporary)
    for client in clients:
        client.join()
    if failed:
        raise failed[0]
