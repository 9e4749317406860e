"""A cohort whose workers and scheduler are killed ends as if nothing had happened.

    python -m benchmarks.cohort_faults --out out/faults                # workers of the cohort's own
    python -m benchmarks.cohort_faults --out out/faults --by-hand      # a scheduler and two workers beside it

The cohort runs, and at random moments a worker gets SIGKILL, and once the scheduler does. Then every case is
computed by itself, by `duotomo joint`, in another process. Every result has to be that of its single run, bit
for bit; each case that is broken on purpose has to say so; and no attempt may have begun before the last
checkpoint that its folder held when a worker was killed. The exit code is 1 where that is not so. All listens
on loopback alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import torch

from benchmarks.cohort_studies import BROKEN, broken_numbers, write_cohort
from duotomo.cli import main as duotomo
from duotomo.cohort import Row, read_table
from duotomo.io import SavedResult, read_result
from duotomo.io.settings_text import settings_text

OPTIONS = {"transform": "rigid", "uncertainty": "false"}
DUOTOMO = [sys.executable, "-m", "duotomo"]
LOOPBACK = "127.0.0.1"
SECONDS_EACH = 10.0
"""For a case on one worker, about."""

RESULTS = (0, 3)
"""Exit codes of a command that leaves a result."""


@dataclass
class Faults:
    """What was killed, and what each case had kept by then. kept: (moment, steps of the last checkpoint)."""

    n_workers: int = 0
    n_schedulers: int = 0
    n_commands: int = 0
    kept: dict[str, list[tuple[float, int]]] = field(default_factory=dict)


def processes() -> Iterator[tuple[int, int, list[str]]]:
    """Give the id, the parent's id and the words of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            except (OSError, ValueError, IndexError):
                continue
            yield int(entry.name), parent, words


def below(pid: int) -> list[tuple[int, list[str]]]:
    """Return the processes that a process started, and those that these did."""
    every = list(processes())
    found, wanted = [], {pid}
    while wanted:
        children = [(one, words) for one, parent, words in every if parent in wanted]
        found += children
        wanted = {one for one, _ in children}
    return found


def of_dask(kind: str, roots: list[int]) -> list[int]:
    """Return the workers or the scheduler below some processes: those that hold the tasks."""
    found = []
    for root in roots:
        every = below(root)
        found += [pid for pid, words in every if "dask" in words and kind in words]
        # A nanny's worker is a process that it spawned.
        found += [pid for pid, words in every if any("multiprocessing.spawn" in word for word in words)]
    return found


def steps_kept(out: Path) -> dict[str, int]:
    """Return how many steps the checkpoint of each case holds."""
    found = {}
    for path in out.glob("cases/*/checkpoint.h5"):
        try:
            with h5py.File(path, "r") as file:
                found[path.parent.name] = int(file["history"]["number"].shape[0])
        except (OSError, KeyError):
            continue
    return found


def single_runs(manifest: Path, out: Path, names: dict[str, Path]) -> None:
    """Compute each case by itself, one after the other; what is there is not computed again."""
    settings = manifest.with_suffix(".toml")
    settings.write_text(settings_text("joint", OPTIONS), encoding="utf-8")
    for name, scan in names.items():
        words = ["joint", str(scan), "--out", str(out / name), "--threads", "1", "--quiet", "--resume"]
        code = duotomo([*words, "--settings", str(settings)], standalone_mode=False)
        if code not in (*RESULTS, None):
            raise RuntimeError(f"{name}: expected a result; got exit code {code}")


