"""How far a result is from the truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from duotomo.methods import Result
from duotomo.reproduction.case import Case
from duotomo.transforms import Affine, Motion, folding, target_registration_error

MOST_CHECKED = 2_000_000
"""Folding is looked for on a grid of at most about so many voxels."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """The errors of one result.

    relative_error: `|f - truth|^2 / |truth|^2` of the volume; mse: `|f - truth|^2 / n_voxels`, 1/mm^2.
    registered_relative_error, registered_mse: of the moving visit's own volume, seen in the reference frame,
    for methods that have one. tre_mm, worst_tre_mm: mean and largest target registration error over the
    object; edge_tre_mm: mean over the boundaries of tissues; in_plane_mm, depth_mm: means there of the error
    parallel to the detector and along z. entries: absolute error of the twelve affine entries, row by row of
    [A | t], translations in mm about the middle of the grid; None for other models. folded: voxels where the
    motion folds.
    """

    relative_error: float
    mse: float
    registered_relative_error: float | None
    registered_mse: float | None
    tre_mm: float
    worst_tre_mm: float
    edge_tre_mm: float
    in_plane_mm: float
    depth_mm: float
    entries: tuple[float, ...] | None
    folded: int

    def plain(self) -> dict[str, Any]:
        """Return the errors as JSON has them."""
        return asdict(self)


def errors_of(case: Case, result: Result) -> Errors:
    """Return how far a result is from the truth of its case."""
    found = Motion(result.motions[0].transform, result.motions[0].params.cpu())
    registered = result.others.get("visit_2_registered")
    volume_error, mse = _volume_errors(result.volume, case.truth)
    other_error, other_mse = (None, None) if registered is None else _volume_errors(registered, case.truth)
    tre_mm = target_registration_error(found, case.points_mm, case.motion.points(case.points_mm))
    off_mm = found.points(case.edge_points_mm) - case.motion.points(case.edge_points_mm)
    return Errors(
        relative_error=volume_error,
        mse=mse,
        registered_relative_error=other_error,
        registered_mse=other_mse,
        tre_mm=float(tre_mm.mean()),
        worst_tre_mm=float(tre_mm.max()),
        edge_tre_mm=float(off_mm.norm(dim=1).mean()),
        in_plane_mm=float(off_mm[:, :2].norm(dim=1).mean()),
        depth_mm=float(off_mm[:, 2].abs().mean()),
        entries=_entry_errors(case, found),
        folded=_n_folded(case, found),
    )


def _volume_errors(volume: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    total_sq = float((volume.detach().cpu() - truth).square().sum(dtype=torch.float64))
    return total_sq / float(truth.square().sum(dtype=torch.float64)), total_sq / truth.numel()


def _entry_errors(case: Case, found: Motion) -> tuple[float, ...] | None:
    if not all(isinstance(one.transform, Affine) for one in (case.motion, found)):
        return None
    # Both move points as `c + A (x - c) + t` about the middle c of the same grid.
    z, y, x = case.study.grid.center_mm
    middle = torch.tensor([x, y, z], dtype=torch.float64)
    entries = [_entries(one, middle) for one in (found, case.motion)]
    return tuple((entries[0] - entries[1]).abs().reshape(-1).tolist())


def _entries(motion: Motion, middle: torch.Tensor) -> torch.Tensor:
    """Return [A | t] of an affine transform, (3, 4), with t the displacement of `middle`."""
    corners = torch.cat([middle[None], middle + torch.eye(3, dtype=torch.float64)])
    moved = motion.points(corners)
    return torch.cat([(moved[1:] - moved[0]).T, (moved[0] - middle)[:, None]], dim=1)


def _n_folded(case: Case, found: Motion) -> int:
    grid, factor = case.moving_grid, 1
    while grid.n_voxels > MOST_CHECKED:
        factor *= 2
        grid = case.moving_grid.coarsen((factor, factor, factor))
    return folding(found, grid).n_folded
