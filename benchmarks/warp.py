"""Time and judge duotomo's warps beside their peers: `python -m benchmarks.warp`.

Every program computes the same: one that differs from duotomo in float64 by more than rounding explains gets
no time. duotomo's calls are timed whole, as a user makes them: parameters to map, checks, kernel. The peers
get a head start: SimpleITK has its images and its transform ready, and the backward passes of `grid_sample`
have their grid and their forward pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import warp_memory
from benchmarks.cases import WARPS, warp
from benchmarks.contest import Entrant, Run, Task, contest, host
from benchmarks.peers import grid_sample, simpleitk
from benchmarks.peers.available import Available, everywhere
from benchmarks.rows import Row, print_header, print_rows, print_table, write_rows
from benchmarks.timing import machine, thread_count
from duotomo.transforms import Transform

LARGEST_ERROR = 5e-3
"""Relative, in the Euclidean norm. A peer that sums 22 million products in single precision is 1.4e-3 off."""

IN_A_ROW = 10
"""Calls per time on a GPU, which can work on one while the host prepares the next, as in an iteration."""

SHAPE, CONTROL = (511, 208, 208), (16, 16, 16)

Shape = tuple[int, int, int]


class Duotomo:
    """duotomo on a device."""

    def __init__(self, transform: Transform, params: torch.Tensor, device: str) -> None:
        self._transform, self._params, self._device = transform, params, device

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        transform, params, volume, image = (
            self._transform,
            self._params,
            x.to(self._device),
            y.to(self._device),
        )
        return {
            "forward": Run(call=lambda: transform.warp(params)(volume)),
            "adjoint": Run(call=lambda: transform.warp(params).adjoint(image)),
            "parameter-gradient": Run(call=lambda: transform.vjp(params, volume, image)),
        }


class DuotomoDeterministic(Duotomo):
    """duotomo where PyTorch is asked for results that never vary: on a GPU, another adjoint."""

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        adjoint_call: Callable[[], torch.Tensor] = super().runs(x, y)["adjoint"].call

        def adjoint() -> torch.Tensor:
            with deterministic():
                return adjoint_call()

        return {"adjoint": Run(call=adjoint)}


class GridSample:
    """PyTorch's `grid_sample` and its automatic derivatives."""

    def __init__(self, transform: Transform, params: torch.Tensor, device: str) -> None:
        self._peer, self._device = grid_sample.make(transform, params, device), device

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        volume, image = x.to(self._device), y.to(self._device)
        return {
            "forward": Run(call=partial(self._peer.forward, volume)),
            "adjoint": Run(call=self._peer.adjoint(volume, image)),
            "parameter-gradient": Run(call=self._peer.gradient(volume, image), read=self._peer.in_params),
        }


class SimpleItk:
    """SimpleITK's resampling."""

    def __init__(self, transform: Transform, params: torch.Tensor, device: str) -> None:
        self._peer = simpleitk.SimpleItk(transform, params, n_threads=torch.get_num_threads())

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        call = partial(self._peer.forward, self._peer.image(x.numpy()))
        return {"forward": Run(call=call, read=self._read, inside=True)}

    def _read(self, image: object) -> torch.Tensor:
        return torch.from_numpy(self._peer.array(image))


def on_a_gpu(device: str) -> Available:
    """Return that a program is of interest on a GPU only."""
    return Available() if device == "cuda" else Available("duotomo never varies on a CPU")


