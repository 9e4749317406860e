"""Cases of a trial of change detection: two visits of one breast, in which a lesion may have changed.

    python -m benchmarks.change_cases prepare --cache DIR [--breast-mr DIR]   # once; needs finite elements
    python -m benchmarks.change_cases show NAME --cache DIR --figure x.png    # both visits of one case

A case is made from a file of the cache and its name alone: the same on every machine, up to rounding. The
current visit is the study's reference, the prior one is the moving one. The cache takes 26 MB and ten
minutes or so of one core to make; a case takes a second.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.change_anatomies import ANATOMIES, Placements, prepare
from benchmarks.change_arrangement import Arranged, arrangements, carried
from benchmarks.change_lesion import about as about_lesion
from benchmarks.change_lesion import inserted, lesion_at, place
from benchmarks.change_plan import CaseSpec, Kind, Nuisance, named, plan
from benchmarks.change_scan import acquisition_over, scanned_grid, scanned_visit, study_grid
from duotomo.change.finding import Xyz
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.compression import sampled_motion
from duotomo.methods import Study
from duotomo.operators import Projector
from duotomo.transforms import Motion

__all__ = ["CaseSpec", "ChangeCase", "grid_of", "make", "named", "plan"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangeCase:
    """Two visits and the truth about them.

    Parameters
    ----------
    name, anatomy, density, split, kind, nuisance : str
        What it is.
    study : Study
        The current visit, the reference, and the prior one.
    truth, prior_truth : torch.Tensor
        Attenuation at each visit, (z, y, x) on the study's grid, 1/mm.
    arranged : tuple of Arranged
        The breast at each visit, without its lesion.
    lesion_mm, prior_lesion_mm : tuple of float
        (x, y, z) of the lesion, or of the tissue that it was or will be in, at each visit.
    change_mm : tuple of float
        The middle of what changed, in the frame of the current visit: where a lesion takes the place of fat
        and gland, the fat changes most.
    lesion_size_mm : float
        Diameter; of a cluster that of the ball which holds it, of growth that which it has now.
    lesion_contrast_per_mm : float
        Current minus prior, the mean over what changed; of a cluster over its ball.
    tissue : str
        "fat" or "gland": what fills most of the place of the lesion.
    """

    name: str
    anatomy: str
    density: str
    split: str
    kind: Kind
    nuisance: Nuisance
    study: Study
    truth: torch.Tensor = field(repr=False)
    prior_truth: torch.Tensor = field(repr=False)
    arranged: tuple[Arranged, Arranged] = field(repr=False)
    lesion_mm: Xyz | None = None
    prior_lesion_mm: Xyz | None = None
    change_mm: Xyz | None = None
    lesion_size_mm: float = 0.0
    lesion_contrast_per_mm: float = 0.0
    tissue: str | None = None

    @cached_property
    def motion(self) -> Motion:
        """The true one, moving_to_reference."""
        current, prior = self.arranged
        return sampled_motion(lambda points: carried(points, prior, current), self.study.grid, lattice_mm=4.0)


def make(spec: CaseSpec, cache: Path, *, voxel_mm: float = 2.0, device: str = "cpu") -> ChangeCase:
    """Return a case. cache: what `prepare` made. voxel_mm: of the study, also the edge of its pixels."""
    rng = np.random.default_rng([*spec.name.encode()])
    body = Placements.read(cache / f"{spec.anatomy.name}.npz")
    hows = arrangements(spec.nuisance, rng)
    grid = study_grid(body, hows, voxel_mm)
    scanned = scanned_grid(grid)
    arranged = Arranged(body=body, how=hows[0]), Arranged(body=body, how=hows[1])
    motions = [sampled_motion(one.to_rest, scanned, lattice_mm=3.0) for one in arranged]
    at_rest = [one.rest() for one in arranged]

    def volumes(where: VolumeGrid) -> list[torch.Tensor]:
        both = zip(motions, at_rest, strict=True)
        return [motion.warp(body.rest_grid, where)(rest) for motion, rest in both]

    finer = grid.refine(2)
    truths, scans = volumes(finer), volumes(scanned)
    about: dict[str, Any] = {}
    if spec.kind != "none":
        # In front of the detector's edge at both visits.
        from_wall_mm = 12.0 + max(0.0, hows[0].shift_mm[1] - hows[1].shift_mm[1])
        at_mm = place(_coarse(truths[0]), grid, spec, from_wall_mm=from_wall_mm, rng=rng)
        lesion = lesion_at(spec, at_mm, arranged, int(rng.integers(2**31)))
        about = about_lesion(spec, lesion, truths[1 if lesion.current is None else 0], finer)
        for number, share in enumerate((lesion.current, lesion.prior)):
            if share is not None:
                truths[number] = inserted(truths[number], share(finer), lesion.value_per_mm)
                scans[number] = inserted(scans[number], share(scanned), lesion.value_per_mm)
    acquisition = acquisition_over(grid, voxel_mm / 2)
    projector = Projector(grid=scanned, acquisition=acquisition)
    visits = tuple(
        scanned_visit(projector(volume.to(device)).cpu(), acquisition, how, device)
        for volume, how in zip(scans, hows, strict=True)
    )
    return ChangeCase(
        name=spec.name,
        anatomy=spec.anatomy.name,
        density=spec.anatomy.density,
        split=spec.anatomy.split,
        kind=spec.kind,
        nuisance=spec.nuisance,
        study=Study(grid=grid, visits=visits),
        truth=_coarse(truths[0]).to(device),
        prior_truth=_coarse(truths[1]).to(device),
        arranged=arranged,
        **about,
    )


def grid_of(spec: CaseSpec, cache: Path, voxel_mm: float = 2.0) -> VolumeGrid:
    """Return the grid of the study that `make` returns, without making it."""
    hows = arrangements(spec.nuisance, np.random.default_rng([*spec.name.encode()]))
    return study_grid(Placements.read(cache / f"{spec.anatomy.name}.npz"), hows, voxel_mm)


def _coarse(volume: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool3d(volume[None, None], 2)[0, 0]


def main() -> None:
    """Make the cache, list the cases of a trial, or draw one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("prepare", help="make the files of all anatomies that are not there yet")
    making.add_argument("--cache", type=Path, required=True)
    making.add_argument("--breast-mr", type=Path, default=Path("../shared/data/breast_mr"))
    making.add_argument("--workers", type=int, default=2)
    listing = commands.add_parser("list", help="names of the cases of a trial")
    listing.add_argument("n_without", type=int)
    listing.add_argument("n_with", type=int)
    showing = commands.add_parser("show", help="draw both visits of a case")
    showing.add_argument("name")
    showing.add_argument("--cache", type=Path, required=True)
    showing.add_argument("--figure", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "prepare":
        _prepare_all(options.cache, options.breast_mr, options.workers)
    elif options.command == "list":
        print("\n".join(spec.name for spec in plan(options.n_without, options.n_with)))
    else:
        from benchmarks.change_figure import draw

        began = time.perf_counter()
        case = make(named(options.name), options.cache)
        print(f"{case.name}: made in {time.perf_counter() - began:.1f} s, {case.study.grid}")
        draw(case, options.figure)


def _prepare_all(cache: Path, breast_mr: Path, workers: int) -> None:
    began = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        paths = pool.map(prepare, ANATOMIES, [cache] * len(ANATOMIES), [breast_mr] * len(ANATOMIES))
        for anatomy, path in zip(ANATOMIES, paths, strict=True):
            if path is not None:
                size_mb = path.stat().st_size / 1e6
                print(f"{anatomy.name}: {size_mb:.2f} MB, {time.perf_counter() - began:.0f} s", flush=True)
    total_mb = sum(path.stat().st_size for path in cache.glob("*.npz")) / 1e6
    print(f"{cache}: {total_mb:.1f} MB in all, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
