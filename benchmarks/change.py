"""Does it find what changed, and how often what did not: a trial of change detection.

    python -m benchmarks.change_cases prepare --cache cache
    python -m benchmarks.change run --cache cache --out rows --without 200 --with 200 --split judged
    python -m benchmarks.change judge rows --figure change.png --json change.json
    python -m benchmarks.change judge rows --peers rows_elastix     # those of benchmarks.change_peers
    python -m benchmarks.change run --cache cache --out repeats --repeats 70 --split judged --ours
    python -m benchmarks.change judge rows --repeats repeats

`run` solves each pair with the defaults and writes rows/CASE.json: the peaks of |z| of each method, the
findings, and the truth. A case that is there already is not computed again, and several processes can share a
folder (`--shard 0/16`). `--quick` takes a few pairs with voxels of 4 mm. `--names FILE` runs cases by name,
`--ours` leaves the baselines out, and `--volumes DIR` keeps the visits' own reconstructions for
benchmarks.change_peers. `--behind-mm` and `--blind-mm` try other treatments of the chest wall: voxels behind
it, and prior rays near it without weight. `judge` gathers rows. The methods,
all with the same templates: duotomo's findings; the current visit alone; the registered difference of the
visits, each reconstructed alone; and that difference, whitened by its own spectrum.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.change_cases import CaseSpec, ChangeCase, make
from benchmarks.change_judge import judged, repeated
from benchmarks.change_judge_peers import beside
from benchmarks.change_plan import chosen, repeats
from benchmarks.change_treatment import USUAL, Treatment
from benchmarks.change_volumes import Volumes
from duotomo.change import Silent, change_of, for_change
from duotomo.change.finding import Xyz
from duotomo.change.peaks import Index, peaks
from duotomo.change.score import best, score
from duotomo.change.templates import TEMPLATES
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world, world_to_voxel
from duotomo.io.plain_json import json_text
from duotomo.methods import (
    Result,
    Settings,
    simultaneous,
    trust_of,
    with_visits_alone,
)
from duotomo.transforms import target_registration_error

LOWEST, MOST = 2.5, 400
"""Peaks that are kept: |z| above this, and so many at most."""

DESCRIBED = (
    *("name", "anatomy", "density", "split", "kind", "nuisance", "tissue"),
    *("lesion_mm", "lesion_size_mm", "prior_lesion_mm", "change_mm", "lesion_contrast_per_mm"),
)
"""Of a case, in its row."""

Row = dict[str, Any]


def run(spec: CaseSpec, cache: Path, voxel_mm: float, device: str, treatment: Treatment = USUAL) -> Row:
    """Solve one case; return what each method says of it."""
    case = make(spec, cache, voxel_mm=voxel_mm, device=device)
    study = treatment.of(case.study)
    settings = for_change(Settings.automatic(study), study)
    began = time.perf_counter()
    result = simultaneous(study, settings)
    seconds = {"joint": time.perf_counter() - began}
    began = time.perf_counter()
    change = change_of(study, settings, result)
    seconds["change"] = time.perf_counter() - began
    trust = trust_of(study, settings, result)
    row = described(case) | {
        "behind_mm": treatment.behind_mm,
        "blind_mm": treatment.blind_mm,
        "trusted": trust.trusted,
        "not_trusted_for": [one.name for one in trust.checks if not one.passed],
        "checks": {one.name: one.value for one in trust.checks},
        "status": result.status.value,
        "reason": change.reason,
        "model": type(result.motions[0].transform).__name__,
        "tre_mm": _tre_mm(case, result),
        "findings": [one.to_dict() for one in change.findings],
        "seconds": seconds,
    }
    if change.reason:
        return row | {"peaks": {}, "litres": 0.0}
    stated = change.silent == int(Silent.STATED)
    grid = study.grid
    row["litres"] = change.litres
    row["peaks"] = {"duotomo": kept_peaks(change.z_map, grid)}
    if case.lesion_mm is not None:
        row["stated"] = bool(stated[_index(case.lesion_mm, grid)])
    if not treatment.beside:
        return row
    result = with_visits_alone(study, settings, result)
    alone = result.others["visit_1"]
    if treatment.volumes is not None:
        Volumes.of(study, alone, result.others["visit_2"]).save(treatment.volumes / f"{spec.name}.npz")
    difference = alone - result.others["visit_2_registered"]
    stated = stated.to(difference.device)
    row["peaks"] |= {
        "current visit": kept_peaks(baseline(alone, stated, grid), grid),
        "difference": kept_peaks(baseline(difference, stated, grid), grid),
        "whitened difference": kept_peaks(baseline(whitened(difference, stated), stated, grid), grid),
    }
    if case.lesion_mm is not None:
        volumes = {"f + c": change.volume, "joint": result.volume, "alone": alone}
        row["contrast"] = {name: _contrast(one, case, grid) for name, one in volumes.items()}
        row["contrast"]["truth"] = _contrast(case.truth, case, case.study.grid)
    return row


def described(case: ChangeCase) -> Row:
    """Return what a row says of its case."""
    return {name: getattr(case, name) for name in DESCRIBED}


def baseline(volume: torch.Tensor, stated: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the best score of the templates in a volume, over the deviation of scores about each place."""
    scores = [score(one, volume, None, stated, grid) for one in TEMPLATES]
    return torch.where(stated, best(scores)[0], torch.nan).cpu()


