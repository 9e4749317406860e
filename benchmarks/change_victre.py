"""Is the mass that the FDA put into its VICTRE phantom the first finding, and the only one?

    python -m benchmarks.change_victre ../shared/data --voxel-mm 1
    python -m benchmarks.change_victre ../shared/data --voxel-mm 1 --known-motion    # what the motion costs
    python -m benchmarks.change_victre ../shared/data --voxel-mm 1 --without-mass    # is anything else found?

The current visit is the phantom with the mass, the prior one the same phantom without it, turned, shifted and
bent by some millimetres; both with noise, blur and scatter of their own. The truth is where the two differ.
"ideal" is the score that an observer would give the mass who knows all else, and has against it only noise of
the current visit.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.change_arrangement import Arrangement, arrangements
from benchmarks.change_scan import acquisition_over, scanned_visit
from duotomo.change import change_of, for_change
from duotomo.geometry import VolumeGrid
from duotomo.geometry.binning import bin_projections
from duotomo.geometry.frame import voxel_centers_mm, voxel_to_world
from duotomo.methods import Settings, Study, simultaneous, with_known_motion
from duotomo.methods.comparison import volume_stages
from duotomo.operators import Projector
from duotomo.phantoms.sampled import Sampled
from duotomo.reproduction.third_party.files import GAP_MM
from duotomo.reproduction.third_party.victre import victre
from duotomo.transforms import BSpline, Composition, Motion, Rigid, target_registration_error
from duotomo.transforms.inversion import invert_points

ROOM_MM, FINER = 8.0, 4
NEAR_MM = 5.0
ROTATION_DEG, SHIFT_MM, BENT_MM, LATTICE_MM = (2.0, 1.5, -2.0), (4.0, -3.0, 1.0), 1.0, 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Both visits and the truth: the middle of the mass, (x, y, z) in mm; the motion; and the ideal score."""

    study: Study
    place_mm: tuple[float, float, float]
    motion: Motion
    ideal: float


def case_of(folder: Path, voxel_mm: float, seed: int, *, with_mass: bool = True) -> Case:
    """Return the case; with_mass: at the current visit, too, there is none otherwise."""
    after, before = (victre(folder, lesion=lesion) for lesion in (True, False))
    shape = [math.ceil((size + 2 * ROOM_MM) / voxel_mm) for size in after.grid.size_mm]
    grid = VolumeGrid.on_detector((shape[0], shape[1], shape[2]), (voxel_mm,) * 3, gap_mm=GAP_MM)
    fine = grid.refine(FINER)
    bodies = [
        torch.from_numpy(_in_middle(one, grid).voxels(fine, dtype=np.float32)) for one in (after, before)
    ]
    place = (bodies[0] - bodies[1]).abs()
    middle = [float((place * index).sum() / place.sum()) for index in _indices(fine)]
    x, y, z = (float(one) for one in voxel_to_world(fine, middle))
    acquisition = acquisition_over(grid, voxel_mm / 2)
    projector = Projector(grid=fine, acquisition=acquisition)
    motion = _motion(grid, seed)
    moved = [bodies[0] if with_mass else bodies[1], motion.warp(fine, fine)(bodies[1])]
    visits = [
        scanned_visit(projector(body), acquisition, _how(seed + number), "cpu")
        for number, body in enumerate(moved)
    ]
    caused = bin_projections(projector(bodies[0] - bodies[1]), 2)
    assert visits[0].weights is not None
    ideal = float((visits[0].weights * caused.square()).sum().sqrt())
    return Case(study=Study(grid=grid, visits=tuple(visits)), place_mm=(x, y, z), motion=motion, ideal=ideal)


def _in_middle(body: Sampled, grid: VolumeGrid) -> Sampled:
    return Sampled(volume=body.volume, grid=replace(body.grid, center_mm=grid.center_mm))


def _indices(grid: VolumeGrid) -> list[torch.Tensor]:
    return [
        torch.arange(n).view([-1 if one == axis else 1 for one in range(3)])
        for axis, n in enumerate(grid.shape)
    ]


def _motion(grid: VolumeGrid, seed: int) -> Motion:
    rigid, spline = Rigid(grid), BSpline.spaced(LATTICE_MM)(grid)
    chain = Composition(rigid, spline)
    bent = torch.randn(spline.n_params, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    placed = rigid.params(rotation_deg=ROTATION_DEG, translation_mm=SHIFT_MM)
    return Motion(chain, torch.cat([placed, BENT_MM / grid.spacing_mm[0] * bent]))


def _how(seed: int) -> Arrangement:
    """Return what is particular to one scan; where the breast lies is told elsewhere."""
    rng = np.random.default_rng(seed)
    return replace(arrangements("plain", rng)[0], seed=seed)


def main() -> None:
    """Look for the mass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--voxel-mm", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known-motion", action="store_true")
    parser.add_argument("--without-mass", action="store_true")
    options = parser.parse_args()
    case = case_of(options.folder, options.voxel_mm, options.seed, with_mass=not options.without_mass)
    study, place_mm = case.study, case.place_mm
    settings = for_change(Settings.automatic(study), study)
    began = time.perf_counter()
    if options.known_motion:
        fixed = replace(settings, stages=volume_stages(settings), stiffer=())
        result = with_known_motion(study, fixed, [case.motion])
    else:
        result = simultaneous(study, settings)
    seconds = {"joint": time.perf_counter() - began}
    began = time.perf_counter()
    change = change_of(study, settings, result)
    seconds["change"] = time.perf_counter() - began
    rows: list[dict[str, Any]] = []
    for one in change.findings:
        error = [a - b for a, b in zip(one.place_mm, place_mm, strict=True)]
        rows.append(
            {
                "kind": one.kind,
                "z": one.z,
                "false findings": one.false_findings,
                "size_mm": one.size_mm,
                "contrast_per_mm": one.contrast_per_mm,
                "in plane mm": math.hypot(*error[:2]),
                "in depth mm": abs(error[2]),
            }
        )
    middle = torch.tensor([place_mm], dtype=torch.float64)
    away_mm = torch.from_numpy(voxel_centers_mm(study.grid)) - torch.tensor(place_mm)
    (left_mm,) = target_registration_error(
        result.motions[0], invert_points(case.motion, middle).xyz_mm, middle
    ).tolist()
    near = change.z_map[away_mm.norm(dim=-1) < NEAR_MM]
    found = {
        "mass_mm": place_mm,
        "ideal": case.ideal,
        "error of the motion there, mm": left_mm,
        "threshold": change.threshold,
        "z at the mass": float(near.nan_to_num().max()),
        "largest |z|": float(change.z_map.nan_to_num().abs().max()),
        "seconds": seconds,
        "findings": rows,
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
