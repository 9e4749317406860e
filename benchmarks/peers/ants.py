"""ANTs: rigid and affine by mutual information, then SyN by cross-correlation.

    PEER_PYTHON -m benchmarks.peers.ants JOB.npz FOUND.npz

The transforms that resample its moving image take points of the fixed image to the moving one. With the
moving visit as its fixed image, they are moving_to_reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ants
import numpy as np
import pandas as pd

from benchmarks.peers.exchange import AFFINE, DEFORMABLE, Array, Job, serve

LINEAR = {
    "aff_metric": "mattes",
    "aff_sampling": 32,
    "aff_random_sampling_rate": 1.0,
    "aff_iterations": (1000, 500, 250, 100),
    "aff_shrink_factors": (4, 3, 2, 1),
    "aff_smoothing_sigmas": (3, 2, 1, 0),
}
SYN = {
    "syn_metric": "CC",
    "syn_sampling": 2,
    "reg_iterations": (100, 70, 50, 20),
    "grad_step": 0.2,
    "flow_sigma": 3,
    "total_sigma": 0,
}


def register(job: Job, folder: Path) -> Iterator[tuple[str, Array]]:
    """Yield where the points lie after the affine and after SyN."""
    fixed = image(job.moving, job.moving_origin_mm, job.spacing_mm)
    moving = image(job.reference, job.reference_origin_mm, job.spacing_mm)
    mask = image(job.moving_mask.astype(np.float32), job.moving_origin_mm, job.spacing_mm)
    start = None
    # Rigid, then affine from there.
    for number, model in enumerate(("Rigid", "Affine")):
        found = ants.registration(
            fixed,
            moving,
            model,
            initial_transform=start or "Identity",
            mask=mask,
            outprefix=f"{folder}/{number}_",
            random_seed=1,
            **LINEAR,
        )
        start = found["fwdtransforms"][0]
    yield AFFINE, moved(job.points_mm, found["fwdtransforms"])
    if job.deformable:
        found = ants.registration(
            fixed,
            moving,
            "SyNOnly",
            initial_transform=start,
            mask=mask,
            outprefix=f"{folder}/2_",
            random_seed=1,
            **SYN,
        )
        yield DEFORMABLE, moved(job.points_mm, found["fwdtransforms"])


def image(volume: Array, origin_mm: Array, spacing_mm: float) -> Any:
    """Return a volume, (z, y, x), as an image, whose axes ANTs has in the order (x, y, z)."""
    return ants.from_numpy(
        np.ascontiguousarray(volume.T), origin=[float(value) for value in origin_mm], spacing=[spacing_mm] * 3
    )


def moved(points_mm: Array, transforms: list[str]) -> Array:
    """Return where transforms take points."""
    table = pd.DataFrame(points_mm, columns=["x", "y", "z"])
    found = ants.apply_transforms_to_points(3, table, transforms)
    return np.asarray(found[["x", "y", "z"]], dtype=float)


if __name__ == "__main__":
    serve(register)