PROGRAMS = {
    "duotomo": Entrant(everywhere, Duotomo),
    "duotomo-deterministic": Entrant(on_a_gpu, DuotomoDeterministic),
    "grid_sample": Entrant(everywhere, GridSample),
    "simpleitk": Entrant(simpleitk.available, SimpleItk),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    where, device = machine(options.device), options.device
    threads = "" if device == "cuda" else f"; {options.threads} threads"
    print(
        f"{where}{threads}; float32; volume (z, y, x) = {options.shape}, control points {options.control}; "
        f"{options.repeats} repeats",
        flush=True,
    )
    if device == "cpu" and not (state := simpleitk.available()):
        print(f"{state}, so it is left out.")
    print_header("Warp")
    rows: list[Row] = []
    with thread_count(options.threads):
        for name in WARPS:
            found = run_transform(
                name, list(PROGRAMS), options.shape, options.control, device=device, repeats=options.repeats
            )
            print_rows(found)
            rows += found
    print_speeds(rows)
    if options.memory:
        print_memory(options)
    if options.json is not None:
        write_rows(options.json, rows, {"machines": {device: where}})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warp", description=__doc__)
    parser.add_argument("--shape", type=triple, default=SHAPE, help="voxels z,y,x")
    parser.add_argument("--control", type=triple, default=CONTROL, help="control points z,y,x")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, help="runs after warm-up; default 5 (GPU: 20)")
    parser.add_argument("--threads", type=int, default=2, help="for every program on the CPU; default 2")
    parser.add_argument("--memory", action="store_true", help="also measure the memory that duotomo needs")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (20 if options.device == "cuda" else 5)
    return options


def triple(text: str) -> Shape:
    """Return three counts out of text such as '511,208,208'."""
    z, y, x = (int(word) for word in text.split(","))
    return z, y, x


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


def run_transform(
    name: str,
    names: Sequence[str],
    shape: Shape = SHAPE,
    control_shape: Shape = CONTROL,
    *,
    device: str,
    repeats: int,
    limit_s: float = inf,
) -> list[Row]:
    """Judge and time, of the programs named, those that can run, on one transform."""
    transform, params = warp(name, shape, control_shape)
    programs = {
        program: partial(PROGRAMS[program].make, transform, params, device)
        for program in names
        if PROGRAMS[program].available(device)
    }
    given = task(name, transform, params, device)
    return contest(given, programs, device=device, repeats=repeats, limit_s=limit_s)


def task(name: str, transform: Transform, params: torch.Tensor, device: str) -> Task:
    """Return a transform's task; what is expected is duotomo's in float64, on the same device."""
    shape = transform.grid.shape
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=generator) for _ in range(2))
    volume, image = (smooth(shape, seed) for seed in (1, 2))
    exact_volume, exact_image = (array.to(device, torch.float64) for array in (volume, image))
    operator = transform.warp(params)
    return Task(
        name=name,
        x=x,
        y=y,
        judged=(volume, image),
        expected={
            "forward": host(operator(exact_volume)),
            "adjoint": host(operator.adjoint(exact_image)),
            "parameter-gradient": host(transform.vjp(params, exact_volume, exact_image)),
        },
        # Those that are read from well inside the volume.
        inside=host(operator(torch.ones_like(exact_volume))) > 1 - 1e-4,
        largest_error=LARGEST_ERROR,
        n_calls=IN_A_ROW if device == "cuda" else 1,
    )


def smooth(shape: Shape, seed: int) -> torch.Tensor:
    """Return random blobs, (z, y, x), float32.

    Smooth, so that programs whose places differ by rounding read the same slopes from different voxels.
    """
    blobs = torch.randn(1, 1, 5, 5, 5, generator=torch.Generator().manual_seed(seed))
    return functional.interpolate(blobs, shape, mode="trilinear", align_corners=True)[0, 0]


def print_speeds(rows: Sequence[Row]) -> None:
    """Print how duotomo compares with the fastest peer of each operation."""
    print()
    for own in (row for row in rows if row.program == "duotomo" and row.best_ms is not None):
        same = [r for r in rows if (r.case, r.operation) == (own.case, own.operation)]
        peers = {r.program: r.best_ms for r in same if not r.program.startswith("duotomo") and r.best_ms}
        if not peers or own.best_ms is None:
            continue
        fastest = min(peers, key=lambda program: peers[program])
        ratio = peers[fastest] / own.best_ms
        words = f"{ratio:.2f} x faster" if ratio >= 1 else f"{1 / ratio:.2f} x slower"
        print(f"{own.case} {own.operation}: duotomo is {words} than the fastest peer ({fastest})")


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
