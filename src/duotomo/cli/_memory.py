"""How much memory a device has left, and whether that is enough."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duotomo.cli._talk import Talk

GB = 1e9

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def available_bytes(device: str) -> int:
    """Return the bytes that a computation on "cpu" or "cuda" may still take.

    On Linux, memory that only caches files counts as free, and the limit of a container is respected.

    >>> available_bytes("cpu") > 0
    True
    """
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        return int(free)
    return min(_of_machine(), _of_group())


def _of_machine() -> int:
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    # Elsewhere only all of it is known.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_group() -> int:
    """Return what a control group, such as a container's, leaves; without one, all of the machine's."""
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        most = (GROUP / "memory.max").read_text().strip()
        used = int((GROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return everything
    if most == "max":
        return everything
    return max(0, int(most) - used + int(cached.get("inactive_file", 0)))


def check_memory(needed: int, *, device: str, most_gb: float | None, remedy: str, talk: Talk) -> None:
    """Say how much memory is needed and there; raise if that is too little, or more than was allowed.

    most_gb: what --max-memory allows. remedy: how to need less.
    """
    from duotomo.errors import DuotomoError

    available = available_bytes(device)
    talk.progress(f"Memory: about {needed / GB:.3g} GB needed, {available / GB:.3g} GB available")
    if most_gb is not None and most_gb * GB < needed:
        raise DuotomoError(
            f"expected to need at most --max-memory {most_gb:g} GB; got about {needed / GB:.3g} GB. Allow "
            f"more, or {remedy}."
        )
    if available < needed:
        raise DuotomoError(
            f"expected {needed / GB:.3g} GB of memory on {device}; got {available / GB:.3g} GB. Free some, "
            f"or {remedy}."
        )
