"""The memory that is free."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
STATM = Path("/proc/self/statm")

PROGRAM_BYTES = 1_100_000_000
"""What Python, PyTorch, the compiler of the loops and the page take, whatever the arrays: the peak of `joint`
with arrays of 20 MB was 1.08 GB where the loops had to be compiled, and 0.75 GB where not."""


def free_bytes() -> int:
    """Return the bytes that this program can still have; without measure where the system does not say.

    On Linux, memory that only caches files counts as free, and the limit of a container is respected.

    >>> free_bytes() > 0
    True
    """
    return min(_of_machine(), _of_group())


def own_bytes() -> int:
    """Return the bytes that this program holds now; 0 where the system does not say.

    >>> own_bytes() >= 0
    True
    """
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _of_machine() -> int:
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        # Elsewhere only all of it is known.
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return sys.maxsize


def _of_group() -> int:
    """Return what a control group, such as a container's, leaves; without one, no limit."""
    try:
        most = (GROUP / "memory.max").read_text().strip()
        used = int((GROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return sys.maxsize
    if most == "max":
        return sys.maxsize
    return max(0, int(most) - used + int(cached.get("inactive_file", 0)))
