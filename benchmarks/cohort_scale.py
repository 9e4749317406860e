"""What Dask's scheduler costs a cohort: seconds for tasks that do nothing, from 10 to 10,000 of them.

python -m benchmarks.cohort_scale
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from duotomo.cohort.dask_client import connected
from duotomo.cohort.resources import Allotment
from duotomo.cohort.workers import local_workers

COUNTS = (10, 100, 1000, 10_000)


def nothing(number: int) -> int:
    """Return a number as it came."""
    return number


def main() -> None:
    """Print the seconds that each count of tasks takes on two workers."""
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


if __name__ == "__main__":
    main()
