"""Time and judge duotomo's projector beside its peers: `python -m benchmarks.projector`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from math import inf, prod
from pathlib import Path

import numpy as np
import torch

from benchmarks.cases import (
    CASES,
    FOR_A_GPU,
    SLAB_ACCURACY,
    SLAB_ACQUISITION,
    line_integrals,
    slab_cylinder,
    solid_for,
)
from benchmarks.contest import Entrant, Run, Task, contest, relative_difference
from benchmarks.peers import astra, leap, rtk
from benchmarks.peers.available import everywhere
from benchmarks.rows import Row, print_header, print_rows, print_table, write_rows
from benchmarks.timing import machine, memory_bandwidth
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector


class Duotomo:
    """duotomo on a device."""

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition, device: str) -> None:
        self._projector = Projector(grid=grid, acquisition=acquisition)
        self._device = device

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        return {
            "forward": Run(call=partial(self._projector, x.to(self._device))),
            "adjoint": Run(call=partial(self._projector.adjoint, y.to(self._device))),
        }


class Rtk:
    """RTK's matched Joseph pair."""

    def __init__(self, grid: VolumeGrid, acquisition: Acquisition, device: str) -> None:
        self._pair = rtk.RtkJoseph(grid, acquisition)

    def runs(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Run]:
        return {
            "forward": Run(call=partial(self._pair.forward, x.numpy()), read=torch.tensor),
            "adjoint": Run(call=partial(self._pair.adjoint, y.numpy()), read=torch.tensor),
        }


PROGRAMS = {
    "duotomo": Entrant(everywhere, Duotomo),
    "rtk": Entrant(rtk.available, Rtk),
    "astra": Entrant(astra.available, astra.Astra),
    "leap": Entrant(leap.available, leap.Leap),
    "leap-along-y": Entrant(leap.available, leap.LeapAlongY),
    "leap-footprints": Entrant(leap.footprints_available, leap.LeapFootprints),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    options = parse(arguments)
    device = "cuda" if options.gpu else "cpu"
    bandwidth = memory_bandwidth(device)
    where = machine(device)
    print(f"{where}; copies {bandwidth / 1e9:.1f} GB/s; float32; {options.repeats} repeats", flush=True)
    print_header("Projector")
    rows: list[Row] = []
    for case in options.cases:
        # Minutes, unless asked for by name.
        alone = device == "cpu" and case in FOR_A_GPU and options.programs is None
        names = ["duotomo"] if alone else options.programs or list(PROGRAMS)
        found = run_case(case, names, device=device, repeats=options.repeats)
        print_rows(found)
        rows += found
    print_speeds(rows, bandwidth)
    if "clinical" in options.cases:
        print_slab_accuracy(device)
    if options.json is not None:
        write_rows(options.json, rows, {"machines": {device: where}})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; `--cases abc,clinical` names a, b, c and clinical."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.projector", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="time on the GPU")
    parser.add_argument(
        "--cases", help="letters and names, as in 'abc,clinical'; default abc (GPU: c,clinical)"
    )
    parser.add_argument(
        "--programs",
        help=f"some of {','.join(PROGRAMS)}; default: those installed (large cases on a CPU: duotomo)",
    )
    parser.add_argument("--repeats", type=int, help="runs after warm-up; default 5 (GPU: 20)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args(arguments)
    words = (options.cases or ("c,clinical" if options.gpu else "abc")).split(",")
    options.cases = [case for word in words for case in ([word] if word in CASES else word)]
    if unknown := sorted(set(options.cases) - set(CASES)):
        parser.error(f"--cases: expected some of {list(CASES)}; got {unknown}")
    options.programs = options.programs and options.programs.split(",")
    if unknown := sorted(set(options.programs or ()) - set(PROGRAMS)):
        parser.error(f"--programs: expected some of {list(PROGRAMS)}; got {unknown}")
    options.repeats = options.repeats or (20 if options.gpu else 5)
    return options


def run_case(
    case: str, names: Sequence[str], *, device: str, repeats: int, limit_s: float = inf
) -> list[Row]:
    """Judge and time, of the programs named, those that can run, on one case."""
    grid, acquisition = CASES[case]
    programs = {
        name: partial(PROGRAMS[name].make, grid, acquisition, device)
        for name in names
        if PROGRAMS[name].available(device)
    }
    return contest(task(case), programs, device=device, repeats=repeats, limit_s=limit_s)


def task(case: str) -> Task:
    """Return a case: random volume and projections, and a solid with its exact line integrals."""
    grid, acquisition = CASES[case]
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=generator) for shape in (grid.shape, acquisition.shape))
    solid = solid_for(case)
    voxels = torch.from_numpy(solid.voxels(grid, dtype=np.float32))
    exact = torch.from_numpy(line_integrals(solid, acquisition))
    return Task(name=case, x=x, y=y, judged=(voxels, y), expected={"forward": exact})


def print_speeds(rows: Sequence[Row], bandwidth: float) -> None:
    """Print the speeds; the traffic is the compulsory one: volume and projections moved once each."""
    lines = []
    for row in rows:
        if row.best_ms is None:
            continue
        grid, acquisition = CASES[row.case]
        n_voxels, n_pixels, seconds = prod(grid.shape), prod(acquisition.shape), row.best_ms / 1e3
        speed, traffic = n_voxels * acquisition.n_views / seconds, 4 * (n_voxels + n_pixels) / seconds
        labels = (row.case, row.operation, row.program)
        lines.append((*labels, f"{speed / 1e9:.3f}", f"{traffic / bandwidth:.1%}"))
    print_table("Speed", ("case", "operation", "program", "Gvoxel-views/s", "of bandwidth"), lines)


def print_slab_accuracy(device: str) -> None:
    """Print the error on one cylinder of slabs beside that of cubes."""
    solid = slab_cylinder(next(iter(SLAB_ACCURACY.values())))
    exact = torch.from_numpy(line_integrals(solid, SLAB_ACQUISITION))
    errors = {}
    for name, grid in SLAB_ACCURACY.items():
        voxels = torch.from_numpy(solid.voxels(grid, dtype=np.float32))
        projector = Projector(grid=grid, acquisition=SLAB_ACQUISITION)
        errors[name] = relative_difference(projector(voxels.to(device)), exact)
    slabs, cubes = errors.values()
    table = [(name, f"{error:.5f}") for name, error in errors.items()]
    print_table("Slab accuracy", ("grid", "error"), [*table, ("ratio", f"{slabs / cubes:.2f}")])


if __name__ == "__main__":
    main()
