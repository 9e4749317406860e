"""What changed in the results of pages: the landmark is new, what the other visit has elsewhere is gone."""

from __future__ import annotations

from typing import Any

import torch

from duotomo.change import Change, FalseFindings, Finding, Silent
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, voxel_to_world
from tests.report.page_results import GRID, LANDMARK, MOVED, body

CURVE = FalseFindings(thresholds=(3.0, 4.0, 5.0, 6.0, 7.0), expected=(20.0, 2.0, 0.2, 0.02, 0.001))
THRESHOLD = 4.5


def place(voxel: tuple[int, int, int], grid: VolumeGrid = GRID) -> tuple[float, float, float]:
    """Return the middle of a voxel (z, y, x): x, y, z in mm."""
    x, y, z = voxel_to_world(grid, voxel).tolist()
    return x, y, z


def finding(number: int, voxel: tuple[int, int, int], z: float, **changes: Any) -> Finding:
    """Return a finding at a voxel (z, y, x), new if its score is positive."""
    sign = 1.0 if z > 0 else -1.0
    made: dict[str, Any] = {
        "number": number,
        "kind": "new" if z > 0 else "gone",
        "template": "sphere of 5 mm",
        "place_mm": place(voxel),
        "place_deviation_mm": (0.3, 0.3, 1.2),
        "prior_place_mm": place(voxel),
        "size_mm": 5.0,
        "size_interval_mm": (4.1, 6.2),
        "contrast_per_mm": sign * 0.04,
        "contrast_interval_per_mm": (sign * 0.04 - 0.008, sign * 0.04 + 0.008),
        "z": z,
        "p_value": 1e-9,
        "false_findings": 0.01,
        "false_discovery_rate": 0.02,
        "smear_mm": 9.0,
        "slice_index": voxel[0],
        "words": f"{place(voxel)[1]:.0f} mm from the chest wall, slice {voxel[0] + 1}",
    }
    return Finding(**(made | changes))


FINDINGS = (finding(1, LANDMARK, 6.8), finding(2, MOVED, -5.2))


def silent_of(volume: torch.Tensor) -> torch.Tensor:
    """Return where nothing is said: two voxels at the chest wall, and outside of the breast with its skin."""
    air = (volume == 0).float()
    skin = torch.nn.functional.max_pool3d(air[None], (1, 3, 3), stride=1, padding=(0, 1, 1))[0] > 0
    silent = torch.full(volume.shape, int(Silent.STATED), dtype=torch.uint8)
    silent[:, :2] = Silent.CHEST_WALL
    silent[skin] = Silent.OUTSIDE_BREAST
    return silent


def scores_of(findings: tuple[Finding, ...], silent: torch.Tensor, grid: VolumeGrid = GRID) -> torch.Tensor:
    """Return a map with a Gaussian of each finding's score at its place."""
    centers = torch.from_numpy(voxel_centers_mm(grid))
    scores = torch.zeros(grid.shape, dtype=torch.float64)
    for one in findings:
        apart = centers - torch.tensor(one.place_mm, dtype=torch.float64)
        scores += one.z * torch.exp(-0.5 * (apart / (0.6 * one.size_mm)).square().sum(-1))
    scores[silent != 0] = torch.nan
    return scores.float()


def change(*, grid: VolumeGrid = GRID, volume: torch.Tensor | None = None, **changes: Any) -> Change:
    """Return what changed in `result()`."""
    volume = body(LANDMARK) if volume is None else volume
    silent = silent_of(volume)
    found: dict[str, Any] = {
        "grid": grid,
        "z_map": scores_of(changes.get("findings", FINDINGS), silent, grid),
        "silent": silent,
        "volume": volume,
        "findings": FINDINGS,
        "threshold": THRESHOLD,
        "false_findings": CURVE,
    }
    return Change(**(found | changes))
