"""Small studies for cohorts: a ball that moves otherwise in each, and some that are broken on purpose."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import torch

from benchmarks.cases import VALUE_PER_MM, grid, sweep
from duotomo.io import write_study
from duotomo.methods import Study, Visit
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import scan
from duotomo.transforms import Motion, Translation

GRID, SCAN = (
    grid((16, 16, 16), (3.0, 3.0, 3.0)),
    sweep(n_views=7, detector_shape=(20, 32), pixel_mm=3.0),
)
BROKEN = 3
"""One scan that is missing, one that is cut short, one with an option that is no number."""


def small_study(number: int) -> Study:
    """Return two visits of a ball, of its own size and motion; a run takes seconds for it."""
    turn = 2.4 * number
    ball = Ellipsoid(
        center_mm=(2 * math.cos(turn), 22.0, 28.0),
        radii_mm=(12.0 + math.sin(turn), 10.0, 14.0),
        value=VALUE_PER_MM,
    )
    generator, shift = torch.Generator().manual_seed(number), Translation(GRID)
    moved_mm = (3 * math.cos(turn), 2 * math.sin(turn), 0.5)
    motions = (None, Motion(shift, shift.params(translation_mm=moved_mm)))
    views = [scan(ball, GRID, SCAN, generator=generator, motion=motion) for motion in motions]
    return Study(grid=GRID, visits=tuple(Visit(projections=view, acquisition=SCAN) for view in views))


def write_cohort(folder: Path, n_cases: int, *, broken: bool, options: dict[str, str]) -> Path:
    """Write studies and their manifest, which is returned. broken: whether some cannot be computed."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(n_cases):
        path = folder / f"study_{number:02}.h5"
        write_study(path, small_study(number))
        rows.append({"case": f"case-{number:02}", "current": path.name, **options})
    if broken:
        wrong = broken_numbers(n_cases)
        (folder / rows[wrong[0]]["current"]).unlink()
        cut = folder / rows[wrong[1]]["current"]
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
        rows[wrong[2]]["steps"] = "many"
    manifest = folder / "women.csv"
    with manifest.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["case", "current", "steps", *options])
        writer.writeheader()
        writer.writerows(rows)
    return manifest


def broken_numbers(n_cases: int) -> tuple[int, int, int]:
    """Return which studies are broken.

    >>> broken_numbers(40)
    (5, 20, 39)
    """
    return n_cases // 8, n_cases // 2, n_cases - 1
