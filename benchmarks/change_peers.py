"""The difference of two visits after another program's registration, for the trial of change detection.

    python -m benchmarks.change_peers --cache cache --volumes volumes --out rows_elastix --python PEER_PYTHON
    python -m benchmarks.change judge rows --peers rows_elastix

Each visit is reconstructed alone by duotomo and kept in volumes/CASE.npz: `visit_1`, `visit_2`, each in its
own frame, and `stated`, the voxels that count. A file that is there already is taken as it is. The program
registers the prior visit to the current one, deformable after affine, set up as in `benchmarks.robust_peers`;
the prior volume is resampled to the current frame, and the difference scored as the trial scores its own.
rows_elastix/CASE.json has the peaks, or why there are none; a case that is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.change import baseline, kept_peaks
from benchmarks.change_cases import grid_of, make
from benchmarks.change_plan import chosen
from benchmarks.change_volumes import Volumes
from benchmarks.peers.exchange import DEFORMABLE, Array
from benchmarks.peers.registration import PROGRAMS, Found, check, job_of
from benchmarks.peers.registration import run as run_program
from benchmarks.robust_peers import centroid_mm
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, voxel_to_world
from duotomo.transforms import DisplacementField, Motion

Row = dict[str, Any]

AIR_MM = 8.0
"""Air that programs get around the volumes, but not behind the chest wall: the grid ends at the plates, and a
skin without air beyond it is no edge to them."""


def row_of(name: str, program: str, volumes: Volumes, grid: VolumeGrid, *, python: Path) -> Row:
    """Return the row of one case."""
    found = registered(program, volumes, grid, python=python)
    row: Row = {"name": name, "program": program, "seconds": found.seconds, "failed": found.failed}
    if found.points_mm is None:
        return row | {"peaks": []}
    prior = resampled(volumes.visit_2, found.points_mm, grid)
    difference = torch.from_numpy(volumes.visit_1) - prior
    z_map = baseline(difference, torch.from_numpy(volumes.stated), grid)
    return row | {"peaks": kept_peaks(z_map, grid)}


def registered(program: str, volumes: Volumes, grid: VolumeGrid, *, python: Path) -> Found:
    """Return where a program says that the voxel centres of the current visit lay at the prior one.

    What `benchmarks.peers` calls the reference is the prior visit here: the difference is taken in the
    current frame, so its voxels are the points to follow, and no motion has to be inverted.
    """
    current, prior = volumes.visit_1, volumes.visit_2
    start_mm = centroid_mm(prior, grid) - centroid_mm(current, grid)
    air = math.ceil(AIR_MM / grid.spacing_mm[0])
    around = ((air, air), (0, air), (air, air))
    job = job_of(
        np.pad(prior, around),
        np.pad(current, around),
        origin_mm=voxel_to_world(grid, (-air, 0, -air)),
        spacing_mm=grid.spacing_mm[0],
        points_mm=voxel_centers_mm(grid).reshape(-1, 3),
        start_mm=start_mm,
        deformable=True,
    )
    return run_program(program, job, start_mm, python=python)[DEFORMABLE]


def resampled(prior: Array, points_mm: Array, grid: VolumeGrid) -> torch.Tensor:
    """Return the prior volume in the current frame, (z, y, x), linear between voxels.

    points_mm: where the voxel centres of the current visit lie in the prior frame, (voxel, xyz).
    """
    moved_mm = (points_mm - voxel_centers_mm(grid).reshape(-1, 3)).T.reshape(3, *grid.shape)
    of_voxels = DisplacementField(grid)
    params = of_voxels.params(displacement_mm=torch.from_numpy(np.ascontiguousarray(moved_mm)))
    return Motion(of_voxels, params).warp(grid, grid)(torch.from_numpy(prior))


def main() -> None:
    """Check the program on known motions, and write a row for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="what benchmarks.change_cases prepared")
    parser.add_argument("--volumes", type=Path, required=True, help="folder that keeps the reconstructions")
    parser.add_argument("--out", type=Path, required=True, help="folder of the rows, one for each program")
    parser.add_argument("--python", type=Path, required=True, help="Python of the programs' environment")
    parser.add_argument("--program", choices=PROGRAMS, default="elastix")
    parser.add_argument(
        "--names", type=Path, help="file with a case on each line; those of a trial unless given"
    )
    parser.add_argument("--without", type=int, default=200)
    parser.add_argument("--with", type=int, default=200, dest="n_with")
    parser.add_argument("--split", choices=["development", "judged"])
    parser.add_argument("--voxel-mm", type=float, default=2.0)
    parser.add_argument("--device", default="cpu", help="of the reconstructions")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    asked = chosen(options.without, options.n_with, split=options.split, names=options.names)
    todo = [spec for spec in asked if not (options.out / f"{spec.name}.json").exists()]
    problem = check(options.program, python=options.python) if todo else None
    if problem is not None:
        raise DuotomoError(f"change_peers: {options.program} does not find a known motion: {problem}")
    for spec in todo:
        began = time.perf_counter()
        kept = options.volumes / f"{spec.name}.npz"
        if not kept.exists():
            case = make(spec, options.cache, voxel_mm=options.voxel_mm, device=options.device)
            Volumes.reconstructed(case.study).save(kept)
        grid = grid_of(spec, options.cache, options.voxel_mm)
        row = row_of(spec.name, options.program, Volumes.load(kept, grid), grid, python=options.python)
        (options.out / f"{spec.name}.json").write_text(json.dumps(row))
        said = row["failed"] or f"{len(row['peaks'])} peaks"
        print(f"{spec.name}: {said}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
