"""Does the covariance of a motion agree with what noise does to it, drawn hundreds of times?

    python -m benchmarks.bootstrap run draws/affine --case affine --draws 400
    python -m benchmarks.bootstrap judge draws/affine --case affine
    python -m benchmarks.bootstrap run draws/bspline --case bspline --newton

`run` makes a small pair of scans whose noise is known, solves it to its end, and writes the covariance of the
form "noise" (base.npz); then draws noise and solves for volume and motion anew, a file for each draw. Draws
that are there are not made again: killed, it goes on, and processes with other `--first` share a folder.
With --newton, draws are solved for by Newton's method until nothing is left to gain, in a tenth of the time;
for the case bspline, whose Hessian is a matrix of 2,103 rows.

`judge` compares both: deviations at points of the body; the draws whitened by the covariance, whose squares
follow chi-square and whose eigenvalues those of Wishart's distribution if both agree; and the same for the
covariance at the solution without noise, which is what draws scatter about where priors pull; there also by
the Hessian, of which the curvature of Gauss and Newton leaves the second derivatives of residuals out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from scipy.stats import chi2

from benchmarks.bootstrap_newton import NewtonDraws, covariance_by_hessian
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Priors, Result, Settings, Study, Visit, uncertainty_of
from duotomo.methods.blocks import Block
from duotomo.methods.bootstrap import Redrawn
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Motion, Transform, Translation

Array = np.ndarray[Any, Any]

EDGE_MM = 48.0
"""Of the volume, a cube."""

SCAN = Acquisition.arc(
    n_views=3,
    angle_range_rad=math.radians(50),
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    detector_shape=(30, 46),
    pixel_spacing_mm=(2.0, 2.0),
)
BALLS = (
    Ellipsoid(center_mm=(-4.0, 20.0, 24.0), radii_mm=(12.0, 10.0, 11.0), value=0.05),
    Ellipsoid(center_mm=(6.0, 25.0, 30.0), radii_mm=(5.0, 5.0, 5.0), value=0.08),
    Ellipsoid(center_mm=(-8.0, 14.0, 19.0), radii_mm=(4.0, 4.0, 5.0), value=0.08),
)
BLUR_MM = 2.0
"""Without sharp edges, the priors leave little of the data unexplained."""

SHIFT_MM = (2.0, -1.0, 1.0)
PARABOLAS = Priors(total_variation=1000.0, smoothing=30.0, nonnegativity=0.0, least_noise=0.0, edges=0.0)
"""With a smoothing far above the attenuation, total variation is a parabola; strong, solves end soon."""

SIGMA = 0.0005
"""Of the line integrals, whose largest is about 1."""

PER_DIRECTION, FEWEST = 10, 20
"""Draws for each direction that is whitened, those that points move by most; and draws at least."""

N_SIMULATED = 2000
"""Wishart matrices that the range of the eigenvalues is taken from."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model of the motion, voxels along an edge, priors, and steps of a solve at most."""

    model: Callable[[VolumeGrid], Transform]
    n: int
    priors: Priors
    n_steps: int

    @property
    def grid(self) -> VolumeGrid:
        """n^3 voxels."""
        return VolumeGrid.on_detector((self.n,) * 3, (EDGE_MM / self.n,) * 3, gap_mm=5.0)


CASES = {
    "affine": Case(model=Affine, n=48, priors=PARABOLAS, n_steps=60),
    # On voxels twice as large, as the covariance of control points is: fewer need less of a prior.
    "bspline": Case(
        model=BSpline.shaped((5, 5, 5)), n=24, priors=replace(PARABOLAS, total_variation=60.0), n_steps=1000
    ),
}


def body(grid: VolumeGrid) -> torch.Tensor:
    """Return the body, (z, y, x) in 1/mm, float64."""
    values = np.sum([ball.voxels(grid) for ball in BALLS], axis=0, dtype=float)
    values = gaussian_filter(values, [BLUR_MM / mm for mm in grid.spacing_mm])
    return torch.from_numpy(values)


def points_mm() -> torch.Tensor:
    """Return the middles and the ends of the balls, (point, xyz)."""
    signs = np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
    rows = [np.asarray(ball.center_mm) + signs * np.asarray(ball.radii_mm) for ball in BALLS]
    return torch.from_numpy(np.concatenate(rows))


