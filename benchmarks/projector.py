"""Time and judge duotomo's projector beside its peers: `python -m benchmarks.projector`."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.cases import CASES, SLAB_ACCURACY, SLAB_ACQUISITION, slab_cylinder, solid_for
from benchmarks.peers import rtk
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector

Array = NDArray[np.float32]


class Program(Protocol):
    """A projector under test. Its inputs are prepared outside the clock."""

    def prepare(self, array: Array) -> object: ...
    def forward(self, volume: object) -> object: ...
    def adjoint(self, projections: object) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation of one program on one case; `error` is relative L2 (forward) or the adjoint gap."""

    case: str
    operation: str
    program: str
    seconds: float
    error: float


class Duotomo:
    """duotomo on a device."""

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition, device: str) -> None:
        self._projector = Projector(grid=grid, acquisition=acquisition)
        self._device = device

    def prepare(self, array: Array) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        return self._projector(volume)

    def adjoint(self, projections: torch.Tensor) -> torch.Tensor:
        return self._projector.adjoint(projections)


class Rtk(rtk.RtkJoseph):
    """RTK, which takes arrays as they are."""

    def prepare(self, array: Array) -> Array:
        return array


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    device = "cuda" if options.gpu else "cpu"
    bandwidth = memory_bandwidth(device)
    print(
        f"{machine(device)}; copies {bandwidth / 1e9:.1f} GB/s; float32; {options.repeats} repeats",
        flush=True,
    )
    rows: list[Row] = []
    for case in options.cases:
        rows += run_case(case, device=device, repeats=options.repeats, rtk_clinical=options.rtk_clinical)
    print_table("Projector", HEADER, [cells(row, rows, bandwidth) for row in rows])
    if "clinical" in options.cases:
        print_slab_accuracy(device)
    if options.json is not None:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=2) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; `--cases abc,clinical` names a, b, c and clinical."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.projector", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="time duotomo alone, on the GPU")
    parser.add_argument(
        "--cases", help="letters and names, as in 'abc,clinical'; default abc (GPU: c,clinical)"
    )
    parser.add_argument("--repeats", type=int, help="runs after warm-up; default 5 (GPU: 20)")
    parser.add_argument("--rtk-clinical", action="store_true", help="run RTK on clinical too: minutes")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    words = (options.cases or ("c,clinical" if options.gpu else "abc")).split(",")
    options.cases = [case for word in words for case in ([word] if word in CASES else word)]
    if unknown := sorted(set(options.cases) - set(CASES)):
        parser.error(f"--cases: expected some of {list(CASES)}; got {unknown}")
    options.repeats = options.repeats or (20 if options.gpu else 5)
    return options


def run_case(case: str, *, device: str, repeats: int, rtk_clinical: bool) -> list[Row]:
    """Time and judge every program on one case, in turns."""
    grid, acquisition = CASES[case]
    programs: dict[str, Program] = {"duotomo": Duotomo(grid, acquisition, device)}
    if device == "cpu" and rtk.available() and (case != "clinical" or rtk_clinical):
        programs["rtk"] = Rtk(grid, acquisition)
    generator = np.random.default_rng(0)
    volume = generator.standard_normal(grid.shape, dtype=np.float32)
    projections = generator.standard_normal(acquisition.shape, dtype=np.float32)
    forwards = {name: bind(p.forward, p.prepare(volume)) for name, p in programs.items()}
    adjoints = {name: bind(p.adjoint, p.prepare(projections)) for name, p in programs.items()}
    seconds = {
        "forward": time_in_turns(forwards, device, repeats),
        "adjoint": time_in_turns(adjoints, device, repeats),
    }
    solid = solid_for(case)
    voxels, exact = solid.voxels(grid, dtype=np.float32), solid.line_integrals(acquisition)
    errors = {
        "forward": {name: forward_error(p, voxels, exact) for name, p in programs.items()},
        "adjoint": {name: adjoint_gap(p, volume, projections) for name, p in programs.items()},
    }
    return [
        Row(case=case, operation=operation, program=name, seconds=value, error=errors[operation][name])
        for operation, times in seconds.items()
        for name, value in times.items()
    ]


def bind(operation: Callable[[object], object], prepared: object) -> Callable[[], object]:
    """Return the operation on its prepared input, to be called under the clock."""
    return lambda: operation(prepared)


