"""The simultaneous method on a large pair of visits: its time, and for what.

    python -m benchmarks.large --device cuda affine bspline
    python -m benchmarks.large --device cuda --case clinical --look profile --first-stage 4 affine

Cases are 511 x 208 x 208 voxels of 0.215 mm with 11 + 11 views, and a clinical pair, 2000 x 1000 x 60 voxels
of 0.1 x 0.1 x 1 mm with 15 + 15 views. Each model runs once as it is, for the time. Then it may run again
with every call of a projector, a warp or a prior timed by itself, for the shares (what is left is overhead:
the quasi-Newton method's algebra, and the host), or with the profiler on some steps of each stage.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks.cases import sweep
from benchmarks.stage_profile import StageProfile
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Settings, Study, Visit, simultaneous
from duotomo.objectives import Bending, Nonnegativity, TotalVariation
from duotomo.operators import Projector, Warp
from duotomo.phantoms import Ellipsoid, Toroid
from duotomo.transforms import Affine, BSpline, Motion
from duotomo.transforms.linearised import Linearised


@dataclass(frozen=True, kw_only=True)
class Case:
    """A grid with a scan of it, and how many times as large as the smallest its phantom is."""

    grid: VolumeGrid
    acquisition: Acquisition
    scale: float = 1.0

    def phantom(self) -> Toroid:
        """Return a ring in a body, in the middle of the grid."""
        z, y, x = self.grid.center_mm
        scale = self.scale
        radii_mm = (40.0 * scale, 18.0 * scale, 14.0 * scale)
        return Toroid(
            center_mm=(x, y, z),
            major_radius_mm=12.0 * scale,
            minor_radius_mm=5.0 * scale,
            value=0.034,
            body=Ellipsoid(center_mm=(x, y, z), radii_mm=radii_mm, value=0.046),
        )


CASES = {
    "511": Case(
        grid=VolumeGrid.on_detector((208, 208, 511), (0.215, 0.215, 0.215), gap_mm=5.0),
        acquisition=sweep(n_views=11, detector_shape=(256, 768), pixel_mm=0.215),
    ),
    "clinical": Case(
        grid=VolumeGrid.on_detector((60, 1000, 2000), (1.0, 0.1, 0.1), gap_mm=5.0),
        acquisition=sweep(n_views=15, detector_shape=(1300, 2400), pixel_mm=0.1),
        scale=1.9,
    ),
    # To try this program out.
    "small": Case(
        grid=VolumeGrid.on_detector((13, 13, 32), (3.44, 3.44, 3.44), gap_mm=5.0),
        acquisition=sweep(n_views=11, detector_shape=(16, 48), pixel_mm=3.44),
    ),
}
MODELS = {"affine": Affine, "bspline": BSpline.shaped((16, 16, 16))}
MATRIX = [[1.02, 0.03, 0.02], [-0.02, 0.99, 0.05], [0.01, -0.04, 1.0]]
EVALUATIONS = ("evaluate", "add_gradient")
PARTS: dict[str, list[tuple[Any, str]]] = {
    "projector": [(Projector, "forward"), (Projector, "transpose")],
    "warp": [(Warp, "forward"), (Warp, "transpose"), (Linearised, "pull_back"), (Linearised, "__init__")],
    "prior": [(one, name) for one in (TotalVariation, Nonnegativity, Bending) for name in EVALUATIONS],
}


@contextmanager
def timed(device: str) -> Iterator[dict[str, float]]:
    """Time every call of the parts while the context lasts; calls within one are part of it."""
    seconds, within = dict.fromkeys(PARTS, 0.0), False
    kept = [(owner, name, getattr(owner, name)) for parts in PARTS.values() for owner, name in parts]

    def watched(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal within
            if within:
                return function(*args, **options)
            wait(device)
            began, within = time.perf_counter(), True
            try:
                return function(*args, **options)
            finally:
                wait(device)
                seconds[part] += time.perf_counter() - began
                within = False

        return call

    for part, owners in PARTS.items():
        for owner, name in owners:
            setattr(owner, name, watched(part, getattr(owner, name)))
    try:
        yield seconds
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def wait(device: str) -> None:
    """Wait until the device has done all that it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the models asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", default=["affine"], choices=MODELS)
    parser.add_argument("--case", default="511", choices=CASES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=300, help="at full resolution, in the last stage")
    parser.add_argument(
        "--look", default="shares", choices=("shares", "profile", "no"), help="the second run"
    )
    parser.add_argument("--first-stage", type=int, default=0, help="of those that are profiled")
    options = parser.parse_args(arguments)
    posed = pose(CASES[options.case], options.device)
    for name in options.models:
        settings = Settings.staged(posed.study.grid, MODELS[name], n_steps=options.steps)
        run(name, posed, settings)
        if options.look == "shares":
            print_shares(posed, settings)
        elif options.look == "profile":
            look = StageProfile(options.device, first_stage=options.first_stage)
            simultaneous(posed.study, settings, on_step=look)
            look.end()
            for cost in look.costs:
                print("\n".join(cost.lines()), flush=True)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A study, what it shows, and landmarks in both frames."""

    study: Study
    truth: torch.Tensor
    moving_mm: torch.Tensor
    reference_mm: torch.Tensor
    device: str


def pose(case: Case, device: str) -> Posed:
    """Return a case with an affine motion between its visits."""
    grid, affine = case.grid, Affine(case.grid)
    truth = torch.from_numpy(case.phantom().voxels(grid, oversample=1, dtype=np.float32)).to(device)
    true = Motion(affine, affine.params(matrix=MATRIX, translation_mm=(2.0, -1.0, 1.5)))
    projector = Projector(grid=grid, acquisition=case.acquisition)
    views = [projector(truth), projector(true.warp(grid, grid)(truth))]
    visits = tuple(Visit(projections=view, acquisition=case.acquisition) for view in views)
    inside = torch.nonzero(truth.cpu() > 0.02)[::997].double()
    low, spacing = torch.tensor(grid.low_mm).double(), torch.tensor(grid.spacing_mm).double()
    reference_mm = (low + (inside + 0.5) * spacing).flip(1)
    return Posed(
        study=Study(grid=grid, visits=visits),
        truth=truth,
        moving_mm=true.inverse().points(reference_mm),
        reference_mm=reference_mm,
        device=device,
    )


def run(name: str, posed: Posed, settings: Settings) -> None:
    """Print the time of a first and of a second run, where the second ends, and the time of its stages."""
    device, truth = posed.device, posed.truth
    began = time.perf_counter()
    # Compiles, on a few steps of each stage.
    simultaneous(posed.study, _short(settings))
    wait(device)
    first = time.perf_counter() - began
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    result = simultaneous(posed.study, settings)
    wait(device)
    whole = time.perf_counter() - began
    missed_mm = result.motions[0].points(posed.moving_mm) - posed.reference_mm
    error = float((result.volume - truth).square().sum() / truth.square().sum())
    print(
        f"{name}: {whole:.1f} s after {first:.1f} s of two steps a stage, {result.applications} applications,"
        f" {result.status.value}; mean TRE {float(missed_mm.norm(dim=1).mean()):.3f} mm, "
        f"relative error {error:.4f}",
        flush=True,
    )
    stages: dict[str, tuple[float, int]] = {}
    before = 0.0
    for record in result.history:
        seconds, n_steps = stages.get(f"{record.stage} {record.what}", (0.0, 0))
        stages[f"{record.stage} {record.what}"] = (seconds + record.seconds - before, n_steps + 1)
        before = record.seconds
    for stage, (seconds, n_steps) in stages.items():
        print(f"  {stage}: {seconds:.2f} s, {1e3 * seconds / n_steps:.2f} ms a step", flush=True)
    if device == "cuda":
        print(f"  peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)


def print_shares(posed: Posed, settings: Settings) -> None:
    """Print the shares of a run in which every part is waited for."""
    with timed(posed.device) as seconds:
        wait(posed.device)
        began = time.perf_counter()
        simultaneous(posed.study, settings)
        wait(posed.device)
        total = time.perf_counter() - began
    shares = {**seconds, "overhead": total - sum(seconds.values())}
    print(
        f"  timed call by call, {total:.1f} s:",
        ", ".join(f"{part} {100 * share / total:.0f} %" for part, share in shares.items()),
        flush=True,
    )


def _short(settings: Settings) -> Settings:
    return replace(settings, stages=tuple(replace(stage, n_steps=2) for stage in settings.stages))


if __name__ == "__main__":
    main()