@contextmanager
def by_hand(folder: Path, n_workers: int, port: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Give a scheduler and workers, each started as a person would."""
    log = (folder / "dask.txt").open("ab")
    dask = [sys.executable, "-m", "dask"]
    address = f"tcp://{LOOPBACK}:{port}"
    words = [[*dask, "scheduler", "--host", LOOPBACK, "--port", str(port), "--no-dashboard"]]
    options = ["--nthreads", "1", "--no-dashboard", "--host", LOOPBACK, "--memory-limit", "8GB"]
    words += [[*dask, "worker", address, *options, "--local-directory", str(folder)]] * n_workers
    started = [subprocess.Popen(one, stdout=log, stderr=log) for one in words]
    try:
        yield started
    finally:
        for one in started:
            for pid, _ in below(one.pid):
                kill(pid)
            kill(one.pid)
            one.wait()
        log.close()


def kill(pid: int) -> bool:
    """Kill a process; return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def watch(
    command: subprocess.Popen[bytes],
    out: Path,
    faults: Faults,
    plan: list[tuple[float, str]],
    roots: list[int],
) -> None:
    """Kill what the plan says, until the command ends. plan: moments and kinds; what is done is removed."""
    began, chosen = time.monotonic(), random.Random(1)
    while command.poll() is None:
        time.sleep(0.05)
        if not plan or time.monotonic() - began < plan[0][0]:
            continue
        _, kind = plan[0]
        victims = roots[:1] if kind == "scheduler" and roots else of_dask(kind, roots[1:] or [command.pid])
        # Before any case runs there is nothing to lose.
        if not victims or not list(out.glob("logs/[!.]*.txt")):
            continue
        plan.pop(0)
        for name, steps in steps_kept(out).items():
            faults.kept.setdefault(name, []).append((time.time(), steps))
        if kill(chosen.choice(victims)):
            faults.n_workers += kind == "worker"
            faults.n_schedulers += kind == "scheduler"


def wanted_kills(n_kills: int, seconds: float) -> list[tuple[float, str]]:
    """Return moments at which workers are killed, and the scheduler in the middle of them."""
    draw = random.Random(2)
    moments = sorted(draw.uniform(0.05, 0.9) * seconds for _ in range(n_kills))
    kinds = ["worker"] * n_kills
    kinds.insert(n_kills // 2, "scheduler")
    moments.insert(n_kills // 2, moments[n_kills // 2] if moments else 0.5 * seconds)
    return list(zip(moments, kinds, strict=True))


def run_cohort(
    manifest: Path, out: Path, faults: Faults, plan: list[tuple[float, str]], *, manual: bool, port: int
) -> int:
    """Run the command until it has all, again where it lost its scheduler; return its last exit code."""
    while True:
        faults.n_commands += 1
        words = ["cohort", str(manifest), "--out", str(out), "--threads", "1"]
        if not manual:
            words += ["--workers", "2"]
            command = subprocess.Popen([*DUOTOMO, *words])
            watch(command, out, faults, plan, [])
        else:
            with by_hand(out.parent, 2, port) as started:
                command = subprocess.Popen([*DUOTOMO, *words, "--scheduler", f"tcp://{LOOPBACK}:{port}"])
                watch(command, out, faults, plan, [one.pid for one in started])
        if command.returncode != 2 or faults.n_commands > 5:
            return int(command.returncode)


def attempts(log: Path) -> list[tuple[float, int | None]]:
    """Return when each attempt at a case began, and after how many steps it went on.

    None for one that computed nothing: it was killed before, or found the result whole.
    """
    found: list[tuple[float, int | None]] = []
    for line in log.read_text(encoding="utf-8").splitlines():
        if head := re.match(r"--- attempt \d+.*, (\d+-\d+-\d+ \d+:\d+:\d+)$", line):
            found.append((time.mktime(time.strptime(head[1], "%Y-%m-%d %H:%M:%S")), None))
        elif not found or found[-1][1] is not None:
            continue
        elif again := re.search(r"Resuming in stage \d+, after (\d+) (steps|starts)", line):
            found[-1] = (found[-1][0], int(again[1]) if again[2] == "steps" else 0)
        elif "Nothing to resume" in line or re.search(r": \d+ steps, objective", line):
            found[-1] = (found[-1][0], 0)
    return found


def same(one: SavedResult, two: SavedResult) -> bool:
    """Return whether two results are equal, bit for bit."""
    volumes = [{"volume": result.volume, **result.others} for result in (one, two)]
    steps = [[(step.objective, step.what, step.applications) for step in each.history] for each in (one, two)]
    return (
        volumes[0].keys() == volumes[1].keys()
        and all(torch.equal(volumes[0][name], volumes[1][name]) for name in volumes[0])
        and len(one.params) == len(two.params)
        and all(torch.equal(a, b) for a, b in zip(one.params, two.params, strict=True))
        and steps[0] == steps[1]
    )


def judge(rows: tuple[Row, ...], out: Path, single: Path, broken: set[str], faults: Faults) -> list[str]:
    """Return what is not as it should be."""
    wrong = []
    for row in rows:
        if row.case in broken:
            if row.status != "failed" or "row " not in row.reason:
                wrong.append(f"{row.case}: expected a clear failure; got {row.status}: {row.reason}")
            continue
        if not row.folder:
            wrong.append(f"{row.case}: expected a result; got {row.status}: {row.reason}")
        elif not same(read_result(out / row.folder), read_result(single / row.case)):
            wrong.append(f"{row.case}: expected the bits of its single run; got others")
        begun = attempts(out / "logs" / f"{row.case}.txt")
        for moment, steps in faults.kept.get(row.case, []):
            # Times in logs have whole seconds.
            later = [after for when, after in begun if when > moment and after is not None]
            if later and later[0] < steps:
                wrong.append(f"{row.case}: expected to go on after {steps} steps; got {later[0]}")
    left = [path.name for path in out.glob("cases/*/checkpoint.h5")]
    return wrong + ([f"expected no checkpoint; got {len(left)}"] if left else [])


def main(words: list[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that is made anew")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument(
        "--seconds", type=float, default=None, help="within which to kill; unless given, guessed"
    )
    parser.add_argument("--by-hand", action="store_true", help="with a scheduler and workers of their own")
    parser.add_argument("--port", type=int, default=18786)
    parser.add_argument(
        "--single", type=Path, default=None, help="single runs of an earlier call, to compare with"
    )
    asked = parser.parse_args(words)
    shutil.rmtree(asked.out, ignore_errors=True)
    manifest = write_cohort(asked.out / "studies", asked.cases, broken=True, options=OPTIONS)
    broken = {f"case-{number:02}" for number in broken_numbers(asked.cases)}
    names = {
        f"case-{number:02}": manifest.parent / f"study_{number:02}.h5"
        for number in range(asked.cases)
        if f"case-{number:02}" not in broken
    }
    single, out, faults = asked.single or asked.out / "single", asked.out / "cohort", Faults()
    plan = wanted_kills(asked.kills, asked.seconds or SECONDS_EACH * asked.cases / 2)
    began = time.monotonic()
    code = run_cohort(manifest, out, faults, plan, manual=asked.by_hand, port=asked.port)
    seconds = time.monotonic() - began
    single_runs(manifest, single, names)
    rows = read_table(out)
    wrong = judge(rows, out, single, broken, faults)
    n_attempts = sum(len(attempts(path)) for path in (out / "logs").glob("[!.]*.txt"))
    summary = {
        "cases": len(rows),
        "equal": sum(bool(row.folder) for row in rows) - sum("bits" in one for one in wrong),
        "failed": sum(row.status == "failed" for row in rows),
        "expected_to_fail": BROKEN,
        "workers_killed": faults.n_workers,
        "schedulers_killed": faults.n_schedulers,
        "commands": faults.n_commands,
        "attempts": n_attempts,
        "exit_code": code,
        "seconds": round(seconds, 1),
        "wrong": wrong,
    }
    print(json.dumps(summary, indent=1))
    return 1 if wrong or plan else 0


if __name__ == "__main__":
    sys.exit(main())