def pair(grid: VolumeGrid) -> Study:
    """Return the two visits, with weights that tell their noise."""
    shift, volume = Translation(grid), body(grid)
    motion = Motion(shift, shift.params(translation_mm=SHIFT_MM))
    project, generator = Projector(grid=grid, acquisition=SCAN), torch.Generator().manual_seed(1)
    visits = []
    for views in (project(volume), project(motion.warp(grid, grid)(volume))):
        noise = SIGMA * torch.randn(views.shape, generator=generator, dtype=torch.float64)
        weights = torch.full_like(views, SIGMA**-2)
        visits.append(Visit(projections=views + noise, acquisition=SCAN, weights=weights))
    return Study(grid=grid, visits=tuple(visits))


def start(case: Case) -> tuple[Study, Settings, Result]:
    """Return the pair, settings, and the truth as the result that solves start from."""
    grid = case.grid
    transform, shift = case.model(grid), Translation(grid)
    motion = Motion(shift, shift.params(translation_mm=SHIFT_MM)).convert(transform)
    settings = replace(Settings.staged(grid, Affine), priors=case.priors)
    return pair(grid), settings, result_of(body(grid), motion)


def result_of(volume: torch.Tensor, motion: Motion) -> Result:
    """Return volume and motion as the result of a run that converged."""
    return Result(
        method="simultaneous",
        grid=motion.grid,
        volume=volume,
        motions=(motion,),
        status=Status.CONVERGED,
        reason="It was solved for apart.",
        applications=0,
        seconds=0.0,
        history=(),
    )


def covariance_at(case: Case, redrawn: Redrawn, block: Block) -> Array:
    """Return the covariance of the form "noise" of the parameters, taken at a block."""
    study, settings, _ = start(case)
    volume = block.volume
    for axis, factor in enumerate(redrawn.problem.level.coarsen):
        volume = volume.repeat_interleave(factor, dim=axis)
    (transform,) = redrawn.problem.transforms
    result = result_of(volume, Motion(transform, block.params[0]))
    (found,) = uncertainty_of(study, settings, result, form="noise", tolerance=1e-3, n_steps=500)
    if found.reason:
        raise SystemExit(f"covariance_at: expected numbers; got none. {found.reason}")
    return (found.modes @ found.core @ found.modes.T).numpy()