def whitened(volume: torch.Tensor, stated: torch.Tensor) -> torch.Tensor:
    """Return a volume divided by its own power spectrum, smoothed: half of a prewhitened matched filter."""
    inside = stated.to(volume)
    power = torch.fft.fftn(volume * inside).abs().square()
    correlation = torch.fft.ifftn(power).real
    for axis, n in enumerate(volume.shape):
        lag = torch.fft.fftfreq(n, d=1 / n, device=volume.device)
        shape = [-1 if one == axis else 1 for one in range(3)]
        correlation = correlation * torch.exp(-0.5 * (lag / 4) ** 2).view(shape)
    smooth = torch.fft.fftn(correlation).real.clamp(min=0)
    result: torch.Tensor = torch.fft.ifftn(
        torch.fft.fftn(volume * inside) / (smooth + 0.01 * smooth.max())
    ).real
    return result


def kept_peaks(z_map: torch.Tensor, grid: VolumeGrid) -> list[list[float]]:
    """Return x, y, z in mm and the score of each peak, the largest first."""
    found = peaks(z_map, grid, LOWEST, MOST)
    return [
        [*(round(float(one), 1) for one in voxel_to_world(grid, place)), round(float(z_map[place]), 3)]
        for place in found
    ]


def _index(xyz_mm: Xyz, grid: VolumeGrid) -> Index:
    """Return the voxel that holds a place, or the nearest one."""
    z, y, x = np.rint(world_to_voxel(grid, xyz_mm)).clip(0, np.array(grid.shape) - 1).astype(int).tolist()
    return z, y, x


def _contrast(volume: torch.Tensor, case: ChangeCase, grid: VolumeGrid) -> float:
    """Return the mean within 0.35 diameters of the lesion in plane, less that about it, in its own slice."""
    assert case.lesion_mm is not None
    z, _, _ = _index(case.lesion_mm, grid)
    n_y, n_x = grid.shape[1:]
    at = torch.cartesian_prod(torch.tensor([z]), torch.arange(n_y), torch.arange(n_x))
    xyz = torch.from_numpy(voxel_to_world(grid, at.numpy()).copy())
    radius = (xyz[:, :2] - torch.tensor(case.lesion_mm[:2])).norm(dim=1).reshape(n_y, n_x)
    layer, size = volume[z].cpu(), max(case.lesion_size_mm, 2.5 * min(grid.spacing_mm))
    inner = layer[radius < 0.35 * size]
    outer = layer[(radius > 0.75 * size) & (radius < 1.25 * size)]
    return float(inner.mean() - outer.mean()) if len(inner) and len(outer) else float("nan")


def _tre_mm(case: ChangeCase, result: Result) -> float:
    """Return the mean error of the motion over the tissue of the prior visit."""
    tissue = (case.prior_truth.cpu() > 0.02).nonzero()
    some = tissue[torch.randperm(len(tissue), generator=torch.Generator().manual_seed(0))[:400]]
    moving_mm = torch.from_numpy(voxel_to_world(case.study.grid, some.numpy()).copy())
    reference_mm = case.motion.points(moving_mm)
    return float(target_registration_error(result.motions[0], moving_mm, reference_mm).mean())


def main() -> None:
    """Run cases, or judge what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--cache", type=Path, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--without", type=int, default=200)
    runs.add_argument("--with", type=int, default=200, dest="n_with")
    runs.add_argument("--repeats", type=int, default=0, help="instead: so many of one breast scanned twice")
    runs.add_argument("--names", type=Path, help="instead: a file with a case on each line")
    runs.add_argument("--split", choices=["development", "judged"])
    runs.add_argument("--voxel-mm", type=float, default=2.0)
    runs.add_argument("--device", default="cpu")
    runs.add_argument("--shard", default="0/1", help="which of how many parts, such as 3/16")
    runs.add_argument("--behind-mm", type=float, default=0.0, help="of voxels behind the chest wall")
    runs.add_argument("--blind-mm", type=float, default=0.0, help="of prior rays without weight there")
    runs.add_argument("--ours", action="store_true", help="without the baselines")
    runs.add_argument("--volumes", type=Path, help="folder that keeps the visits' own reconstructions")
    runs.add_argument("--quick", action="store_true", help="two pairs with and two without, voxels of 4 mm")
    judges = commands.add_parser("judge")
    judges.add_argument("rows", type=Path)
    judges.add_argument("--figure", type=Path)
    judges.add_argument("--json", type=Path)
    judges.add_argument(
        "--peers", type=Path, nargs="*", default=[], help="folders of benchmarks.change_peers"
    )
    judges.add_argument("--repeats", type=Path, help="a folder of `run --repeats`")
    options = parser.parse_args()
    if options.command == "run":
        _run_all(options)
        return
    rows = _read(options.rows)
    found = judged(rows)
    for folder in options.peers:
        found |= beside(rows, _read(folder))
    if options.repeats:
        found["repeats, with those of the trial"] = repeated([*rows, *_read(options.repeats)])
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json_text(found, indent=1))
    if options.figure:
        from benchmarks.change_curves import draw

        draw(options.figure, rows)


def _read(folder: Path) -> list[Row]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _run_all(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    if options.repeats:
        specs = [one for one in repeats(options.repeats) if options.split in (None, one.anatomy.split)]
    else:
        n_without, n_with = (2, 2) if options.quick else (options.without, options.n_with)
        specs = chosen(n_without, n_with, split=options.split, names=options.names)
    treatment = Treatment(
        behind_mm=options.behind_mm,
        blind_mm=options.blind_mm,
        beside=not options.ours,
        volumes=options.volumes,
    )
    voxel_mm = 4.0 if options.quick else options.voxel_mm
    part, parts = (int(one) for one in options.shard.split("/"))
    for number, spec in enumerate(specs):
        done = options.out / f"{spec.name}.json"
        if number % parts != part or done.exists():
            continue
        began = time.perf_counter()
        row = run(spec, options.cache, voxel_mm, options.device, treatment)
        done.write_text(json.dumps(row))
        seconds = time.perf_counter() - began
        print(f"{spec.name}: {len(row['findings'])} findings, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
