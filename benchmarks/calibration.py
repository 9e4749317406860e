"""Do the motion's error bars hold: errors at landmarks beside the covariance that was given for them.

    python -m benchmarks.calibration run CASES --out rows --voxel-mm 3 --device cuda --split frozen
    python -m benchmarks.calibration judge rows --figure calibration.png --json calibration.json

CASES holds two-visit studies of real breasts (`benchmarks.robust_cases`). `run` solves each with the defaults
and writes rows/CASE_VOXEL.npz: the error of 400 landmarks, (landmark, xyz) in mm, and its covariance. A case
that is there already is not computed again, so several processes can share a folder. `judge` gathers them,
models with and without control points apart: the share of landmarks that the ellipsoids of 68 and 95 % hold,
the variance of standardised errors in plane and in depth, and by how much the mean error falls without the
fifth of the landmarks that is most uncertain.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.robust_cases import SPLITS, RobustCase
from duotomo.methods import Settings, simultaneous, uncertainty_of
from duotomo.methods.error_levels import quantile

Rows = dict[str, Any]
LEVELS = (0.6827, 0.95)
RANKINGS = (("spread", "-", "by the given deviation"), ("lengths", ":", "by the true error"))
"""What landmarks are left out by, how that is drawn, and what it is called."""

DROPPED = 0.2
"""Share of the landmarks that is left out as the most uncertain."""


def run(path: Path, out: Path, voxel_mm: float, device: str) -> str:
    """Solve one case, and write its errors and covariances; return a line about it."""
    case = RobustCase.read(path, voxel_mm, device=device)
    settings = Settings.automatic(case.study)
    result = simultaneous(case.study, settings)
    began = time.perf_counter()
    (found,) = uncertainty_of(case.study, settings, result)
    seconds, motion = time.perf_counter() - began, result.motions[0]
    model = type(motion.transform).__name__
    np.savez(
        out / f"{case.name}_{voxel_mm:g}.npz",
        error_mm=(motion.points(case.moving_mm) - case.reference_mm).numpy().astype(np.float32),
        covariance_mm2=found.covariance_mm2(case.moving_mm).numpy().astype(np.float32),
        model=model,
        status=result.status.value,
        reason=found.reason,
        run_seconds=result.seconds,
        seconds=seconds,
    )
    return (
        f"{case.name:16s} {voxel_mm:g} mm {model:8s} run {result.seconds:6.1f} s, covariance {seconds:5.1f} s"
    )


def gathered(folder: Path) -> dict[str, list[Rows]]:
    """Return the rows of a folder by model; those without numbers under "none"."""
    found: dict[str, list[Rows]] = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            row = {name: file[name] for name in file.files} | {"name": path.stem}
        found.setdefault("none" if str(row["reason"]) else str(row["model"]), []).append(row)
    return found


def judged(rows: Sequence[Rows]) -> Rows:
    """Return how the covariances of some rows agree with their errors."""
    errors = np.concatenate([row["error_mm"] for row in rows]).astype(float)
    covariances = np.concatenate([row["covariance_mm2"] for row in rows]).astype(float)
    variances = covariances.diagonal(axis1=1, axis2=2)
    squares = errors**2 / variances
    distances = np.einsum("pi,pi->p", errors, np.linalg.solve(covariances, errors[..., None])[..., 0])
    lengths, spread = np.linalg.norm(errors, axis=1), variances.sum(axis=1)
    within = [_fall(np.linalg.norm(row["error_mm"], axis=1), _spread(row)) for row in rows]
    return {
        "pairs": len(rows),
        "mean_error_mm": float(lengths.mean()),
        "in_plane_deviation_mm": float(np.sqrt(variances[:, :2].mean(axis=1)).mean()),
        "depth_deviation_mm": float(np.sqrt(variances[:, 2]).mean()),
        "coverage": {f"{level:g}": float((distances < quantile(level)).mean()) for level in LEVELS},
        "in_plane_variance": float(squares[:, :2].mean()),
        "depth_variance": float(squares[:, 2].mean()),
        "fall": _fall(lengths, spread),
        "oracle_fall": _fall(lengths, lengths),
        "fall_within_a_pair": float(np.mean(within)),
        "seconds_of_run": float(np.median([row["seconds"] / row["run_seconds"] for row in rows])),
        "distances": distances,
        "lengths": lengths,
        "spread": spread,
    }


def _spread(row: Rows) -> np.ndarray[Any, Any]:
    return np.asarray(row["covariance_mm2"].diagonal(axis1=1, axis2=2).sum(axis=1))


def _fall(lengths: np.ndarray[Any, Any], spread: np.ndarray[Any, Any]) -> float:
    """Return the share by which the mean error falls without the most uncertain landmarks."""
    kept = spread <= np.quantile(spread, 1 - DROPPED)
    return float(1 - lengths[kept].mean() / lengths.mean())


def draw(path: Path, found: dict[str, Rows]) -> None:
    """Draw nominal against observed coverage, and the mean error against the share that is left out."""
    from matplotlib.figure import Figure

    from duotomo.report.style import COLOURS

    figure = Figure(figsize=(9.5, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    levels = np.linspace(0.02, 0.98, 49)
    radii = np.array([quantile(float(level)) for level in levels])
    shares = np.linspace(0.0, 0.9, 46)
    left.plot([0, 1], [0, 1], color="0.6", lw=1, ls="--", label="as it should be")
    for (name, row), color in zip(found.items(), COLOURS, strict=False):
        label = f"{name}, {row['pairs']} pairs"
        left.plot(levels, (row["distances"][:, None] < radii).mean(axis=0), color=color, label=label)
        for key, style, words in RANKINGS:
            order = np.argsort(row[key])
            means = [row["lengths"][order[: max(1, round(len(order) * (1 - s)))]].mean() for s in shares]
            right.plot(shares, np.array(means) / means[0], style, color=color, label=f"{name}: {words}")
    left.set(
        xlabel="probability of the ellipsoid",
        ylabel="share of the landmarks inside",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    right.set(
        xlabel="share of the landmarks left out", ylabel="mean error of the others, of all", ylim=(0, 1.05)
    )
    for axes, title in ((left, "Reliability"), (right, "Leaving out the most uncertain")):
        axes.set_title(title)
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run cases, or judge what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("folder", type=Path)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--voxel-mm", type=float, default=3.0)
    runs.add_argument("--device", default="cpu")
    runs.add_argument("--split", choices=list(SPLITS))
    judges = commands.add_parser("judge")
    judges.add_argument("rows", type=Path)
    judges.add_argument("--figure", type=Path)
    judges.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        options.out.mkdir(parents=True, exist_ok=True)
        for path in sorted(options.folder.glob("*.npz")):
            done = options.out / f"{path.stem}_{options.voxel_mm:g}.npz"
            if not done.exists() and (options.split is None or path.stem[0] in SPLITS[options.split]):
                print(run(path, options.out, options.voxel_mm, options.device), flush=True)
        return
    by_model = gathered(options.rows)
    for row in by_model.pop("none", []):
        print(f"{row['name']}: no numbers. {row['reason']}")
    found = {name: judged(rows) for name, rows in by_model.items()}
    plain = {
        name: {key: value for key, value in row.items() if not isinstance(value, np.ndarray)}
        for name, row in found.items()
    }
    print(json.dumps(plain, indent=1))
    if options.json:
        options.json.write_text(json.dumps(plain, indent=1))
    if options.figure:
        draw(options.figure, found)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