def write(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays in one go, so that a file that is there is whole."""
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    partial.replace(path)


def run(out: Path, name: str, draws: range, *, newton: bool = False) -> None:
    """Make the case and its draws, but for those that are there."""
    case = CASES[name]
    out.mkdir(parents=True, exist_ok=True)
    # What draws start from is solved longer: all scatter about it.
    redrawn = Redrawn.of(*start(case), n_steps=4 * case.n_steps)
    exact = NewtonDraws.of(redrawn) if newton else None
    drawing = replace(redrawn, n_steps=case.n_steps) if exact is None else exact
    if not (out / "base.npz").exists():
        still = redrawn.solved(None) if exact is None else exact.solved(None)
        by_hessian = covariance_by_hessian(redrawn, still) if exact is None else exact.covariance()
        write(
            out / "base.npz",
            {
                "params": redrawn.base.params[0].numpy(),
                "status": redrawn.base.status.value,
                "covariance": covariance_at(case, redrawn, redrawn.base),
                "still_params": still.params[0].numpy(),
                "still_covariance": covariance_at(case, redrawn, still),
                "hessian_covariance": by_hessian.numpy(),
            },
        )
    for seed in draws:
        if _draw_path(out, seed).exists():
            continue
        began = time.perf_counter()
        block = drawing.solved(seed)
        write(_draw_path(out, seed), {"params": block.params[0].numpy(), "status": block.status.value})
        print(f"draw {seed}: {time.perf_counter() - began:.1f} s, {block.status.value}", flush=True)


def _draw_path(out: Path, seed: int) -> Path:
    return out / f"draw_{seed:04d}.npz"


def judge(out: Path, name: str) -> dict[str, Any]:
    """Return how the draws of a folder agree with the covariances."""
    with np.load(out / "base.npz") as file:
        base = dict(file)
    found = [np.load(path) for path in sorted(out.glob("draw_*.npz"))]
    if len(found) < FEWEST:
        raise SystemExit(f"judge: expected at least {FEWEST} draws; got {len(found)}. Run more.")
    drawn = np.stack([file["params"] for file in found])
    ended = float(np.mean([str(file["status"]) == Status.CONVERGED.value for file in found]))
    transform, points = CASES[name].model(CASES[name].grid), points_mm()
    rows: dict[str, Any] = {"draws": len(drawn), "ended_by_tolerance": ended}
    for title, at, covariance in (
        ("at the result", "params", "covariance"),
        ("at the solution without noise", "still_params", "still_covariance"),
        ("there, by the Hessian", "still_params", "hessian_covariance"),
    ):
        params = torch.from_numpy(base[at])
        slopes = torch.func.jacrev(lambda p: transform.points(p, points))(params).numpy()
        rows[title] = compared(drawn, base[covariance], slopes) | {
            "offset": offset(drawn, params.numpy(), slopes)
        }
    return rows


def compared(drawn: Array, covariance: Array, slopes: Array) -> dict[str, Any]:
    """Return how draws, (draw, parameter), agree with a covariance.

    slopes: how points move along each parameter, (point, xyz, parameter).
    """
    n = len(drawn)
    centered = drawn - drawn.mean(axis=0)
    along = np.einsum("pik,nk->npi", slopes, centered)
    said = np.einsum("pik,kl,pil->pi", slopes, covariance, slopes)
    ratios = np.sqrt((along**2).sum(axis=0) / (n - 1) / said)
    # The directions that points move by most, each by one deviation: S C S^T = V D V^T.
    half = np.linalg.cholesky(
        covariance + 1e-14 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    )
    _, sizes, axes = np.linalg.svd(slopes.reshape(-1, slopes.shape[-1]) @ half, full_matrices=False)
    k = min(n // PER_DIRECTION, int((sizes > 1e-6 * sizes[0]).sum()))
    white = np.linalg.solve(half, centered.T).T @ axes[:k].T
    return {
        "points": {
            "in_plane_ratio": float(ratios[:, :2].mean()),
            "depth_ratio": float(ratios[:, 2].mean()),
            "least_and_largest_ratio": [float(ratios.min()), float(ratios.max())],
            "standard_error_of_one": 1 / math.sqrt(2 * (n - 1)),
            "deviation_in_plane_mm": float(np.sqrt(said[:, :2].mean())),
            "deviation_depth_mm": float(np.sqrt(said[:, 2].mean())),
        },
        "share_of_variance": float((sizes[:k] ** 2).sum() / (sizes**2).sum()),
        **whitened(white),
    }


def whitened(white: Array) -> dict[str, Any]:
    """Return how draws that should have the unit matrix as covariance, (draw, direction), do.

    Their squares add up to chi-square with k (n - 1) degrees of freedom; Bartlett's test of the covariance
    being the unit matrix, and the range that 95 % of Wishart matrices have least and largest eigenvalues in.
    """
    n, k = white.shape
    sample = white.T @ white / (n - 1)
    values = np.linalg.eigvalsh(sample)
    total = float(values.sum())
    generator = np.random.default_rng(0)
    simulated = []
    for _ in range(N_SIMULATED):
        rows = generator.standard_normal((n - 1, k))
        simulated.append(np.linalg.eigvalsh(rows.T @ rows / (n - 1))[[0, -1]])
    low, high = np.quantile(np.array(simulated), [0.025, 0.975], axis=0)
    statistic = (n - 1) * (total - float(np.log(values).sum()) - k)
    statistic *= 1 - (2 * k + 1 - 2 / (k + 1)) / (6 * (n - 1))
    freedom = k * (k + 1) // 2
    deviations = np.sqrt(np.diag(sample))
    return {
        "directions": k,
        "mean_square": total / k,
        "standard_error_of_mean_square": math.sqrt(2 / (k * (n - 1))),
        "probability_of_mean_square": _two_sided((n - 1) * total, k * (n - 1)),
        "least_and_largest_deviation": [float(deviations.min()), float(deviations.max())],
        "least_eigenvalue": [float(values[0]), float(low[0]), float(high[0])],
        "largest_eigenvalue": [float(values[-1]), float(low[1]), float(high[1])],
        "bartlett": [statistic, freedom, float(chi2.sf(statistic, freedom))],
    }


def _two_sided(value: float, freedom: int) -> float:
    below = float(chi2.cdf(value, freedom))
    return 2 * min(below, 1 - below)


def offset(drawn: Array, params: Array, slopes: Array) -> float:
    """Return how far the mean of the draws lies from some parameters: an RMS over points, in mm."""
    moved = np.einsum("pik,k->pi", slopes, drawn.mean(axis=0) - params)
    return float(np.sqrt((moved**2).sum(axis=1).mean()))


def main() -> None:
    """Make draws, or judge them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "judge"):
        own = commands.add_parser(name)
        own.add_argument("folder", type=Path)
        own.add_argument("--case", choices=list(CASES), required=True)
    commands.choices["run"].add_argument("--draws", type=int, default=400)
    commands.choices["run"].add_argument("--first", type=int, default=0)
    commands.choices["run"].add_argument("--newton", action="store_true")
    commands.choices["judge"].add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        draws = range(options.first, options.first + options.draws)
        run(options.folder, options.case, draws, newton=options.newton)
        return
    text = json.dumps(judge(options.folder, options.case), indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
