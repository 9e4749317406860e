"""How the cost of the joint method grows: time and memory against voxels, views, control points and visits.

    python -m benchmarks.growth --json growth.json --figure growth.png
    python -m benchmarks.growth --device cuda --along voxels,views

Every point is a process of its own: 30 joint steps of volume and motion at one resolution, enough to fill the
solver's memory. Its time is the median of a step, its memory the peak of what the process holds above what it
held after a run on a few voxels, beside what `memory_bytes` says beforehand. Points are written as they are
measured; those that are measured again replace the older ones.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.cases import sweep
from benchmarks.timing import machine
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Stage, Study, Visit, simultaneous
from duotomo.methods.level import FINEST
from duotomo.methods.memory import memory_bytes
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import BSpline

EDGE_MM = 70.0
SIGMA = 0.005
N_STEPS = 30
WARM = 10
"""Steps that are not timed: the first ones are of the volume alone, or search for a step's length."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """So many voxels, views, control points and visits; edges are of cubes."""

    voxel_edge: int = 46
    n_views: int = 11
    control_edge: int = 5
    n_visits: int = 2

    def count(self, along: str) -> int:
        """Return what an axis of the figure counts."""
        return {
            "voxels": self.voxel_edge**3,
            "views": self.n_views,
            "control points": self.control_edge**3,
            "visits": self.n_visits,
        }[along]


AXES: dict[str, tuple[Case, ...]] = {
    "voxels": tuple(Case(voxel_edge=n) for n in (22, 46, 100, 215)),
    "views": tuple(Case(n_views=n) for n in (3, 30, 300, 3000)),
    "control points": tuple(Case(voxel_edge=100, control_edge=n) for n in (5, 10, 22, 46)),
    "visits": tuple(Case(voxel_edge=22, n_visits=n) for n in (2, 10, 50, 250)),
}
"""Three decades along each, but of visits, of which nobody has so many."""


_FIXED = Case()
NAMES = {
    "voxels": f"voxels ({_FIXED.n_views} views, {_FIXED.control_edge}³ control points)",
    "views": f"views of a visit ({_FIXED.voxel_edge}³ voxels)",
    "control points": f"control points ({AXES['control points'][0].voxel_edge}³ voxels)",
    "visits": f"visits ({AXES['visits'][0].voxel_edge}³ voxels)",
}
"""What the axes of the figure say, and what stays the same along each."""


def study_of(case: Case, device: str) -> Study:
    """Return an ellipsoid that does not move, seen with noise at every visit, in single precision."""
    n = case.voxel_edge
    grid = VolumeGrid.on_detector((n, n, n), (EDGE_MM / n,) * 3, gap_mm=5.0)
    scan = sweep(n_views=case.n_views, detector_shape=(n, 2 * n), pixel_mm=EDGE_MM / n)
    radii = (0.4 * EDGE_MM, 0.4 * EDGE_MM, 0.4 * EDGE_MM)
    z, y, x = grid.center_mm
    body = torch.from_numpy(Ellipsoid(center_mm=(x, y, z), radii_mm=radii, value=0.05).voxels(grid)).float()
    views = Projector(grid=grid, acquisition=scan)(body)
    generator = torch.Generator().manual_seed(0)
    visits = tuple(
        Visit(projections=views + SIGMA * torch.randn(views.shape, generator=generator), acquisition=scan)
        for _ in range(case.n_visits)
    )
    return Study(grid=grid, visits=visits).to(device)


def settings_of(case: Case) -> Settings:
    """Return one stage of control points at full resolution, which goes on until its steps are made."""
    edge = case.control_edge
    stage = Stage(coarsen=FINEST, model=BSpline.shaped((edge, edge, edge)), n_steps=N_STEPS)
    settings = Settings(stages=(stage,), tolerance=0.0)
    return replace(settings, solver=replace(settings.solver, block=N_STEPS))


def forget_peak(device: str) -> int:
    """Let the peak begin anew, and return what this process holds now."""
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.memory_allocated())
    Path("/proc/self/clear_refs").write_text("5")
    return held_bytes("VmRSS")


def peak_bytes(device: str) -> int:
    """Return the most that this process has held since."""
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else held_bytes("VmHWM")


