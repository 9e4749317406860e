"""How the cost of the joint method grows: time and memory against voxels, views, control points and visits.

    python -m benchmarks.growth --json growth.json --figure growth.png
    python -m benchmarks.growth --device cuda --along voxels,views

Every point is a process of its own: 30 joint steps of volume and motion at one resolution, enough to fill the
solver's memory. Its time is the median of a step, its memory the peak above what the process holds after a
run on a few voxels, beside what `memory_bytes` says beforehand.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.cases import sweep
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


def peak_bytes(device: str) -> int:
    """Return the most that this process has held so far."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(case: Case, device: str) -> dict[str, float]:
    """Return seconds of a step, projector applications of a step, and bytes, with those said beforehand."""
    simultaneous(study_of(Case(voxel_edge=12, n_visits=2), device), settings_of(Case()))
    before = peak_bytes(device)
    study, settings = study_of(case, device), settings_of(case)
    steps = simultaneous(study, settings).history[WARM:]
    pairs = list(pairwise(steps))
    return {
        "step_s": median(after.seconds - one.seconds for one, after in pairs),
        "applications": (steps[-1].applications - steps[0].applications) / len(pairs),
        "bytes": peak_bytes(device) - before,
        "bytes_said": memory_bytes(study, settings),
    }


def measured_apart(case: Case, device: str) -> dict[str, Any]:
    """Return the same, of a process of its own; or why there is nothing."""
    words = [sys.executable, "-m", "benchmarks.growth", "--device", device, "--one", json.dumps(asdict(case))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
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


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw time and memory along every axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    devices = list(dict.fromkeys(row["device"] for row in rows))
    figure, panels = plt.subplots(2, len(AXES), figsize=(13, 6), sharey="row", layout="constrained")
    for (above, below), along in zip(panels.T, AXES, strict=True):
        for device in devices:
            own = [row for row in rows if (row["along"], row["device"]) == (along, device)]
            own = [row for row in own if "failed" not in row]
            if not own:
                continue
            counts = np.array([row["count"] for row in own], dtype=float)
            (line,) = above.loglog(counts, [row["step_s"] for row in own], "o-", label=device)
            below.loglog(counts, [row["bytes"] / 1e9 for row in own], "o-", color=line.get_color())
            said = [row["bytes_said"] / 1e9 for row in own]
            below.loglog(counts, said, ":", color=line.get_color(), label=f"{device}, said beforehand")
        below.set_xlabel(along)
    panels[0, 0].set_ylabel("seconds of a joint step")
    panels[1, 0].set_ylabel("GB of its arrays, peak")
    for panel in panels[:, 0]:
        panel.legend()
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
    parser.add_argument("--along", default=",".join(AXES), help="axes, comma-separated")
    parser.add_argument("--json", type=Path, help="rows of other devices in it are kept")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(Case(**json.loads(options.one)), options.device)))
        return
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():
        rows = [row for row in json.loads(options.json.read_text()) if row["device"] != options.device]
    for along in options.along.split(","):
        own = []
        for case in AXES[along]:
            found = measured_apart(case, options.device)
            own.append({"device": options.device, "along": along, "count": case.count(along), **found})
            print(own[-1], flush=True)
        rows += own
        good = [row for row in own if "failed" not in row]
        if len(good) > 1:
            counts = [row["count"] for row in good]
            grown = {name: slope(counts, [row[name] for row in good]) for name in ("step_s", "bytes")}
            print(
                f"{along}: time grows with the {grown['step_s']:.2f}th power, memory {grown['bytes']:.2f}th"
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
