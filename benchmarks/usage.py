"""What a process holds, by Linux's /proc, and whether that stays level while it works on and on."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a process held at one moment; n_temporary: entries of its temporary folder."""

    seconds: float
    resident_mib: float
    n_threads: int
    n_handles: int
    n_temporary: int
    n_objects: int = 0

    @classmethod
    def of(cls, process: int, temporary: Path, *, began: float = 0.0, n_objects: int = 0) -> Usage:
        """Return what a process holds now; began: by `time.monotonic`, when `seconds` was 0."""
        root = Path("/proc", str(process))
        status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
        return cls(
            seconds=time.monotonic() - began,
            resident_mib=1024 * int(status["VmRSS"].split()[0]) / MIB,
            n_threads=int(status["Threads"]),
            # Listing them opens one more, which is counted only where a process looks at itself.
            n_handles=len(os.listdir(root / "fd")) - (process == os.getpid()),
            n_temporary=len(os.listdir(temporary)),
            n_objects=n_objects,
        )

    def __str__(self) -> str:
        objects = f", {self.n_objects} objects" if self.n_objects else ""
        return (
            f"{self.seconds:7.0f} s: {self.resident_mib:8.2f} MiB, {self.n_threads} threads, "
            f"{self.n_handles} handles, {self.n_temporary} temporary files{objects}"
        )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much may come on after a warm-up.

    warm_up: the first moments, which do not count. mib_each: by the straight line through the others, from
    one moment to the next. mib: from the median of their first fifth to that of their last. objects_each: as
    mib_each, in Python's objects.
    """

    warm_up: int
    mib_each: float
    mib: float
    objects_each: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a process stays level; faults: why not."""

    mib_each: float
    mib: float
    objects_each: float
    faults: tuple[str, ...]

    @property
    def level(self) -> bool:
        """Whether there are no faults."""
        return not self.faults

    def __str__(self) -> str:
        said = (
            f"{self.mib_each:+.4f} MiB and {self.objects_each:+.1f} objects each, {self.mib:+.2f} MiB in all"
        )
        return f"{'level' if self.level else 'NOT LEVEL'}: {'; '.join((said, *self.faults))}"


def verdict(moments: Sequence[Usage], limits: Limits) -> Verdict:
    """Return whether what a process holds stays level: memory within the limits, all else equal."""
    counted = moments[limits.warm_up :]
    if len(counted) < 2:
        raise ValueError(
            f"verdict: expected two moments or more after a warm-up of {limits.warm_up}; got {len(counted)}. "
            f"Measure longer."
        )
    numbers = range(len(counted))
    mib = [one.resident_mib for one in counted]
    some = max(1, len(counted) // 5)
    mib_each, objects_each = (
        linear_regression(numbers, values).slope for values in (mib, [one.n_objects for one in counted])
    )
    grown = median(mib[-some:]) - median(mib[:some])
    faults = [
        f"{found:.3g} {what}, expected at most {most:g}"
        for what, found, most in (
            ("MiB from one moment to the next", mib_each, limits.mib_each),
            ("MiB in all", grown, limits.mib),
            ("objects from one moment to the next", objects_each, limits.objects_each),
        )
        if found > most
    ]
    for name in ("n_threads", "n_handles", "n_temporary"):
        if len(seen := {getattr(one, name) for one in counted}) > 1:
            faults.append(f"{name.removeprefix('n_')} from {min(seen)} to {max(seen)}, expected equal")
    return Verdict(mib_each=mib_each, mib=grown, objects_each=objects_each, faults=tuple(faults))
