"""Result folders for pages: a ball and a bright landmark, which the second visit has elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from duotomo.change import Change
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.io import write_result
from duotomo.methods import MotionUncertainty, Result
from duotomo.solvers import Status, Step
from duotomo.transforms import BSpline, Motion, Translation
from tests.cases.scans import arc
from tests.cases.studies import random_study

GRID = VolumeGrid.on_detector((12, 30, 40), (2.0, 1.5, 1.5), gap_mm=3.0)
SCAN = arc((6, 7), 8.0, n_views=3, degrees=30)
LANDMARK, MOVED = (5, 16, 13), (5, 10, 28)
"""Where the reference, and where the second visit, is brightest: voxels (z, y, x)."""

QUALITY = {
    "residual_by_view": [[0.01, 0.02, 0.015], [0.05, 0.01, 0.01]],
    "noise": [0.012, 0.012],
    "folded_voxels": [0],
    "least_jacobian": [0.8],
    "mean_displacement_mm": [3.0],
    "largest_displacement_mm": [4.5],
}
SETTINGS: dict[str, Any] = {"method": "simultaneous", "model": "translation", "priors": {"bending": 0.1}}


def body(landmark: tuple[int, int, int], *, grid: VolumeGrid = GRID) -> torch.Tensor:
    """Return a half ball of tissue, 0.05 in 1/mm, with 3 x 3 x 3 voxels of 0.09 about a landmark."""
    z, y, x = torch.meshgrid(*(torch.arange(n) for n in grid.shape), indexing="ij")
    centers = voxel_to_world(grid, torch.stack([z, y, x], dim=-1).numpy())
    x_mm, y_mm, z_mm = torch.from_numpy(centers.copy()).unbind(-1)
    middle = grid.center_mm[0]
    inside = (x_mm / 28) ** 2 + (y_mm / 42) ** 2 + ((z_mm - middle) / 11) ** 2 < 1
    volume = 0.05 * inside.float()
    z0, y0, x0 = landmark
    volume[z0 - 1 : z0 + 2, y0 - 1 : y0 + 2, x0 - 1 : x0 + 2] = 0.09
    return volume


def result(*, compared: bool = True, motion: Motion | None = None, **changes: Any) -> Result:
    """Return a result of two visits, or of one."""
    still = Translation(GRID)
    motion = motion or Motion(still, still.identity())
    history = [
        Step(
            stage=i // 5,
            what=f"stage {i // 5}",
            number=i + 1,
            objective=10.0 / (i + 1),
            gradient_norm=1.0,
            step_size=1.0,
            applications=i,
            seconds=0.1 * i,
        )
        for i in range(12)
    ]
    found: dict[str, Any] = {
        "method": "simultaneous",
        "grid": GRID,
        "volume": body(LANDMARK),
        "others": {"visit_1": body(LANDMARK), "visit_2_registered": body(MOVED)} if compared else {},
        "motions": (motion,) if compared else (),
        "status": Status.CONVERGED,
        "reason": "The gradient is small.",
        "applications": 40,
        "seconds": 12.0,
        "history": tuple(history),
    }
    return Result(**(found | changes))


def spline() -> Motion:
    """Return a deformation of some millimetres."""
    transform = BSpline.over(GRID, (5, 6, 6))
    generator = torch.Generator().manual_seed(1)
    params = 1.5 * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)
    return Motion(transform, params)


def sure(
    motion: Motion,
    *,
    up_to_x_mm: float = math.inf,
    deviations_mm: tuple[float, float, float] = (0.2, 0.2, 1.1),
) -> MotionUncertainty:
    """Return deviations along x, y and z; beyond some place along x nothing is determined."""

    class Sure(MotionUncertainty):
        def covariance_mm2(self, xyz_mm: torch.Tensor, *, along: torch.Tensor | None = None) -> torch.Tensor:
            deviations = torch.tensor(deviations_mm, dtype=torch.float64).expand(xyz_mm.shape)
            return torch.diag_embed(deviations.square())

        def _is_learnt(self, points: torch.Tensor, along: torch.Tensor | None) -> torch.Tensor:
            return points[..., 0] < up_to_x_mm

    n = len(motion.params)
    modes = torch.zeros(n, 1, dtype=torch.float64)
    return Sure(motion=motion, form="sandwich", modes=modes, core=torch.eye(1, dtype=torch.float64))


def save(
    folder: Path,
    made: Result,
    *,
    settings: Mapping[str, Any] = SETTINGS,
    quality: Mapping[str, Any] | None = QUALITY,
    change: Change | None = None,
) -> Path:
    """Write a result, its quality, and what changed, into a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    study = random_study(GRID, SCAN, n_visits=len(made.motions) + 1)
    write_result(folder, made, study=study, settings=settings, quality=quality, change=change)
    return folder
