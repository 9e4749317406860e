"""Other registration programs beside duotomo, on identical cases of the study set.

    python -m benchmarks.robust_peers CASES --python PEER_PYTHON
    python -m benchmarks.robust_peers CASES --python PEER_PYTHON --voxel 3 --patients A,C --kinds small,wave

Each visit is reconstructed alone by duotomo, with total variation. elastix, ANTs and greedy register the two
volumes, each as its manual advises, in the environment that `benchmarks/peers/README.md` describes; duotomo's
own registration takes the same volumes and the same start, the translation between the centroids;
`simultaneous` takes the projections. Affine kinds are registered by affine models, the others by affine and
by deformable ones, of which the better one at the landmarks counts for a program ("best").

One row per case, method and model: mean and 95th percentile of the target registration error at the
landmarks; seconds of the registration, for `simultaneous` of everything; why it failed, or null. A program
takes part only if it finds known motions, by which the direction of its transforms is checked; otherwise its
rows say so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Array
from benchmarks.peers.registration import PROGRAMS, check, job_of, run
from benchmarks.robust_cases import AFFINE_KINDS, RobustCase
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Study, register, simultaneous, with_known_motion
from duotomo.transforms import Affine, BSpline, Model, Motion, Translation

Row = dict[str, Any]
OURS = ("sequential", "simultaneous")
MODELS: dict[str, Model] = {AFFINE: Affine, DEFORMABLE: BSpline.spaced(22.0)}
FAILED_MM = float("inf")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One case of the study set at one voxel size."""

    name: str
    study: Study
    moving_mm: Array
    reference_mm: Array

    @classmethod
    def load(cls, path: Path, voxel_mm: float) -> Case:
        """Read a case, its grid the box of its truth."""
        read = RobustCase.read(path, voxel_mm)
        return cls(
            name=read.name,
            study=read.study,
            moving_mm=read.moving_mm.numpy(),
            reference_mm=read.reference_mm.numpy(),
        )

    @property
    def models(self) -> tuple[str, ...]:
        """The models that its motion is estimated with."""
        affine = kind_of(self.name).split("_")[0] in AFFINE_KINDS
        return (AFFINE,) if affine else (AFFINE, DEFORMABLE)

    def volumes(self, cache: Path) -> tuple[Array, Array]:
        """Return the two visits, each reconstructed alone, (z, y, x), 1/mm; from the cache where possible."""
        grid = self.study.grid
        settings = Settings.for_study(Study(grid=grid, visits=self.study.visits[:1]), Affine)
        key = hashlib.sha256(repr((grid, settings)).encode()).hexdigest()[:8]
        path = cache / f"{self.name}_{grid.spacing_mm[0]:g}mm_{key}.npz"
        if not path.exists():
            alone = [Study(grid=grid, visits=(visit,)) for visit in self.study.visits]
            found = [with_known_motion(one, settings, ()).volume.numpy() for one in alone]
            cache.mkdir(parents=True, exist_ok=True)
            np.savez(path, reference=found[0], moving=found[1])
        with np.load(path) as file:
            return file["reference"], file["moving"]

    def row(self, method: str, points_mm: Array | None, seconds: float | None, failed: str | None) -> Row:
        """Return the row of one method: where it says that the landmarks lie."""
        row: Row = {"case": self.name, "kind": kind_of(self.name), "method": method}
        row |= {"voxel_mm": self.study.grid.spacing_mm[0], "tre_mm": None, "tre95_mm": None}
        if points_mm is not None:
            error_mm = np.linalg.norm(points_mm - self.reference_mm, axis=1)
            row |= {"tre_mm": float(error_mm.mean()), "tre95_mm": float(np.percentile(error_mm, 95))}
        return row | {"seconds": seconds, "failed": failed}


def kind_of(name: str) -> str:
    """Return the kind of motion of a case by its name, and how much of the chest wall is cut.

    >>> kind_of("AL_small_0"), kind_of("AL_small_0_cut15")
    ('small', 'small_cut15')
    """
    _, kind, _, *cut = name.split("_")
    return "_".join([kind, *cut])


def centroid_mm(volume: Array, grid: VolumeGrid) -> Array:
    """Return the centroid of the positive values of a volume, (xyz,)."""
    mass = np.maximum(volume, 0.0).astype(float)
    index = [
        (mass.sum(axis=tuple({0, 1, 2} - {axis})) * np.arange(n)).sum() for axis, n in enumerate(mass.shape)
    ]
    zyx_mm = np.array(grid.low_mm) + (np.array(index) / mass.sum() + 0.5) * np.array(grid.spacing_mm)
    return np.asarray(zyx_mm[::-1])


def rows_of(
    case: Case, methods: Iterable[str], wrong: dict[str, str], *, python: Path, cache: Path
) -> list[Row]:
    """Return the rows of one case; `wrong` says which programs do not take part, and why."""
    reference, moving = case.volumes(cache)
    grid = case.study.grid
    start_mm = centroid_mm(reference, grid) - centroid_mm(moving, grid)
    rows = [
        case.row("none", case.moving_mm, 0.0, None),
        case.row("centroids", case.moving_mm + start_mm, 0.0, None),
    ]
    for method in methods:
        if method in wrong:
            rows += [case.row(f"{method} {model}", None, None, wrong[method]) for model in case.models]
        elif method in OURS:
            rows += [_ours(case, method, model, reference, moving, start_mm) for model in case.models]
        else:
            job = job_of(
                reference,
                moving,
                origin_mm=(np.array(grid.low_mm) + np.array(grid.spacing_mm) / 2)[::-1],
                spacing_mm=grid.spacing_mm[0],
                points_mm=case.moving_mm,
                start_mm=start_mm,
                deformable=DEFORMABLE in case.models,
            )
            found = run(method, job, start_mm, python=python)
            rows += [
                case.row(f"{method} {model}", one.points_mm, one.seconds, one.failed)
                for model, one in found.items()
            ]
    return rows


