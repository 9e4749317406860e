"""What a first `duotomo joint` waits for, beside a second one: `python -m benchmarks.start_up`.

A small study with all defaults (16 x 16 x 16 voxels), each run a process of its own; the first finds no
compiled loop on disk. CPU seconds depend less on how busy the machine is than those on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from numba.core import event

from benchmarks.soak_joint import small_study
from benchmarks.timing import machine
from duotomo.cli import main as duotomo
from duotomo.io import write_study


class Compiling(event.Listener):  # type: ignore[misc]
    """Notes the CPU seconds of each function that is compiled, those that it calls included."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since: list[float] = []

    def on_start(self, event: Any) -> None:
        self._since.append(time.thread_time())

    def on_end(self, event: Any) -> None:
        taken = time.thread_time() - self._since.pop()
        if not self._since:
            name = event.data["dispatcher"].py_func.__name__
            self.seconds[name] = self.seconds.get(name, 0.0) + taken


def run(words: list[str]) -> dict[str, Any]:
    """Run the command in this process, and return its CPU seconds and those of each compiled loop."""
    compiling = Compiling()
    with event.install_listener("numba:compile", compiling):
        code = duotomo(words, standalone_mode=False)
    return {"code": code, "cpu_s": time.process_time(), "loops": compiling.seconds}


def run_apart(words: list[str], cache: Path) -> dict[str, Any]:
    """Return the same of a process of its own, with its seconds on the clock."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.start_up", "--one", json.dumps(words)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"clock_s": time.perf_counter() - began, **found}


def main() -> None:
    """Run the command twice, and print what the first run waited for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transform", help="of `duotomo joint`; its default unless given")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(json.loads(options.one))))
        return
    print(machine("cpu"))
    with tempfile.TemporaryDirectory() as root:
        study = Path(root, "study.h5")
        write_study(study, small_study())
        words = ["joint", str(study), "--quiet"]
        words += ["--transform", options.transform] if options.transform else []
        first, second = (
            run_apart([*words, "--out", str(Path(root, name))], Path(root, "cache")) for name in ("1", "2")
        )
    for name, seconds in first["loops"].items():
        print(f"{name:24} {seconds:6.2f} s of one core")
    for name in ("clock_s", "cpu_s"):
        later = second[name]
        print(f"{name}: first {first[name]:.1f}, second {later:.1f}, difference {first[name] - later:.1f}")
    print(machine("cpu"))


if __name__ == "__main__":
    main()