def held_bytes(name: str) -> int:
    """Return what Linux says of this process: VmRSS, in memory now, or VmHWM, at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def measured(case: Case, device: str) -> dict[str, float]:
    """Return seconds of a step, projector applications of a step, and bytes, with those said beforehand."""
    simultaneous(study_of(Case(voxel_edge=12, n_visits=2), device), settings_of(Case()))
    before = forget_peak(device)
    study, settings = study_of(case, device), settings_of(case)
    steps = simultaneous(study, settings).history[WARM:]
    pairs = list(pairwise(steps))
    return {
        "step_s": median(after.seconds - one.seconds for one, after in pairs),
        "applications": (steps[-1].applications - steps[0].applications) / len(pairs),
        "bytes": peak_bytes(device) - before,
        "bytes_said": memory_bytes(study, settings),
    }


def measured_apart(case: Case, device: str, limit_s: float = math.inf) -> dict[str, Any]:
    """Return the same, of a process of its own; or why there is nothing."""
    words = [sys.executable, "-m", "benchmarks.growth", "--device", device, "--one", json.dumps(asdict(case))]
    # What is freed goes back at once, or later arrays would lie where earlier ones were counted.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=None if limit_s == math.inf else limit_s,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit_s:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def slope(counts: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of growth between the last two points.

    >>> round(slope([10, 100, 1000], [3, 5, 50]), 6)
    1.0
    """
    return math.log(values[-1] / values[-2]) / math.log(counts[-1] / counts[-2])


def place(row: dict[str, Any]) -> tuple[str, int, int]:
    """Return which point a row is of, in the order of the figure."""
    return row["device"], list(AXES).index(row["along"]), row["count"]


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows device by device, axis by axis, from few to many."""
    return sorted(rows, key=place)


def exponents(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say how time and memory grow between the two largest counts along each axis."""
    for (device, along), group in groupby(in_order(rows), key=lambda row: (row["device"], row["along"])):
        good = [row for row in group if "failed" not in row]
        if len(good) > 1:
            counts = [row["count"] for row in good]
            time, memory = (slope(counts, [row[name] for row in good]) for name in ("step_s", "bytes"))
            yield f"{device}, {along}: time grows with the power {time:.2f}, memory with {memory:.2f}"


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw time and memory along every axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    devices = list(dict.fromkeys(row["device"] for row in rows))
    figure, panels = plt.subplots(2, len(AXES), figsize=(13, 6.4), sharey="row", layout="constrained")
    for (above, below), along in zip(panels.T, AXES, strict=True):
        for device in devices:
            own = [row for row in rows if (row["along"], row["device"]) == (along, device)]
            own = [row for row in own if "failed" not in row]
            if not own:
                continue
            counts = np.array([row["count"] for row in own], dtype=float)
            (line,) = above.loglog(counts, [row["step_s"] for row in own], "o-", label=device)
            below.loglog(counts, [row["bytes"] / 1e6 for row in own], "o-", color=line.get_color())
            said = [row["bytes_said"] / 1e6 for row in own]
            label = "said beforehand" if device == devices[0] else None
            below.loglog(counts, said, "x:", color="0.3", label=label)
        above.set_title(f"along {along}", fontsize=11)
        below.set_xlabel(NAMES[along])
        below.set_xlim(0.6 * AXES[along][0].count(along), 1.7 * AXES[along][-1].count(along))
        above.set_xlim(below.get_xlim())
    panels[0, 0].set_ylabel("time of a joint step, s")
    panels[1, 0].set_ylabel("peak memory, MB")
    for panel in panels[:, 0]:
        panel.legend(frameon=False)
    for panel in panels.flat:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Measure every point, print it, and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--along", default=",".join(AXES), help="axes, comma-separated; none if empty")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds of a point")
    parser.add_argument("--json", type=Path, help="rows in it that are not measured again are kept")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(Case(**json.loads(options.one)), options.device)))
        return
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows = json.loads(options.json.read_text())
    for along in [one for one in options.along.split(",") if one]:
        for case in AXES[along]:
            found = measured_apart(case, options.device, options.limit)
            row = {"device": options.device, "along": along, "count": case.count(along), **found}
            row["machine"] = machine(options.device)
            print(row, flush=True)
            rows = [one for one in rows if place(one) != place(row)] + [row]
            if options.json:
                options.json.write_text(json.dumps(in_order(rows), indent=1) + "\n", encoding="utf-8")
    for words in exponents(rows):
        print(words)
    if options.figure:
        draw(in_order(rows), options.figure)


if __name__ == "__main__":
    main()
