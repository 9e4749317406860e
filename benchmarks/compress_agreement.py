"""`duotomo.mechanics.compress` beside CalculiX: the same breasts, material, plates and chest wall.

    python -m benchmarks.compress_agreement [--quick | --fine] [--trials 0 3]

Half ellipsoids of one neo-Hookean tissue between slippery plates, without weight. What differs: 20-node
hexahedra against quadratic tetrahedra, CalculiX's form of the energy of volume (`k (J - 1)^2 / 2`), its
search for contact, and its steps. Differences are distances between where both put the same point of tissue,
over the nodes of CalculiX's mesh.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.calculix import Load, solve
from benchmarks.hexahedra import FACES, Floats, Hexahedra, half_ball
from benchmarks.two_view_squeeze import turned
from duotomo.mechanics import BreastShape, compress


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One breast and how it is pressed."""

    radii_mm: tuple[float, float, float]
    thickness_mm: float
    roll_deg: float


TRIALS = (
    Trial(radii_mm=(40.0, 38.0, 27.0), thickness_mm=40.0, roll_deg=0.0),
    Trial(radii_mm=(40.0, 38.0, 27.0), thickness_mm=37.0, roll_deg=10.0),
    Trial(radii_mm=(55.0, 60.0, 45.0), thickness_mm=60.0, roll_deg=0.0),
    Trial(radii_mm=(55.0, 60.0, 45.0), thickness_mm=60.0, roll_deg=45.0),
    Trial(radii_mm=(66.0, 80.0, 52.0), thickness_mm=62.0, roll_deg=-45.0),
    Trial(radii_mm=(70.0, 90.0, 40.0), thickness_mm=52.0, roll_deg=20.0),
)


def wall_means(mesh: Hexahedra) -> Floats:
    """Return rows, (3, node, xyz), whose sums over displacements `compress` keeps at zero.

    The wall's mean motion along x and z, and its mean turn about y by the inverse of its covariance.
    """
    weights = wall_weights(mesh)
    places = mesh.nodes_mm[:, [0, 2]]
    places = places - weights @ places
    covariance = np.einsum("n,ni,nj->ij", weights, places, places)
    across = places @ np.linalg.inv(covariance)
    rows = np.zeros((3, *mesh.nodes_mm.shape))
    rows[0, :, 0] = rows[1, :, 2] = weights
    rows[2, :, 0], rows[2, :, 2] = weights * across[:, 1], -weights * across[:, 0]
    rows[2] /= np.abs(rows[2]).max() / np.abs(rows[0]).max()
    return rows


def wall_weights(mesh: Hexahedra) -> Floats:
    """Return the share of each node in means over the chest wall, (node,).

    Of a parallelogram with eight nodes, corners have -1/12 of the area and middles of edges 1/3.
    """
    faces = mesh.elements[:, FACES].reshape(-1, 4)
    on_wall = np.flatnonzero(np.isin(faces, mesh.wall).all(axis=1))
    corners = mesh.nodes_mm[faces[on_wall]][..., [0, 2]]
    one, other = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    weights = np.zeros(len(mesh.nodes_mm))
    edges = mesh.face_edges()[on_wall]
    np.add.at(weights, faces[on_wall], np.broadcast_to(-areas[:, None] / 12, (len(areas), 4)))
    np.add.at(weights, edges, np.broadcast_to(areas[:, None] / 3, (len(areas), 4)))
    shares: Floats = weights / weights.sum()
    return shares


def compare(trial: Trial, folder: Path, *, n_core: int, n_layers: int, refinements: int) -> str:
    """Return a row of the table."""
    roll_rad = math.radians(trial.roll_deg)
    radii = np.array(trial.radii_mm)
    mesh = half_ball(lambda q: turned(q * radii, roll_rad), n_core=n_core, n_layers=n_layers)
    half_mm = trial.thickness_mm / 2
    load = Load(
        low_mm=-half_mm,
        high_mm=half_mm,
        shear_kpa=np.ones(len(mesh.elements)),
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
        refinements=refinements,
    )
    our_seconds = time.perf_counter() - began
    at_rest = turned(mesh.nodes_mm, -roll_rad)
    away = np.linalg.norm(ours.from_rest(at_rest) - theirs.moved_mm, axis=1)
    moved = np.linalg.norm(theirs.moved_mm - mesh.nodes_mm, axis=1)
    r_x, r_y, r_z = trial.radii_mm
    return (
        f"| {r_x:g} x {r_y:g} x {r_z:g} mm to {trial.thickness_mm:g} mm, by {trial.roll_deg:g} degrees "
        f"| {moved.mean():.1f} ({moved.max():.1f}) | {away.mean():.2f} | {np.quantile(away, 0.95):.2f} "
        f"| {away.max():.2f} | {len(mesh.nodes_mm)} / {len(ours.rest_mm)} "
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
    n_core, n_layers = (2, 2) if options.quick else (6, 4) if options.fine else (4, 3)
    print(
        "| breast, pressed, turned | moves, mean (most), mm | differs, mean | 95 % | most, mm | nodes | seconds |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    numbers = options.trials or range(2 if options.quick else len(TRIALS))
    for trial in (TRIALS[number] for number in numbers):
        with tempfile.TemporaryDirectory() as folder:
            sizes = {"n_core": n_core, "n_layers": n_layers, "refinements": 2 if options.quick else 3}
            print(compare(trial, Path(folder), **sizes), flush=True)


if __name__ == "__main__":
    main()
