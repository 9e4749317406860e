"""Time duotomo's warps beside their peers: `python -m benchmarks.warp`.

Every program computes the same: that is checked before anything is timed. duotomo's calls are timed whole, as
a user makes them: parameters to map, checks, kernel. The peers get a head start: SimpleITK has its images and
its transform ready, and the backward passes of `grid_sample` have their grid and their forward pass.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from benchmarks import warp_memory
from benchmarks.cases import WARPS, warp
from benchmarks.peers import grid_sample, simpleitk
from benchmarks.projector import machine, print_table, time_in_turns
from duotomo.transforms import Transform

LARGEST_DIFFERENCE = 1e-4
"""Of two programs, relative, in the Euclidean norm. Single precision explains a third of it on 500 voxels."""

IN_A_ROW = 10
"""Calls per time on a GPU, which can work on one while the host prepares the next, as in an iteration."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one program does for one operation.

    call: what is timed. read: turns what `call` returns into duotomo's terms. inside: whether to compare only
    voxels that are read from well inside the volume.
    """

    call: Callable[[], Any]
    read: Callable[[Any], torch.Tensor] = torch.as_tensor
    inside: bool = False


Runs = dict[str, dict[str, Run]]
"""By operation and program. duotomo comes first."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation of one program on one transform."""

    transform: str
    operation: str
    program: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    kind = "median" if options.device == "cuda" else "best"
    threads = "" if options.device == "cuda" else f"; {options.threads} threads"
    print(
        f"{machine(options.device)}{threads}; float32; volume (z, y, x) = {options.shape}, "
        f"control points {options.control}; {kind} of {options.repeats}",
        flush=True,
    )
    if options.device == "cpu" and not simpleitk.available():
        print("SimpleITK is not installed, so it is left out.")
    with thread_count(options.threads):
        rows = [row for name in WARPS for row in run_transform(name, options)]
    print_times(rows, options.device)
    print_speeds(rows)
    if options.memory:
        print_memory(options)
    if options.json is not None:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=2) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warp", description=__doc__)
    parser.add_argument("--shape", type=triple, default=(511, 208, 208), help="voxels z,y,x")
    parser.add_argument("--control", type=triple, default=(16, 16, 16), help="control points z,y,x")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, help="runs after warm-up; default 5 (GPU: 20)")
    parser.add_argument("--threads", type=int, default=2, help="for every program on the CPU; default 2")
    parser.add_argument("--memory", action="store_true", help="also measure the memory that duotomo needs")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (20 if options.device == "cuda" else 5)
    return options


def triple(text: str) -> tuple[int, int, int]:
    """Return three counts out of text such as '511,208,208'."""
    z, y, x = (int(word) for word in text.split(","))
    return z, y, x


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


