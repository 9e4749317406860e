"""Clocks: programs take turns, so that a change of the machine's load meets all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

import torch

Calls = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds of one program, or why there are none."""

    best_s: float = inf
    median_s: float = inf
    failed: str = ""


def time_in_turns(calls: Calls, device: str, repeats: int, limit_s: float = inf) -> dict[str, Times]:
    """Return the best and the median of `repeats` for each program, after it has warmed up.

    limit_s: a program that has taken so long makes no further call; what was measured until then counts.
    """
    timer = gpu_seconds if device == "cuda" else wall_seconds
    n_warm = 3 if device == "cuda" else 1
    taken: dict[str, list[float]] = {name: [] for name in calls}
    failed: dict[str, str] = {}
    for _ in range(n_warm + repeats):
        for name, call in calls.items():
            if name in failed or sum(taken[name]) > limit_s:
                continue
            try:
                taken[name].append(timer(call))
            except Exception as error:
                failed[name] = reason(error)
    return {
        name: Times(failed=failed[name]) if name in failed else _times(seconds, n_warm)
        for name, seconds in taken.items()
    }


def _times(seconds: list[float], n_warm: int) -> Times:
    # All of them if the limit left nothing but the first ones.
    counted = seconds[n_warm:] or seconds
    return Times(best_s=min(counted), median_s=median(counted))


def reason(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def wall_seconds(call: Callable[[], Any]) -> float:
    """Return the wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gpu_seconds(call: Callable[[], Any]) -> float:
    """Return the time of one call between two CUDA events, with all streams idle before and after it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def in_a_row(call: Callable[[], Any], n_calls: int) -> Callable[[], None]:
    """Return what makes a call several times."""

    def calls() -> None:
        for _ in range(n_calls):
            call()

    return calls


def memory_bandwidth(device: str) -> float:
    """Return the bytes per second, read and written, of the best of a few large copies."""
    source = torch.rand(2**27 if device == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    copies = time_in_turns({"copy": lambda: target.copy_(source)}, device, 5)
    return 2 * source.nbytes / copies["copy"].best_s


@contextmanager
def thread_count(n_threads: int) -> Iterator[None]:
    """Give PyTorch and Numba this many threads each."""
    import numba

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(n_threads)
    numba.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def machine(device: str) -> str:
    """Return what the benchmark runs on, in words, and how busy it is: processes that want a core."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