def time_in_turns(runs: dict[str, Callable[[], object]], device: str, repeats: int) -> dict[str, float]:
    """Return seconds per program: best of `repeats` on a CPU, median on a GPU, after one warm-up each.

    The programs take turns, so that a change of the machine's load meets all of them.
    """
    timer = gpu_seconds if device == "cuda" else wall_seconds
    for run in runs.values():
        for _ in range(3 if device == "cuda" else 1):
            timer(run)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(timer(run))
    return {name: median(values) if device == "cuda" else min(values) for name, values in times.items()}


def wall_seconds(run: Callable[[], object]) -> float:
    """Return the wall-clock time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def gpu_seconds(run: Callable[[], object]) -> float:
    """Return the time of one call between two CUDA events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def memory_bandwidth(device: str) -> float:
    """Return the bytes per second, read and written, of the best of a few large copies."""
    source = torch.rand(2**27 if device == "cuda" else 2**26, device=device)
    target = torch.empty_like(source)
    copies = time_in_turns({"copy": bind(target.copy_, source)}, device, 5)
    return 2 * source.nbytes / copies["copy"]


def forward_error(program: Program, voxels: Array, exact: NDArray[np.float64]) -> float:
    """Return |A voxels - exact| / |exact|."""
    got = double(program.forward(program.prepare(voxels)))
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))


def adjoint_gap(program: Program, volume: Array, projections: Array) -> float:
    """Return |<Ax, y> - <x, A'y>| / (|Ax| |y|), summed in float64 over float32 results."""
    x, y = double(volume), double(projections)
    ax, aty = (
        double(program.forward(program.prepare(volume))),
        double(program.adjoint(program.prepare(projections))),
    )
    difference = np.vdot(ax, y) - np.vdot(x, aty)
    return float(abs(difference) / (np.linalg.norm(ax) * np.linalg.norm(y)))


def double(array: object) -> NDArray[np.float64]:
    """Return a tensor or an array as float64 on the host."""
    return np.asarray(array.cpu() if isinstance(array, torch.Tensor) else array, dtype=np.float64)


HEADER = (
    "case",
    "operation",
    "program",
    "seconds",
    "ratio to rtk",
    "Gvoxel-views/s",
    "of bandwidth",
    "error / gap",
)


def cells(row: Row, rows: Sequence[Row], bandwidth: float) -> tuple[str, ...]:
    """Return one row of text; the traffic is the compulsory one: volume and projections moved once each."""
    grid, acquisition = CASES[row.case]
    n_voxels, n_pixels = np.prod(grid.shape), np.prod(acquisition.shape)
    speed, traffic = n_voxels * acquisition.n_views / row.seconds, 4 * (n_voxels + n_pixels) / row.seconds
    peers = [r for r in rows if (r.case, r.operation, r.program) == (row.case, row.operation, "rtk")]
    ratio = f"{row.seconds / peers[0].seconds:.3f}" if peers else "-"
    error = f"{row.error:.5f}" if row.operation == "forward" else f"{row.error:.1e}"
    labels = (row.case, row.operation, row.program, f"{row.seconds:.6f}", ratio)
    return (*labels, f"{speed / 1e9:.3f}", f"{traffic / bandwidth:.1%}", error)


def print_slab_accuracy(device: str) -> None:
    """Print the error on one cylinder of slabs beside that of cubes."""
    solid = slab_cylinder(next(iter(SLAB_ACCURACY.values())))
    exact = solid.line_integrals(SLAB_ACQUISITION)
    errors = {
        name: forward_error(
            Duotomo(grid, SLAB_ACQUISITION, device), solid.voxels(grid, dtype=np.float32), exact
        )
        for name, grid in SLAB_ACCURACY.items()
    }
    slabs, cubes = errors.values()
    table = [(name, f"{error:.5f}") for name, error in errors.items()]
    print_table("Slab accuracy", ("grid", "error"), [*table, ("ratio", f"{slabs / cubes:.2f}")])


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in (header, *rows)]
    print(f"\n{title}")
    for row, line in zip((header, *rows), lines, strict=True):
        print("  ".join([row[0].ljust(widths[0]), *line[1:]]))


def machine(device: str) -> str:
    """Return what the benchmark runs on, in words."""
    return torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