@contextmanager
def deterministic() -> Iterator[None]:
    """Ask PyTorch, and with it duotomo, for results that never vary."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def run_transform(name: str, options: argparse.Namespace) -> list[Row]:
    """Check that all programs agree on a transform, then time them in turns."""
    transform, params = warp(name, options.shape, options.control)
    volume, image = (smooth(options.shape, seed).to(options.device) for seed in (1, 2))
    runs = make_runs(transform, params, volume, image, options)
    inside = transform.warp(params)(torch.ones_like(volume)) > 1 - 1e-4
    check_agreement(name, runs, inside.cpu())
    rows = []
    for operation, programs in runs.items():
        n_calls = IN_A_ROW if options.device == "cuda" else 1
        calls = {program: in_a_row(run.call, n_calls) for program, run in programs.items()}
        for program, seconds in time_in_turns(calls, options.device, options.repeats).items():
            rows.append(Row(transform=name, operation=operation, program=program, seconds=seconds / n_calls))
    return rows


def in_a_row(call: Callable[[], Any], n_calls: int) -> Callable[[], None]:
    """Return what makes a call several times."""

    def calls() -> None:
        for _ in range(n_calls):
            call()

    return calls


def smooth(shape: tuple[int, int, int], seed: int) -> torch.Tensor:
    """Return random blobs, (z, y, x), float32.

    Smooth, so that programs whose places differ by rounding read the same slopes from different voxels.
    """
    blobs = torch.randn(1, 1, 5, 5, 5, generator=torch.Generator().manual_seed(seed))
    return functional.interpolate(blobs, shape, mode="trilinear", align_corners=True)[0, 0]


def make_runs(
    transform: Transform,
    params: torch.Tensor,
    volume: torch.Tensor,
    image: torch.Tensor,
    options: argparse.Namespace,
) -> Runs:
    """Return what to time."""

    def adjoint() -> torch.Tensor:
        return transform.warp(params).adjoint(image)

    def deterministic_adjoint() -> torch.Tensor:
        with deterministic():
            return adjoint()

    peer = grid_sample.make(transform, params, options.device)
    runs: Runs = {
        "forward": {
            "duotomo": Run(call=lambda: transform.warp(params)(volume)),
            "grid_sample": Run(call=partial(peer.forward, volume)),
        },
        "adjoint": {
            "duotomo": Run(call=adjoint),
            "grid_sample": Run(call=peer.adjoint(volume, image)),
        },
        "parameter-gradient": {
            "duotomo": Run(call=lambda: transform.vjp(params, volume, image)),
            "grid_sample": Run(call=peer.gradient(volume, image), read=peer.in_params),
        },
    }
    if options.device == "cuda":
        runs["adjoint"]["duotomo-deterministic"] = Run(call=deterministic_adjoint)
    elif simpleitk.available():
        itk = simpleitk.SimpleItk(transform, params, n_threads=options.threads)
        call = partial(itk.forward, itk.image(volume.numpy()))
        runs["forward"]["simpleitk"] = Run(
            call=call, read=lambda result: torch.from_numpy(itk.array(result)), inside=True
        )
    return runs


def check_agreement(name: str, runs: Runs, inside: torch.Tensor) -> None:
    """Print how far every program is from duotomo; exit if one is farther than rounding explains."""
    for operation, programs in runs.items():
        results = {program: run.read(run.call()).cpu() for program, run in programs.items()}
        expected = results.pop("duotomo")
        for program, result in results.items():
            where = inside if programs[program].inside else ...
            difference = relative_difference(result[where], expected[where])
            print(f"{name} {operation}: {program} differs by {difference:.1e}", flush=True)
            if not difference < LARGEST_DIFFERENCE:
                raise SystemExit(
                    f"benchmarks.warp: expected {program} and duotomo to agree on {name} {operation} to "
                    f"{LARGEST_DIFFERENCE:.0e}; got {difference:.1e}. They do not compute the same, so there "
                    f"are no times to compare. Correct the program that is wrong."
                )


def relative_difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return |got - expected| / |expected|, summed in float64."""
    apart = torch.linalg.vector_norm(got - expected, dtype=torch.float64)
    return float(apart / torch.linalg.vector_norm(expected, dtype=torch.float64))


def print_times(rows: Sequence[Row], device: str) -> None:
    """Print one line for each row."""
    unit, factor = ("ms", 1e3) if device == "cuda" else ("seconds", 1.0)
    own = {(row.transform, row.operation): row.seconds for row in rows if row.program == "duotomo"}
    lines = [
        (
            row.transform,
            row.operation,
            row.program,
            f"{row.seconds * factor:.4f}",
            f"{row.seconds / own[row.transform, row.operation]:.2f}",
        )
        for row in rows
    ]
    print_table("Warp", ("transform", "operation", "program", unit, "ratio to duotomo"), lines)


def print_speeds(rows: Sequence[Row]) -> None:
    """Print how duotomo compares with the fastest peer of each operation."""
    print()
    for own in (row for row in rows if row.program == "duotomo"):
        same = [r for r in rows if (r.transform, r.operation) == (own.transform, own.operation)]
        peer = min((r for r in same if not r.program.startswith("duotomo")), key=lambda r: r.seconds)
        ratio = peer.seconds / own.seconds
        words = f"{ratio:.2f} x faster" if ratio >= 1 else f"{1 / ratio:.2f} x slower"
        print(f"{own.transform} {own.operation}: duotomo is {words} than the fastest peer ({peer.program})")


def print_memory(options: argparse.Namespace) -> None:
    """Print what duotomo needs beyond its input and its output, each measured in a process of its own."""
    lines = []
    for name in WARPS:
        for operation in warp_memory.OPERATIONS:
            share = warp_memory.measure(
                name,
                operation,
                shape=options.shape,
                control_shape=options.control,
                device=options.device,
                n_threads=options.threads,
            )
            lines.append((name, operation, f"{share:.1%}"))
    print_table("Memory beyond input and output", ("transform", "operation", "of input and output"), lines)


if __name__ == "__main__":
    main()
