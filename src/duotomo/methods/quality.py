"""Checks of a result that need no ground truth: residuals of the data, and plausibility of the motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.study import Study, Visit
from duotomo.operators import Projector
from duotomo.reconstruct.noise import noise_level
from duotomo.transforms import Motion
from duotomo.transforms.deformation import folding

MOST_AT_ONCE = 1_000_000
"""Voxels whose displacements are computed at a time."""

TISSUE = 0.2
"""Voxels above this fraction of the typical attenuation count as tissue."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Checks of a result that need no ground truth.

    Parameters
    ----------
    residual_by_view : tuple of tuple of float
        For each visit the RMS of `A f - p` over each view, f being the volume resampled to that visit's
        frame; where rays have weights, of `sqrt(w) (A f - p)` over those with a positive weight. Without
        unit.
    noise : tuple of float or None
        Noise of each visit, as estimated from its projections, in the same unit; None where they do not allow
        an estimate.
    folded_voxels : tuple of int
        For each moving visit, voxels of its whole grid where the motion folds.
    least_jacobian : tuple of float
        For each moving visit, lowest determinant of the Jacobian over its whole grid.
    mean_displacement_mm, largest_displacement_mm : tuple of float
        For each moving visit, over tissue, in mm.
    """

    residual_by_view: tuple[tuple[float, ...], ...]
    noise: tuple[float | None, ...]
    folded_voxels: tuple[int, ...] = ()
    least_jacobian: tuple[float, ...] = ()
    mean_displacement_mm: tuple[float, ...] = ()
    largest_displacement_mm: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as plain values, which JSON can hold.

        Returns
        -------
        dict
            Lists by name; numbers that are not finite become None.
        """
        return {name: plain(value) for name, value in asdict(self).items()}


@torch.no_grad()
def quality_of(
    study: Study,
    volume: torch.Tensor,
    grid: VolumeGrid,
    motions: Sequence[Motion] = (),
) -> Quality:
    """Return the checks of a volume and the motion of each moving visit.

    Parameters
    ----------
    study : Study
        The visits, reference first.
    volume : torch.Tensor
        Volume in the reference frame, (z, y, x) on `grid`, in 1/mm.
    grid : VolumeGrid
        Of the volume.
    motions : sequence of Motion
        moving_to_reference, of each moving visit.

    Returns
    -------
    Quality
        Residuals, noise, folding and displacements.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> machine, grid = paper().bin(4), VolumeGrid.on_detector((8, 16, 16), (4.0, 4.0, 4.0))
    >>> volume = torch.full(grid.shape, 0.05)
    >>> visit = Visit(projections=Projector(grid=grid, acquisition=machine)(volume), acquisition=machine)
    >>> found = quality_of(Study(grid=grid, visits=(visit,)), volume, grid)
    >>> max(found.residual_by_view[0]) < 1e-5
    True
    """
    pairs = list(zip(study.moving, motions, strict=True))
    moves = [moved(volume, grid, study.grid_of(visit), motion) for visit, motion in pairs]
    warped: list[torch.Tensor | None] = [volume]
    warped += [motion.warp(grid, study.grid_of(visit))(volume) for visit, motion in pairs]
    residuals = []
    for index, visit in enumerate(study.visits):
        place = grid if index == 0 else study.grid_of(visit)
        own, warped[index] = warped[index], None
        assert own is not None
        residuals.append(_residual_by_view(visit, own, place))
    return Quality(
        residual_by_view=tuple(residuals),
        noise=tuple(_noise(visit) for visit in study.visits),
        folded_voxels=tuple(move.folded_voxels for move in moves),
        least_jacobian=tuple(move.least_jacobian for move in moves),
        mean_displacement_mm=tuple(move.mean_mm for move in moves),
        largest_displacement_mm=tuple(move.largest_mm for move in moves),
    )


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Folded voxels and lowest determinant of a motion over a grid, and its displacements over tissue."""

    folded_voxels: int
    least_jacobian: float
    mean_mm: float
    largest_mm: float


@torch.no_grad()
def moved(
    volume: torch.Tensor,
    grid: VolumeGrid,
    moving_grid: VolumeGrid,
    motion: Motion,
) -> Moved:
    """Return the displacements and the folding of a motion over the moving grid.

    The volume, (z, y, x) on `grid` in the reference frame, shows where there is tissue.
    """
    warped = motion.warp(grid, moving_grid)(volume)
    tissue = (warped > TISSUE * _typical(volume)).cpu()
    if not bool(tissue.any()):
        tissue = torch.ones_like(tissue)
    n_folded, least, total_mm, largest_mm = 0, math.inf, 0.0, 0.0
    n_z, n_y, n_x = moving_grid.shape
    n_slices = max(1, MOST_AT_ONCE // (n_y * n_x))
    for start in range(0, n_z, n_slices):
        slab = moving_grid.slab(start, min(start + n_slices, n_z))
        folds = folding(motion, slab)
        n_folded, least = n_folded + folds.n_folded, min(least, folds.lowest_determinant)
        inside = tissue[start : start + slab.shape[0]]
        lengths_mm = motion.displacement(slab).norm(dim=0).cpu()[inside]
        if len(lengths_mm):
            total_mm += float(lengths_mm.sum())
            largest_mm = max(largest_mm, float(lengths_mm.max()))
    return Moved(
        folded_voxels=n_folded,
        least_jacobian=least,
        mean_mm=total_mm / int(tissue.sum()),
        largest_mm=largest_mm,
    )


def _typical(volume: torch.Tensor) -> float:
    """Return the mean attenuation of the voxels that attenuate, weighted by their attenuation."""
    positive = volume.clamp(min=0)
    norm = float(torch.linalg.vector_norm(positive, dtype=torch.float64))
    total = float(positive.sum(dtype=torch.float64))
    return norm**2 / total if total > 0 else 0.0


def _residual_by_view(visit: Visit, volume: torch.Tensor, grid: VolumeGrid) -> tuple[float, ...]:
    residual = Projector(grid=grid, acquisition=visit.acquisition)(volume) - visit.projections
    squares = residual.square_()
    if visit.weights is None:
        return tuple(squares.mean(dim=(1, 2), dtype=torch.float64).sqrt().tolist())
    counted = (visit.weights > 0).sum(dim=(1, 2)).clamp(min=1)
    sums = (visit.weights * squares).sum(dim=(1, 2), dtype=torch.float64)
    return tuple((sums / counted).sqrt().tolist())


def _noise(visit: Visit) -> float | None:
    try:
        return noise_level(visit.projections, visit.weights)
    except DuotomoError:
        # Too few pixels behind the object to tell.
        return None


def plain(value: Any) -> Any:
    """Return a value as JSON has it: None for a number that is not finite."""
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
