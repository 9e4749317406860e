"""`duotomo.mechanics.compress` beside CalculiX: the same breasts, material, plates and chest wall.

    python -m benchmarks.compress_agreement [--quick | --fine] [--trials 0 3]

Half ellipsoids of neo-Hookean tissue between plates: the first six of one tissue, slippery and without
weight, then with gland that is four times as stiff, with weight, with friction, and with all three. What
differs: 20-node hexahedra, each of one stiffness, against quadratic tetrahedra, CalculiX's form of the energy
of volume (`k (J - 1)^2 / 2`), its search for contact, and its steps. Differences are distances between where
both put the same point of tissue, over the nodes of CalculiX's mesh.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calculix import Load, solve
from benchmarks.hexahedra import Floats, half_ball
from benchmarks.two_view_squeeze import turned
from benchmarks.wall_means import wall_means
from duotomo.errors import DuotomoError
from duotomo.mechanics import BreastShape, compress


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One breast and how it is pressed.

    gland_over_fat: stiffness of an ellipsoid in its middle. weight_per_mm: over the shear modulus of fat.
    """

    radii_mm: tuple[float, float, float]
    thickness_mm: float
    roll_deg: float
    gland_over_fat: float = 1.0
    weight_per_mm: float = 0.0
    friction: float = 0.0

    @property
    def said(self) -> str:
        """What a row calls it."""
        r_x, r_y, r_z = self.radii_mm
        words = [f"{r_x:g} x {r_y:g} x {r_z:g} mm to {self.thickness_mm:g} mm, by {self.roll_deg:g} degrees"]
        if self.gland_over_fat != 1:
            words.append(f"gland {self.gland_over_fat:g} times as stiff")
        if self.weight_per_mm:
            words.append(f"weight {self.weight_per_mm:g} / mm")
        if self.friction:
            words.append(f"friction {self.friction:g}")
        return ", ".join(words)


TRIALS = (
    Trial(radii_mm=(40.0, 38.0, 27.0), thickness_mm=40.0, roll_deg=0.0),
    Trial(radii_mm=(40.0, 38.0, 27.0), thickness_mm=37.0, roll_deg=10.0),
    Trial(radii_mm=(55.0, 60.0, 45.0), thickness_mm=60.0, roll_deg=0.0),
    Trial(radii_mm=(55.0, 60.0, 45.0), thickness_mm=60.0, roll_deg=45.0),
    Trial(radii_mm=(66.0, 80.0, 52.0), thickness_mm=62.0, roll_deg=-45.0),
    Trial(radii_mm=(70.0, 90.0, 40.0), thickness_mm=52.0, roll_deg=20.0),
    *(
        Trial(radii_mm=(55.0, 60.0, 45.0), thickness_mm=60.0, roll_deg=45.0, **loads)
        for loads in (
            {"gland_over_fat": 4.0},
            {"weight_per_mm": 0.0093},
            {"friction": 0.3},
            {"gland_over_fat": 4.0, "weight_per_mm": 0.0093, "friction": 0.3},
        )
    ),
)


def _gland(trial: Trial, points_mm: Floats) -> Floats:
    """Return the stiffness at points at rest, (point,), over that of fat: gland is an ellipsoid."""
    if trial.gland_over_fat == 1:
        return np.ones(len(points_mm))
    from duotomo.mechanics import GlandInFat

    x, y, z = trial.radii_mm
    gland = GlandInFat(
        center_mm=(0.0, 0.35 * y, 0.0),
        radii_mm=(0.5 * x, 0.35 * y, 0.5 * z),
        ratio=trial.gland_over_fat,
        border_mm=8.0,
    )
    return gland(points_mm)


def _loads(trial: Trial, down: Floats) -> dict[str, Any]:
    """Return what `compress` is told beyond shape and plates. down: where weight pulls, (xyz,)."""
    told: dict[str, Any] = {}
    if trial.gland_over_fat != 1:
        told["stiffness"] = partial(_gland, trial)
    if trial.weight_per_mm or trial.friction:
        from duotomo.mechanics import Forces

        told["forces"] = Forces(
            gravity_per_mm=trial.weight_per_mm,
            down=(float(down[0]), float(down[1]), float(down[2])),
            friction=trial.friction,
        )
    return told


def compare(trial: Trial, folder: Path, *, n_core: int, n_layers: int, refinements: int) -> str:
    """Return a row of the table."""
    roll_rad = math.radians(trial.roll_deg)
    radii = np.array(trial.radii_mm)
    mesh = half_ball(lambda q: turned(q * radii, roll_rad), n_core=n_core, n_layers=n_layers)
    half_mm = trial.thickness_mm / 2
    down = turned(np.array([[0.0, 0.0, -1.0]]), roll_rad)[0]
    at_rest = turned(mesh.nodes_mm, -roll_rad)
    weight = trial.weight_per_mm * down
    load = Load(
        low_mm=-half_mm,
        high_mm=half_mm,
        shear_kpa=_gland(trial, turned(mesh.middles_mm(), -roll_rad)).round(2),
        gravity_kpa_per_mm=(float(weight[0]), float(weight[1]), float(weight[2])),
        friction=trial.friction,
        wall_rows=wall_means(mesh),
        n_increments=16,
    )
    theirs = solve(mesh, load, folder)
    began = time.perf_counter()
    ours = compress(
        BreastShape(center_mm=(0.0, 0.0, 0.0), radii_mm=trial.radii_mm),
        thickness_mm=trial.thickness_mm,
        roll_rad=roll_rad,
        support_mm=-half_mm,
        **_loads(trial, down),
        refinements=refinements,
    )
    our_seconds = time.perf_counter() - began
    away = np.linalg.norm(ours.from_rest(at_rest) - theirs.moved_mm, axis=1)
    moved = np.linalg.norm(theirs.moved_mm - mesh.nodes_mm, axis=1)
    return (
        f"| {trial.said} | {moved.mean():.1f} ({moved.max():.1f}) | {away.mean():.2f} "
        f"| {np.quantile(away, 0.95):.2f} | {away.max():.2f} | {len(mesh.nodes_mm)} / {len(ours.rest_mm)} "
        f"| {theirs.seconds:.0f} / {our_seconds:.0f} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="*", help="numbers of some of them, from 0")
    parser.add_argument("--quick", action="store_true", help="the first two, on coarse meshes")
    parser.add_argument("--fine", action="store_true", help="CalculiX's mesh half as fine again")
    options = parser.parse_args()
    n_core, n_layers = (2, 2) if options.quick else (6, 3) if options.fine else (4, 3)
    print(
        "| breast, thickness, turn | moves, mean (most), mm | differs, mean | 95 % | most | nodes | seconds |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    numbers = options.trials or range(2 if options.quick else len(TRIALS))
    for trial in (TRIALS[number] for number in numbers):
        with tempfile.TemporaryDirectory() as folder:
            sizes = {"n_core": n_core, "n_layers": n_layers, "refinements": 2 if options.quick else 3}
            try:
                print(compare(trial, Path(folder), **sizes), flush=True)
            except DuotomoError as error:
                print(f"| {trial.said} | {error} | | | | | |", flush=True)


if __name__ == "__main__":
    main()
