"""What a step of each stage of a run costs: kernels, copies and waits of a GPU, and how busy it is."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from duotomo.solvers import Step

FIRST, STEPS = 22, 4
"""Steps of a stage before those that are looked at: most begin with 15 of the volume alone. And how many."""

MOST_KERNELS = 25
MOST_CHARACTERS = 90


@dataclass(frozen=True, kw_only=True)
class StageCost:
    """Means over some steps of a stage, of one step each.

    plain_ms: without the profiler. busy_ms: in which kernels or copies run on the GPU. n_kernels, n_copies,
    n_waits: that are launched, made, and waited for. kernels: names with their calls and milliseconds.
    """

    stage: str
    plain_ms: float
    busy_ms: float
    n_kernels: float
    n_copies: float
    n_waits: float
    kernels: tuple[tuple[str, float, float], ...] = field(repr=False)

    def lines(self) -> Iterator[str]:
        """Yield the rows of a table."""
        yield (
            f"{self.stage}: {self.plain_ms:.2f} ms a step, GPU busy {self.busy_ms:.2f} ms; "
            f"{self.n_kernels:.0f} kernels, {self.n_copies:.0f} copies, {self.n_waits:.1f} waits"
        )
        for name, calls, ms in self.kernels:
            yield f"  {ms:8.3f} ms {calls:6.1f} x  {name[:MOST_CHARACTERS]}"


class StageProfile:
    """Looks at some steps of every stage from one on; pass it as `on_step`, and end it after the run.

    They are looked at three times, one after the other: with a clock, with PyTorch's profiler, and with a
    warning for every wait. A stage that ends before is left out.

    Attributes
    ----------
    costs : list of StageCost
        One for each stage that went on for long enough.
    """

    def __init__(self, device: str, *, first_stage: int = 0, skip: int = FIRST, n_steps: int = STEPS) -> None:
        self.costs: list[StageCost] = []
        self._gpu, self._first_stage, self._skip, self._n = device == "cuda", first_stage, skip, n_steps
        self._stage, self._count, self._began = "", 0, 0.0
        self._plain_ms, self._n_waits = 0.0, 0.0
        self._profiler: Any = None
        self._warnings: Any = None
        self._caught: list[warnings.WarningMessage] = []

    def __call__(self, step: Step) -> None:
        stage = f"{step.stage} {step.what}"
        if stage != self._stage:
            self.end()
            self._stage, self._count = stage, 0
        at, n = self._count - self._skip, self._n
        self._count += 1
        if (step.stage or 0) < self._first_stage or at not in (0, n, 2 * n, 3 * n):
            return
        self._wait()
        if at == 0:
            self._began = time.perf_counter()
        elif at == n:
            self._plain_ms = 1e3 * (time.perf_counter() - self._began) / n
            self._warnings = warnings.catch_warnings(record=True)
            self._caught = self._warnings.__enter__()
            warnings.simplefilter("always")
            self._tell_waits("warn")
        elif at == 2 * n:
            self._stop_telling()
            self._n_waits = len(self._caught) / n
            activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._gpu else [])]
            self._profiler = torch.profiler.profile(activities=activities)
            self._profiler.__enter__()
        else:
            self._profiler.__exit__(None, None, None)
            self.costs.append(self._cost(self._profiler.events()))
            self._profiler = None

    def _cost(self, events: Any) -> StageCost:
        on_gpu = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
        calls: Counter[str] = Counter()
        taken_us: Counter[str] = Counter()
        for event in on_gpu:
            calls[event.name] += 1
            taken_us[event.name] += event.time_range.end - event.time_range.start
        copies = sum(n for name, n in calls.items() if name.startswith(("Memcpy", "Memset")))
        n = self._n
        return StageCost(
            stage=self._stage,
            plain_ms=self._plain_ms,
            busy_ms=_covered([(e.time_range.start, e.time_range.end) for e in on_gpu]) / 1e3 / n,
            n_kernels=(len(on_gpu) - copies) / n,
            n_copies=copies / n,
            n_waits=self._n_waits,
            kernels=tuple(
                (name, calls[name] / n, us / 1e3 / n) for name, us in taken_us.most_common(MOST_KERNELS)
            ),
        )

    def end(self) -> None:
        """Look no more at the stage that has begun, and leave warnings and waits as they were."""
        if self._profiler is not None:
            self._profiler.__exit__(None, None, None)
            self._profiler = None
        self._stop_telling()

    def _stop_telling(self) -> None:
        if self._warnings is not None:
            self._tell_waits("default")
            self._warnings.__exit__(None, None, None)
            self._warnings = None

    def _tell_waits(self, mode: str) -> None:
        if self._gpu:
            torch.cuda.set_sync_debug_mode(mode)

    def _wait(self) -> None:
        if self._gpu:
            torch.cuda.synchronize()


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of some spans lasts.

    >>> _covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, end = 0.0, -float("inf")
    for low, high in sorted(spans):
        total += max(0.0, high - max(low, end))
        end = max(end, high)
    return total
