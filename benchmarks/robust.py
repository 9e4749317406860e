"""Every method on breasts and motions that nothing was tuned on, beside an oracle and one visit alone.

    python -m benchmarks.robust CASES                              # all cases of a folder, 2 mm voxels
    python -m benchmarks.robust CASES --voxel 1 --device cuda --split frozen --json rows.json
    python -m benchmarks.robust CASES --methods simultaneous --weighted --limit 10

CASES holds two-visit studies of real breasts, made by other people's code (`benchmarks.robust_cases`). One
row per case and method: target registration error at the landmarks, relative error |f - truth|^2 / |truth|^2
of the volume, that of one visit at the best of four weights, and that of an oracle that knows the motion,
with its objective (affine kinds only: of the others only landmarks are known). Nothing is left out: a method
that raises is a row with its error as the status.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.robust_cases import AFFINE_KINDS, SPLITS, RobustCase
from duotomo.errors import DuotomoError
from duotomo.methods import (
    Result,
    Settings,
    Study,
    iterative,
    sequential,
    simultaneous,
    trust_of,
    with_known_motion,
)

Row = dict[str, Any]
METHODS: dict[str, Callable[[Study, Settings], Result]] = {
    "simultaneous": simultaneous,
    "sequential": sequential,
    "iterative": iterative,
}
WEIGHTS = (0.5, 1.0, 2.0, 4.0)
"""Factors of the total variation that one visit is reconstructed with; the best is what counts."""


def rows_of(case: RobustCase, methods: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of one case."""
    settings = Settings.automatic(case.study)
    one = Study(grid=case.study.grid, visits=case.study.visits[:1])
    alone = {factor: case.relative_error(_alone(one, settings, factor).volume) for factor in WEIGHTS}
    true, oracle = case.true_motion(), None
    if true is not None:
        oracle = with_known_motion(case.study, settings, (true,))
    for name in methods:
        began = time.perf_counter()
        row: Row = {
            "case": case.name,
            "kind": case.kind + ("_cut" if case.is_cut else ""),
            "method": name,
            "start_mm": case.start_mm,
            "one_visit_error": min(alone.values()),
            "oracle_error": None if oracle is None else case.relative_error(oracle.volume),
            "oracle_objective": None if oracle is None else oracle.history[-1].objective,
        }
        try:
            result = METHODS[name](case.study, settings)
            row["seconds"] = time.perf_counter() - began
            mean_mm, high_mm = case.errors_mm(result.motions[0])
            trust = trust_of(case.study, settings, result)
            # The volume that a user is told to use.
            joint = case.relative_error(result.volume)
            row |= {
                "tre_mm": mean_mm,
                "tre95_mm": high_mm,
                "relative_error": joint if trust.use == "both" else alone[1.0],
                "joint_error": joint,
                "objective": result.history[-1].objective,
                "status": result.status.value,
                "trusted": trust.trusted,
                "why": trust.reason,
                "use": trust.use,
                "applications": result.applications,
                "model": type(result.motions[0].transform).__name__,
            }
        except DuotomoError as error:
            row |= {"status": f"error: {error}", "tre_mm": float("inf"), "trusted": False}
        yield row


def _alone(one: Study, settings: Settings, factor: float) -> Result:
    weight = factor * settings.priors.total_variation
    return with_known_motion(
        one, replace(settings, priors=replace(settings.priors, total_variation=weight)), ()
    )


def summary(rows: Sequence[Row]) -> str:
    """Return a table of success rates and quantiles, by kind and method."""
    lines = [
        f"{'kind':14s} {'method':13s} {'n':>3s} {'TRE median':>10s} {'95 %':>6s} {'worst':>6s} "
        f"{'<= one visit':>12s} {'gain':>5s} {'<= 1.01 oracle F':>16s} {'converged':>9s} {'trusted':>7s} "
        f"{'wrongly':>7s} {'A':>5s} {'s':>6s}"
    ]
    kinds = sorted({row["kind"] for row in rows})
    groups = [("affine", [k for k in kinds if k in AFFINE_KINDS])]
    groups += [("not affine", [k for k in kinds if k not in AFFINE_KINDS and "cut" not in k])]
    groups += [(kind, [kind]) for kind in kinds]
    for method in dict.fromkeys(row["method"] for row in rows):
        for label, members in groups:
            chosen = [row for row in rows if row["method"] == method and row["kind"] in members]
            if chosen:
                lines.append(_line(label, method, chosen))
    return "\n".join(lines)


def _line(label: str, method: str, rows: Sequence[Row]) -> str:
    errors_mm = sorted(row["tre_mm"] for row in rows)
    ended = [row for row in rows if "relative_error" in row]
    gains = [row["one_visit_error"] / row["relative_error"] for row in ended]
    known = [row for row in ended if row["oracle_objective"] is not None]
    low = sum(row["objective"] <= 1.01 * row["oracle_objective"] for row in known)
    wrong = sum(row["trusted"] and row["tre_mm"] > 1.0 for row in rows)
    return (
        f"{label:14s} {method:13s} {len(rows):3d} {statistics.median(errors_mm):10.3f} "
        f"{_quantile(errors_mm, 0.95):6.2f} {errors_mm[-1]:6.2f} "
        f"{sum(gain >= 1 for gain in gains) / len(rows):12.0%} {statistics.fmean(gains or [0.0]):5.2f} "
        f"{f'{low}/{len(known)}':>16s} {_share(rows, lambda row: row['status'] == 'converged'):>9s} "
        f"{_share(rows, lambda row: bool(row['trusted'])):>7s} {wrong:7d} "
        f"{statistics.median(row.get('applications', 0) for row in rows):5.0f} "
        f"{statistics.median(row.get('seconds', 0.0) for row in rows):6.1f}"
    )


def _share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    return f"{sum(map(holds, rows)) / len(rows):.0%}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def main() -> None:
    """Run the cases of a folder and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, nargs="+", help="folders of cases, or cases (.npz)")
    parser.add_argument("--voxel", type=float, default=2.0, help="mm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--split", choices=list(SPLITS), help="only the patients of this split")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--weighted", action="store_true", help="give the photons of each ray")
    parser.add_argument("--kinds", default="", help="only these")
    parser.add_argument("--limit", type=int, help="so many cases at most")
    parser.add_argument("--json", type=Path, help="write the rows here, after every case")
    options = parser.parse_args()
    paths = [path for one in options.cases for path in (sorted(one.glob("*.npz")) if one.is_dir() else [one])]
    if options.split:
        paths = [path for path in paths if path.name[0] in SPLITS[options.split]]
    if options.kinds:
        paths = [path for path in paths if path.stem.split("_")[1] in options.kinds.split(",")]
    rows: list[Row] = []
    for path in paths[: options.limit]:
        case = RobustCase.read(path, options.voxel, device=options.device, weighted=options.weighted)
        for row in rows_of(case, options.methods.split(",")):
            rows.append({**row, "voxel_mm": options.voxel})
            print(
                f"{row['case']:22s} {row['method']:13s} TRE {row['start_mm']:.2f} -> {row['tre_mm']:.3f} mm, "
                f"error {row.get('relative_error', float('nan')):.4f} (one visit "
                f"{row['one_visit_error']:.4f}), {row['status']}",
                flush=True,
            )
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
