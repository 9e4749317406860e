"""Other registration programs on volumes of duotomo, each in a process of its own environment."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.ndimage as ndi

from benchmarks.peers import known_pair
from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Array, Job

PROGRAMS = ("elastix", "ants", "greedy")
ROOT = Path(__file__).resolve().parents[2]
# A transform read in the wrong direction, or composed in the wrong order, ends several millimetres off.
WITHIN_MM = {AFFINE: 0.5, DEFORMABLE: 0.8}


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What one model of a program found: points, or why there are none."""

    points_mm: Array | None
    seconds: float | None
    failed: str | None


def job_of(
    reference: Array,
    moving: Array,
    *,
    origin_mm: Array,
    spacing_mm: float,
    points_mm: Array,
    start_mm: Array,
    deformable: bool,
) -> Job:
    """Return the job for two volumes on one grid, (z, y, x), 1/mm, started from a translation.

    The reference is handed over displaced by minus the start, so that no program has to be told of it.
    """
    return Job(
        reference=np.asarray(1e3 * reference, dtype=np.float32),
        moving=np.asarray(1e3 * moving, dtype=np.float32),
        reference_mask=body_mask(reference, spacing_mm),
        moving_mask=body_mask(moving, spacing_mm),
        reference_origin_mm=np.asarray(origin_mm) - start_mm,
        moving_origin_mm=np.asarray(origin_mm),
        spacing_mm=spacing_mm,
        points_mm=np.asarray(points_mm, dtype=float),
        deformable=deformable,
    )


def body_mask(volume: Array, spacing_mm: float, *, margin_mm: float = 6.0) -> Array:
    """Return where the body and its margin lie, (z, y, x), uint8: the margin lets the skin be seen."""
    inside = ndi.gaussian_filter(volume, 0.7) > 0.4 * np.percentile(volume[volume > 0], 90)
    labels, count = ndi.label(inside)
    if count > 1:
        inside = labels == 1 + np.argmax(ndi.sum(inside, labels, range(1, count + 1)))
    inside = ndi.binary_fill_holes(inside)
    wider = ndi.binary_dilation(inside, iterations=math.ceil(margin_mm / spacing_mm))
    return np.asarray(wider, dtype=np.uint8)


def run(program: str, job: Job, start_mm: Array, *, python: Path, limit_s: float = 900.0) -> dict[str, Found]:
    """Return what a program finds, by model: points of the reference frame, (n, xyz)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    threads = kept.get("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    kept["ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS"] = threads
    models = (AFFINE, DEFORMABLE) if job.deformable else (AFFINE,)
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "job.npz", Path(folder) / "found.npz"
        job.save(given)
        command = [str(python), "-m", f"benchmarks.peers.{program}", str(given), str(found)]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=limit_s, check=False
            )
            failed = _last_line(ended.stderr or ended.stdout) if ended.returncode else None
        except subprocess.TimeoutExpired:
            failed = f"not done after {limit_s:g} s"
        arrays = dict(np.load(found)) if found.exists() else {}
    results = {}
    for model in models:
        if f"{model}_mm" in arrays:
            points_mm = arrays[f"{model}_mm"] + start_mm
            lost = None if np.isfinite(points_mm).all() else "points that are not finite"
            seconds = float(arrays[f"{model}_seconds"])
            results[model] = Found(points_mm=None if lost else points_mm, seconds=seconds, failed=lost)
        else:
            results[model] = Found(points_mm=None, seconds=None, failed=failed or "no points came back")
    return results


def check(program: str, *, python: Path) -> str | None:
    """Return what is wrong with a program or its adapter, by pairs whose motion is known; None if nothing."""
    for deformable in (False, True):
        reference, moving = known_pair.volumes(deformable=deformable)
        points_mm, true_mm = known_pair.points(deformable=deformable)
        job = job_of(
            reference,
            moving,
            origin_mm=known_pair.ORIGIN_MM,
            spacing_mm=known_pair.SPACING_MM,
            points_mm=points_mm,
            start_mm=known_pair.START_MM,
            deformable=deformable,
        )
        model = DEFORMABLE if deformable else AFFINE
        found = run(program, job, known_pair.START_MM, python=python)[model]
        if found.points_mm is None:
            return f"{program}, {model}: {found.failed}"
        tre_mm = float(np.linalg.norm(found.points_mm - true_mm, axis=1).mean())
        before_mm = float(np.linalg.norm(points_mm - true_mm, axis=1).mean())
        print(f"{program}, known {model} motion of {before_mm:.2f} mm: TRE {tre_mm:.3f} mm", flush=True)
        if not tre_mm <= WITHIN_MM[model]:
            return (
                f"{program}, {model}: expected a TRE within {WITHIN_MM[model]:g} mm on a known motion; got "
                f"{tre_mm:.3f} mm. Check the direction and the order of its transforms."
            )
    return None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "ended with an error and said nothing"
