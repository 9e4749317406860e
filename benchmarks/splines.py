"""B-spline motion of the Shepp-Logan phantom: 65^3 voxels, 9^3 control points.

The control points are offset by up to 8, 4 and 2 voxels along x, y and z.

    python -m benchmarks.splines              # same grid, no noise
    python -m benchmarks.splines --set b      # twice finer grid, Poisson noise

Displacement errors are means over the voxels at tissue boundaries of the moved phantom, where its gradient
exceeds a tenth of the largest: inside uniform tissue nothing can be seen of a displacement.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Model, Settings, Study, Visit, sequential, simultaneous, with_known_motion
from duotomo.phantoms import SheppLogan
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.transforms import BSpline, Transform, folding

GRID = VolumeGrid.on_detector((65, 65, 65), (1.0, 1.0, 1.0), gap_mm=5.0)
ACQUISITION = Acquisition.arc(
    n_views=11,
    angle_range_rad=math.radians(50),
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    detector_shape=(80, 160),
    pixel_spacing_mm=(1.0, 1.0),
)
_Z, _Y, _X = GRID.center_mm
PHANTOM = SheppLogan(center_mm=(_X, _Y, _Z), size_mm=65.0)
SPLINE = BSpline.over(GRID, (9, 9, 9))
OFFSETS_MM = (8.0, 4.0, 2.0)


def motion(seed: int) -> torch.Tensor:
    """Return the parameters of random offsets of all control points."""
    offsets = np.random.default_rng(seed).uniform(-1, 1, (3, *SPLINE.lattice.shape))
    return SPLINE.params(coefficients_mm=torch.from_numpy(offsets * np.reshape(OFFSETS_MM, (3, 1, 1, 1))))


def study(seed: int, data: str, device: str) -> Study:
    """Return both visits; data "a": same grid, no noise; "b": twice finer grid, Poisson noise."""
    visits = []
    for number, moved in enumerate(({}, {"transform": SPLINE, "params": motion(seed)})):
        if data == "a":
            views = same_grid_noise_free(PHANTOM, GRID, ACQUISITION, **moved)
        else:
            generator = torch.Generator().manual_seed(2 * seed + number)
            views = scan(PHANTOM, GRID, ACQUISITION, generator=generator, **moved)
        visits.append(Visit(projections=views.to(device), acquisition=ACQUISITION))
    return Study(grid=GRID, visits=tuple(visits))


def row(
    name: str, volume: torch.Tensor, transform: Transform, params: torch.Tensor, seed: int
) -> dict[str, Any]:
    """Return errors of a volume and of a motion, lengths in voxels."""
    truth = torch.from_numpy(PHANTOM.voxels(GRID, dtype=np.float32))
    moved = SPLINE.warp(motion(seed), GRID, GRID)(truth)
    slope = torch.stack(torch.gradient(moved)).norm(dim=0)
    boundary = slope > 0.1 * slope.max()
    x, y, z = (transform.displacement(params, GRID) - SPLINE.displacement(motion(seed), GRID))[:, boundary]
    return {
        "method": name,
        "in_plane_voxels": float(torch.hypot(x, y).mean()),
        "depth_voxels": float(z.abs().mean()),
        "folded_voxels": folding(transform, params, GRID).n_folded,
        "relative_error": float((volume.cpu() - truth).square().sum() / truth.square().sum()),
    }


def main() -> None:
    """Run all methods on one motion, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices="ab", default="a", help="a: same grid, no noise; b: finer, noise")
    parser.add_argument("--seed", type=int, default=0, help="of the motion")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    seed, visits = options.seed, study(options.seed, options.set, options.device)
    settings = Settings.staged(GRID, Model("bspline", (9, 9, 9)))
    true_params = motion(seed)
    rows = [row("no motion", torch.zeros(GRID.shape), SPLINE, SPLINE.identity(), seed)]
    oracle = with_known_motion(visits, settings, [(SPLINE, true_params)])
    rows.append(row("known motion", oracle.volume, SPLINE, true_params, seed))
    found = simultaneous(visits, settings)
    rows.append(row("simultaneous", found.volume, found.transforms[0], found.params[0], seed))
    rows[-1] |= {"projector_applications": found.applications, "seconds": found.seconds}
    apart = sequential(visits, settings)
    rows.append(row("sequential, reference", apart.volume, apart.transforms[0], apart.params[0], seed))
    registered = apart.others["visit_2_registered"]
    rows.append(row("sequential, registered", registered, apart.transforms[0], apart.params[0], seed))
    print(f"{'method':>24}  in plane     depth    folded  relative error   (voxels)")
    for one in rows:
        print(
            f"{one['method']:>24}  {one['in_plane_voxels']:8.3f}  {one['depth_voxels']:8.3f}  "
            f"{one['folded_voxels']:8d}  {one['relative_error']:14.4f}"
        )
    print(f"simultaneous: {found.status.value}, {found.applications} applications, {found.seconds:.1f} s")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
