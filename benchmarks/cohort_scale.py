"""How the time of a cohort grows with its cases, and what Dask's scheduler costs.

    python -m benchmarks.cohort_scale --out out/scale --cases 10 30 100

Small studies are computed in earnest, by `duotomo cohort` with all cores; the same command again then finds
all of them done. Then come tasks that do nothing, from 10 to 10,000, on two workers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.cohort_studies import write_cohort
from duotomo.cohort.dask_client import connected
from duotomo.cohort.resources import Allotment
from duotomo.cohort.workers import local_workers

OPTIONS = {"transform": "rigid", "uncertainty": "false"}
COUNTS = (10, 100, 1000, 10_000)


def nothing(number: int) -> int:
    """Return a number as it came."""
    return number


def seconds_of(manifest: Path, out: Path) -> float:
    """Return the seconds that a cohort takes."""
    words = [sys.executable, "-m", "duotomo", "cohort", str(manifest), "--out", str(out), "--quiet"]
    began = time.monotonic()
    code = subprocess.run(words, capture_output=True, check=False).returncode
    if code not in (0, 3):
        raise SystemExit(f"cohort_scale: expected exit code 0 or 3; got {code}.")
    return time.monotonic() - began


def computed(folder: Path, counts: list[int]) -> Iterator[dict[str, Any]]:
    """Give, for each number of cases, the seconds of a cohort, and of the same command again."""
    shutil.rmtree(folder, ignore_errors=True)
    for count in counts:
        manifest = write_cohort(folder / str(count), count, broken=False, options=OPTIONS)
        load = os.getloadavg()[0]
        first, again = (seconds_of(manifest, folder / str(count) / "cohort") for _ in range(2))
        print(f"{count} cases: {first:.1f} s, {first / count:.2f} s each; again {again:.1f} s", flush=True)
        yield {"cases": count, "seconds": first, "again_s": again, "load_before": load}


def empty() -> Iterator[dict[str, Any]]:
    """Give the seconds that each count of empty tasks takes on two workers."""
    allotment = Allotment(n_workers=2, n_threads=1, share_bytes=10**9)
    with (
        tempfile.TemporaryDirectory() as logs,
        local_workers(allotment, Path(logs)) as workers,
        connected(workers.address) as client,
    ):
        client.wait_for_workers(2)
        for count in COUNTS:
            began = time.monotonic()
            client.gather(client.map(nothing, range(count), pure=False))
            seconds = time.monotonic() - began
            print(f"{count} tasks: {seconds:.2f} s, {1000 * seconds / count:.2f} ms each", flush=True)
            yield {"tasks": count, "seconds": seconds}


def main() -> None:
    """Print both, and write them if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that is made anew")
    parser.add_argument("--cases", type=int, nargs="*", default=[10, 30, 100], help="of each cohort")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [*computed(options.out, options.cases), *empty()]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
