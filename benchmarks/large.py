"""The simultaneous method on 511 x 208 x 208 voxels of 0.215 mm, 11 + 11 views: its time, and for what.

    python -m benchmarks.large --device cuda affine bspline

Each model runs twice: once as it is, for the time; once with every call of a projector, a warp or a prior
timed by itself, for the shares. What is left is overhead: the quasi-Newton method's algebra, and the host.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.cases import sweep
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Study, Visit, simultaneous
from duotomo.objectives import Bending, Nonnegativity, TotalVariation
from duotomo.operators import Projector, Warp
from duotomo.phantoms import Ellipsoid, Toroid
from duotomo.transforms import Affine, BSpline, Motion, Transform

GRID = VolumeGrid.on_detector((208, 208, 511), (0.215, 0.215, 0.215), gap_mm=5.0)
ACQUISITION = sweep(n_views=11, detector_shape=(256, 768), pixel_mm=0.215)
_Z, _Y, _X = GRID.center_mm
PHANTOM = Toroid(
    center_mm=(_X, _Y, _Z),
    major_radius_mm=12.0,
    minor_radius_mm=5.0,
    value=0.034,
    body=Ellipsoid(center_mm=(_X, _Y, _Z), radii_mm=(40.0, 18.0, 14.0), value=0.046),
)
MODELS = {"affine": Affine, "bspline": BSpline.shaped((16, 16, 16))}
AFFINE = Affine(GRID)
MATRIX = [[1.02, 0.03, 0.02], [-0.02, 0.99, 0.05], [0.01, -0.04, 1.0]]
PARTS: dict[str, list[tuple[Any, str]]] = {
    "projector": [(Projector, "forward"), (Projector, "transpose")],
    "warp": [(Warp, "forward"), (Warp, "transpose"), (Transform, "vjp"), (Transform, "warp")],
    "prior": [(one, "value_and_gradient") for one in (TotalVariation, Nonnegativity, Bending)],
}


@contextmanager
def timed(device: str) -> Iterator[dict[str, float]]:
    """Time every call of the parts, one after the other, while the context lasts."""
    seconds = dict.fromkeys(PARTS, 0.0)
    kept = [(owner, name, getattr(owner, name)) for parts in PARTS.values() for owner, name in parts]

    def watched(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            wait(device)
            began = time.perf_counter()
            result = function(*args, **options)
            wait(device)
            seconds[part] += time.perf_counter() - began
            return result

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


def main() -> None:
    """Time the models asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["affine"], choices=MODELS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=300, help="at full resolution, in the last stage")
    options = parser.parse_args()
    device = options.device
    truth = torch.from_numpy(PHANTOM.voxels(GRID, oversample=1, dtype=np.float32)).to(device)
    true = Motion(AFFINE, AFFINE.params(matrix=MATRIX, translation_mm=(2.0, -1.0, 1.5)))
    projector = Projector(grid=GRID, acquisition=ACQUISITION)
    views = [projector(truth), projector(true.warp(GRID, GRID)(truth))]
    study = Study(grid=GRID, visits=tuple(Visit(projections=view, acquisition=ACQUISITION) for view in views))
    inside = torch.nonzero(truth.cpu() > 0.02)[::997].double()
    low, spacing = torch.tensor(GRID.low_mm).double(), torch.tensor(GRID.spacing_mm).double()
    reference_mm = (low + (inside + 0.5) * spacing).flip(1)
    moving_mm = true.inverse().points(reference_mm)
    for name in options.models:
        settings = Settings.staged(GRID, MODELS[name], n_steps=options.steps)
        # Compiles, on one step of each stage.
        simultaneous(study, _short(settings))
        wait(device)
        began = time.perf_counter()
        result = simultaneous(study, settings)
        wait(device)
        whole = time.perf_counter() - began
        missed_mm = result.motions[0].points(moving_mm) - reference_mm
        error = float((result.volume - truth).square().sum() / truth.square().sum())
        print(
            f"{name}: {whole:.1f} s, {result.applications} applications, {result.status.value}; mean TRE "
            f"{float(missed_mm.norm(dim=1).mean()):.3f} mm, relative error {error:.4f}",
            flush=True,
        )
        stages: dict[str, float] = {}
        before = 0.0
        for record in result.history:
            stages[f"{record.stage} {record.what}"] = (
                stages.get(f"{record.stage} {record.what}", 0.0) + record.seconds - before
            )
            before = record.seconds
        print(
            "  stages:", ", ".join(f"{what} {seconds:.2f} s" for what, seconds in stages.items()), flush=True
        )
        with timed(device) as seconds:
            wait(device)
            began = time.perf_counter()
            simultaneous(study, settings)
            wait(device)
            total = time.perf_counter() - began
        shares = {**seconds, "overhead": total - sum(seconds.values())}
        print(
            f"  timed call by call, {total:.1f} s:",
            ", ".join(f"{part} {100 * share / total:.0f} %" for part, share in shares.items()),
            flush=True,
        )
    if device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def _short(settings: Settings) -> Settings:
    return replace(settings, stages=tuple(replace(stage, n_steps=2) for stage in settings.stages))


if __name__ == "__main__":
    main()