def _ours(case: Case, method: str, model: str, reference: Array, moving: Array, start_mm: Array) -> Row:
    study, began = case.study, time.perf_counter()
    settings = Settings.for_study(study, MODELS[model])
    try:
        if method == "simultaneous":
            motion = simultaneous(study, settings).motions[0]
        else:
            shift = Translation(study.grid)
            x, y, z = start_mm.tolist()
            motion = register(
                torch.from_numpy(reference),
                torch.from_numpy(moving),
                grid=study.grid,
                moving_grid=study.grid,
                settings=settings,
                start=Motion(shift, shift.params(translation_mm=(x, y, z))),
            ).motion
    except Exception as error:
        # Whatever stops a method on one case is a result of the comparison, not its end.
        return case.row(f"{method} {model}", None, None, f"{type(error).__name__}: {error}"[:200])
    seconds = time.perf_counter() - began
    return case.row(
        f"{method} {model}", motion.points(torch.from_numpy(case.moving_mm)).numpy(), seconds, None
    )


def table(rows: list[Row]) -> list[str]:
    """Return the medians of the TRE by kind and method, in mm, with failures counted as infinite."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    values: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        tre_mm = FAILED_MM if row["tre_mm"] is None else row["tre_mm"]
        values.setdefault(row["method"], {}).setdefault(row["kind"], {})[row["case"]] = tre_mm
    for program in dict.fromkeys(method.split()[0] for method in methods if " " in method):
        best: dict[str, dict[str, float]] = {}
        for method in (name for name in methods if name.split()[0] == program):
            for kind, of_case in values[method].items():
                for case, tre_mm in of_case.items():
                    kept = best.setdefault(kind, {})
                    kept[case] = min(tre_mm, kept.get(case, FAILED_MM))
        values[f"{program} best"] = best
    lines = ["  ".join([f"{'median TRE, mm':<24}", *(f"{kind:>14}" for kind in [*kinds, "all", "failed"])])]
    for method in sorted(values, key=lambda name: (name.split()[0] in OURS, name.split()[0])):
        of_kind = values[method]
        every = [tre_mm for of_case in of_kind.values() for tre_mm in of_case.values()]
        cells = [
            f"{statistics.median(of_kind[kind].values()):.3f}" if kind in of_kind else "" for kind in kinds
        ]
        failed = sum(tre_mm == FAILED_MM for tre_mm in every)
        cells += [f"{statistics.median(every):.3f}", f"{failed} of {len(every)}"]
        lines.append("  ".join([f"{method:<24}", *(f"{cell:>14}" for cell in cells)]))
    return lines


def chosen(folder: Path, patients: list[str], kinds: list[str], limit: int | None) -> list[Path]:
    """Return the cases asked for; with a limit, those of each kind in turn, patient by patient."""
    paths = [path for path in sorted(folder.glob("*.npz")) if not patients or path.name[0] in patients]
    groups: dict[str, list[Path]] = {}
    for path in paths:
        if not kinds or kind_of(path.stem) in kinds:
            groups.setdefault(kind_of(path.stem), []).append(path)
    if limit is None:
        return [path for group in groups.values() for path in group]
    turns = []
    for number, group in enumerate(groups.values()):
        by_patient: dict[str, list[Path]] = {}
        for path in group:
            by_patient.setdefault(path.name[0], []).append(path)
        names = list(by_patient)
        names = names[number % len(names) :] + names[: number % len(names)]
        longest = max(map(len, by_patient.values()))
        turns.append([by_patient[n][i] for i in range(longest) for n in names if i < len(by_patient[n])])
    rounds = max(map(len, turns), default=0)
    return [turn[i] for i in range(rounds) for turn in turns if i < len(turn)][:limit]


def main() -> None:
    """Check the programs on known motions, run the cases asked for, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, help="folder of the cases, *.npz")
    parser.add_argument("--python", type=Path, required=True, help="Python of the programs' environment")
    parser.add_argument("--voxel", type=float, default=2.0, help="edge of a voxel, mm")
    parser.add_argument("--patients", default="", help="their letters, such as A,C; all unless given")
    parser.add_argument("--kinds", default="", help="such as small,wave,large_cut15; all unless given")
    parser.add_argument("--methods", default=",".join([*PROGRAMS, *OURS]), help="some of these")
    parser.add_argument("--limit", type=int, help="cases at most, spread over kinds and patients")
    default = Path(tempfile.gettempdir()) / "duotomo_robust_peers"
    parser.add_argument("--cache", type=Path, default=default, help="folder that keeps the reconstructions")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    methods = options.methods.split(",")
    wrong = {}
    for program in (name for name in methods if name in PROGRAMS):
        problem = check(program, python=options.python)
        if problem is not None:
            wrong[program] = f"does not find a known motion: {problem}"
            print(wrong[program], flush=True)
    patients, kinds = (
        [name for name in text.split(",") if name] for text in (options.patients, options.kinds)
    )
    rows: list[Row] = []
    for path in chosen(options.cases, patients, kinds, options.limit):
        case = Case.load(path, options.voxel)
        for row in rows_of(case, methods, wrong, python=options.python, cache=options.cache):
            rows.append(row)
            print("  ".join(_text(value) for value in row.values()), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print()
    for line in table(rows) if rows else ["no case of these patients and kinds"]:
        print(line)


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
