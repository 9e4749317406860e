"""Two views of one breast in one frame, judged on breasts that others pressed and projected.

    python -m benchmarks.two_view_cases prepare CASES
    python -m benchmarks.two_views run CASES ROWS --split development
    python -m benchmarks.two_views judge ROWS --split judged --json docs/two_views.json

`run` solves every case by every method, a file for each, and keeps what is there: killed, it goes on. The
angle of the gantry and the heights of the plates are given, as a scan's header gives them; nothing else is.
`judge` prints errors of landmarks in gland, and of volumes beside those of the craniocaudal view alone.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.two_view_case import Truth, TwoViewCase
from duotomo.methods import (
    MotionUncertainty,
    Settings,
    Study,
    fused,
    in_moving,
    simultaneous,
    trust_of,
    two_view_settings,
    uncertainty_of,
    with_tissue_behind,
    with_visits_alone,
)
from duotomo.methods.comparison import REFERENCE
from duotomo.methods.two_views import between_views
from duotomo.transforms import BSpline, Motion

CONTROL_MM = 22.0
DEEP_MM = 5.0
"""Tissue nearer to the skin than this does not count in the error of a volume."""

Rows = dict[str, Any]


def plates_mm(case: TwoViewCase) -> list[tuple[float, float]]:
    """Return the heights of the lower and the upper plate in both views."""
    views = (case.about["cc"], case.about["mlo"])
    return [(view["support_mm"], view["support_mm"] + view["thickness_mm"]) for view in views]


def roll_deg(case: TwoViewCase) -> float:
    """Return the angle of the gantry, whose sign follows from the side of the breast."""
    return math.copysign(float(case.about["mlo_angle_deg"]), float(case.about["mlo"]["roll_rad"]))


def with_modes(case: TwoViewCase, n_steps: int, control_mm: float | None) -> Settings:
    """Return the settings of the model of compressions."""
    settings = two_view_settings(
        case.study,
        roll_deg=roll_deg(case),
        plates_mm=plates_mm(case),
        control_mm=control_mm,
    )
    return stepping(settings, n_steps)


def without_mechanics(case: TwoViewCase, n_steps: int) -> Settings:
    """Return the settings of a rigid, an affine and a B-spline motion, one after the other."""
    return stepping(Settings.for_study(case.study, BSpline.spaced(CONTROL_MM)), n_steps)


def stepping(settings: Settings, n_steps: int) -> Settings:
    """Return settings with no more steps than this in any stage of a motion."""
    stages = (replace(one, n_steps=min(one.n_steps, n_steps)) for one in settings.stages)
    return replace(settings, stages=tuple(stages))


METHODS: dict[str, Callable[[TwoViewCase, int], Settings]] = {
    "modes": lambda case, n_steps: with_modes(case, n_steps, None),
    "modes and control points": lambda case, n_steps: with_modes(case, n_steps, CONTROL_MM),
    "control points alone": without_mechanics,
}
MECHANICS = "mechanics alone"
"""What the model of compressions predicts from outlines, before anything is reconstructed."""


def missed_mm(motion: Motion, case: TwoViewCase) -> list[float]:
    """Return how far from its true place in the craniocaudal view each landmark is put, (landmark,)."""
    there = motion.points(torch.from_numpy(case.mlo.landmarks_mm)).numpy()
    return [round(float(mm), 3) for mm in np.linalg.norm(there - case.cc.landmarks_mm, axis=1)]


def volume_error(volume: torch.Tensor, truth: Truth, among: torch.Tensor | None = None) -> float | None:
    """Return the relative error over deep tissue, or that among some voxels; none if there is none."""
    from scipy.ndimage import distance_transform_edt

    # What lies behind the detector's edge has no truth.
    seen = slice(-truth.grid.shape[1], None)
    deep = distance_transform_edt(truth.volume > 0.25 * truth.volume.max(), sampling=truth.grid.spacing_mm)
    inside = deep > DEEP_MM
    if among is not None:
        inside &= among.cpu().numpy()[:, seen]
    if not inside.any():
        return None
    wrong = volume.cpu().double().numpy()[:, seen][inside] - truth.volume[inside]
    return float(math.sqrt((wrong**2).sum() / (truth.volume[inside] ** 2).sum()))


def found_again(known: MotionUncertainty, case: TwoViewCase) -> Rows:
    """Return how often the ellipsoids about craniocaudal landmarks hold them in the oblique view."""
    there = in_moving(known, torch.from_numpy(case.cc.landmarks_mm))
    told = there.is_known
    held = there.holds(torch.from_numpy(case.mlo.landmarks_mm))[told]
    return {
        "reason": known.reason,
        "told": int(told.sum()),
        "held": int(held.sum()),
        "search_ml": [round(float(mm3) / 1000, 4) for mm3 in there.volume_mm3[told]],
    }


def solved(case: TwoViewCase, method: str, n_steps: int) -> Rows:
    """Return what a method reached on a case."""
    began, used = time.perf_counter(), time.process_time()
    case = replace(case, study=with_tissue_behind(case.study))
    settings = METHODS[method](case, n_steps)
    study: Study = case.study
    result = with_visits_alone(study, settings, simultaneous(study, settings))
    seconds = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - used}
    result = replace(result, uncertainties=uncertainty_of(study, settings, result))
    seconds["uncertainty_seconds"] = time.perf_counter() - began - seconds["seconds"]
    trust = trust_of(study, settings, result)
    (motion,) = result.motions
    alone = result.others.get(REFERENCE)
    physical: dict[str, Any] = dict(motion.physical())
    modes = physical.get("modes", {})
    fusion = None
    if alone is not None:
        fusion = fused(result, study.grid_of(study.visits[1]), trusted=trust.trusted)
    return {
        "status": result.status.value,
        "trusted": trust.trusted,
        "reason": trust.reason,
        "applications": result.applications,
        **seconds,
        "missed_mm": missed_mm(motion, case),
        "modes": {name: float(value) for name, value in modes.items()},
        "volume_error": volume_error(result.volume, case.cc),
        "volume_error_alone": None if alone is None else volume_error(alone, case.cc),
        "ellipsoids": found_again(result.uncertainties[0], case),
        "fused": fusion
        and {
            "share": fusion.share,
            "reason": fusion.reason,
            "error": volume_error(result.volume, case.cc, fusion.from_both),
            "error_alone": volume_error(alone, case.cc, fusion.from_both),
        },
    }


def predicted(case: TwoViewCase) -> Rows:
    """Return what mechanics alone predicts."""
    began = time.perf_counter()
    model = between_views(case.study, roll_deg=roll_deg(case), plates_mm=plates_mm(case))
    transform = model(case.study.grid_of(case.study.visits[1]))
    motion = Motion(transform, transform.identity())
    return {
        "seconds": time.perf_counter() - began,
        "missed_mm": missed_mm(motion, case),
        "radii_mm": list(model.radii_mm),
    }


def run(cases: Path, rows: Path, *, split: str, methods: Sequence[str], n_steps: int) -> None:
    """Solve what has no file yet."""
    for folder in sorted(path.parent for path in cases.glob("case_*/case.json")):
        about = json.loads((folder / "case.json").read_text())
        if about["split"] != split:
            continue
        case = TwoViewCase.read(folder)
        for method in methods:
            path = rows / folder.name / f"{method.replace(' ', '_')}.json"
            if path.exists():
                continue
            found = predicted(case) if method == MECHANICS else solved(case, method, n_steps)
            still = np.linalg.norm(case.mlo.landmarks_mm - case.cc.landmarks_mm, axis=1)
            row = {"case": about["name"], "split": split, "density": about["density"], "method": method}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({**row, "apart_mm": float(still.mean()), **found}) + "\n")
            missed = np.array(found["missed_mm"])
            print(
                f"{folder.name} {about['name']:16} {method:25} median {np.median(missed):5.2f} mm, 95 % "
                f"{np.quantile(missed, 0.95):5.2f} mm, {found['seconds']:.0f} s",
                flush=True,
            )


def told_of(rows: Sequence[Rows]) -> Rows | None:
    """Return how many landmarks have an ellipsoid, how many of these are held, and their mean volume."""
    ellipsoids = [row["ellipsoids"] for row in rows if row.get("ellipsoids", {}).get("told")]
    if not ellipsoids:
        return None
    told = sum(one["told"] for one in ellipsoids)
    return {
        "breasts": len(ellipsoids),
        "told": told,
        "held": sum(one["held"] for one in ellipsoids) / told,
        "search_ml": float(np.concatenate([one["search_ml"] for one in ellipsoids]).mean()),
    }


def judge(rows: Path, split: str) -> list[Rows]:
    """Return a row for each method, over all landmarks of all breasts."""
    found = [json.loads(path.read_text()) for path in sorted(rows.glob("case_*/*.json"))]
    found = [row for row in found if row["split"] == split]
    table = []
    for method in (MECHANICS, *METHODS):
        own = [row for row in found if row["method"] == method]
        if not own:
            continue
        missed = np.concatenate([row["missed_mm"] for row in own])
        worst = max(own, key=lambda row: float(np.median(row["missed_mm"])))
        ratios = [
            row["volume_error"] / row["volume_error_alone"] for row in own if row.get("volume_error_alone")
        ]
        table.append(
            {
                "method": method,
                "breasts": len(own),
                "apart_mm": float(np.mean([row["apart_mm"] for row in own])),
                "median_mm": float(np.median(missed)),
                "percentile_95_mm": float(np.quantile(missed, 0.95)),
                "worst_breast": worst["case"],
                "worst_breast_median_mm": float(np.median(worst["missed_mm"])),
                "trusted": sum(bool(row.get("trusted")) for row in own),
                "volume_over_one_view": [float(np.median(ratios)), max(ratios)] if ratios else None,
                "ellipsoids": told_of(own),
                "seconds": float(np.median([row["seconds"] for row in own])),
            }
        )
    return table


def main() -> None:
    """Run cases, or judge what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running, judging = commands.add_parser("run"), commands.add_parser("judge")
    running.add_argument("cases", type=Path)
    for one in (running, judging):
        one.add_argument("rows", type=Path)
        one.add_argument("--split", choices=("development", "judged"), required=True)
    running.add_argument("--methods", nargs="+", choices=(MECHANICS, *METHODS), default=(MECHANICS, *METHODS))
    running.add_argument("--steps", type=int, default=4000, help="of every stage, at most")
    judging.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        run(
            options.cases,
            options.rows,
            split=options.split,
            methods=options.methods,
            n_steps=options.steps,
        )
        return
    table = judge(options.rows, options.split)
    for row in table:
        print(json.dumps(row))
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
