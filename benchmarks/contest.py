"""Programs that do the same task are judged, then timed in turns: one row for each operation of each.

A program that fails is a row with the reason. Inputs are prepared outside the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

import torch

from benchmarks.peers.available import Available
from benchmarks.rows import Row
from benchmarks.timing import Times, in_a_row, reason, time_in_turns


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one program does for one operation.

    call: what is timed. read: turns what `call` returns into duotomo's axes. inside: whether it is right only
    in the voxels that the task names.
    """

    call: Callable[[], Any]
    read: Callable[[Any], torch.Tensor] = torch.as_tensor
    inside: bool = False


class Program(Protocol):
    """A program on one task's geometry."""

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        """Return what it can do of 'forward' (of the volume x), 'adjoint' (of y) and others."""


@dataclass(frozen=True)
class Entrant:
    """A program by name: whether it runs on a device, and how it is made, the device last."""

    available: Callable[[str], Available]
    make: Callable[..., Program]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the programs are given.

    x, y: random, float32, in the domain and in the range: for the times and the adjoint gap. judged: the x
    and y that the results in `expected` belong to, float64. inside: the voxels on which runs that say so are
    judged. largest_error: beyond it a program does something else, and gets no time. n_calls: per time.
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    judged: tuple[torch.Tensor, torch.Tensor]
    expected: Mapping[str, torch.Tensor]
    inside: torch.Tensor | None = None
    largest_error: float = inf
    n_calls: int = 1


@dataclass
class _Entry:
    """One program while it takes part."""

    runs: dict[str, Run] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    gap: float | None = None
    failed: dict[str, str] = field(default_factory=dict)


def contest(
    task: Task,
    programs: Mapping[str, Callable[[], Program]],
    *,
    device: str,
    repeats: int,
    limit_s: float = inf,
) -> list[Row]:
    """Judge and time programs on a task; `limit_s` is for all repeats of one operation of one program."""
    entries = {name: _judged(task, make) for name, make in programs.items()}
    operations = dict.fromkeys(name for entry in entries.values() for name in (*entry.runs, *entry.failed))
    rows = []
    for operation in operations:
        calls = {
            name: in_a_row(entry.runs[operation].call, task.n_calls)
            for name, entry in entries.items()
            if operation in entry.runs and operation not in entry.failed
        }
        times = time_in_turns(calls, device, repeats, limit_s)
        for name, entry in entries.items():
            if operation in entry.runs or operation in entry.failed:
                rows.append(_row(task, operation, name, device, entry, times.get(name)))
    return rows


def _row(task: Task, operation: str, name: str, device: str, entry: _Entry, times: Times | None) -> Row:
    failed = entry.failed.get(operation) or (times.failed if times else "")
    taken = times if times is not None and not failed else None
    return Row(
        device=device,
        case=task.name,
        operation=operation,
        program=name,
        best_ms=1e3 * taken.best_s / task.n_calls if taken else None,
        median_ms=1e3 * taken.median_s / task.n_calls if taken else None,
        error=entry.errors.get(operation),
        gap=entry.gap if operation == "adjoint" else None,
        failed=failed,
    )


def _judged(task: Task, make: Callable[[], Program]) -> _Entry:
    """Return a program's runs on the random input, with its errors and its gap, or why there are none."""
    entry = _Entry()
    try:
        program = make()
        entry.runs = program.runs(task.x, task.y)
        judged = program.runs(*task.judged)
    except Exception as error:
        entry.failed = dict.fromkeys(entry.runs or ("forward", "adjoint"), reason(error))
        return entry
    results = {}
    for operation, run in entry.runs.items():
        try:
            # Read at once: a program may write its next result into the same memory.
            results[operation] = host(run.read(run.call()))
            if not bool(results[operation].isfinite().all()):
                raise ArithmeticError("gives numbers that are not finite")
            if operation in task.expected:
                entry.errors[operation] = _error(task, operation, judged[operation])
        except Exception as error:
            entry.failed[operation] = reason(error)
    if {"forward", "adjoint"} <= results.keys():
        entry.gap = adjoint_gap(task.x, task.y, results["forward"], results["adjoint"])
    return entry


def _error(task: Task, operation: str, run: Run) -> float:
    got, expected = host(run.read(run.call())), task.expected[operation]
    if run.inside and task.inside is not None:
        got, expected = got[task.inside], expected[task.inside]
    error = relative_difference(got, expected)
    if not error <= task.largest_error:
        raise ArithmeticError(
            f"does not compute the same: expected an error below {task.largest_error:.0e}; got {error:.1e}"
        )
    return error


def adjoint_gap(x: torch.Tensor, y: torch.Tensor, ax: torch.Tensor, aty: torch.Tensor) -> float:
    """Return |<Ax, y> - <x, A'y>| / (|Ax| |y|), summed in float64."""
    x, y, ax, aty = (host(array).flatten() for array in (x, y, ax, aty))
    return float((ax @ y - x @ aty).abs() / (ax.norm() * y.norm()))


def relative_difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return |got - expected| / |expected|, summed in float64."""
    got, expected = host(got), host(expected)
    return float((got - expected).norm() / expected.norm())


def host(array: torch.Tensor) -> torch.Tensor:
    """Return a tensor as float64 in the host's memory."""
    return array.detach().to("cpu", torch.float64)
