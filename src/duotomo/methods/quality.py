"""Checks of a result that need no truth: what the data leave unexplained, and whether the motion is one."""

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
"""So many voxels are moved at a time."""

TISSUE = 0.2
"""Voxels above this part of the typical attenuation count as tissue."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What can be said of a result without knowing the truth.

    residual_by_view: for each visit the rms of `A f - p` over each view, f the volume as that visit sees it;
    where rays have weights, of `sqrt(w) (A f - p)` over those that count. noise: of each visit, as estimated
    from its projections, in the same unit; None where they do not tell. The others have one number for each
    moving visit. folded_voxels, least_jacobian: over its whole grid. mean_displacement_mm,
    largest_displacement_mm: over tissue.
    """

    residual_by_view: tuple[tuple[float, ...], ...]
    noise: tuple[float | None, ...]
    folded_voxels: tuple[int, ...] = ()
    least_jacobian: tuple[float, ...] = ()
    mean_displacement_mm: tuple[float, ...] = ()
    largest_displacement_mm: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold; numbers that are not finite become None."""
        return {name: _plain(value) for name, value in asdict(self).items()}


@torch.no_grad()
def quality_of(
    study: Study,
    volume: torch.Tensor,
    grid: VolumeGrid,
    motions: Sequence[Motion] = (),
) -> Quality:
    """Return the checks of a volume, (z, y, x) on `grid`, and the motion of each moving visit.

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
    """How a motion moves the voxels of a grid; lengths over tissue, the others over all of it."""

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
    """Return how a motion moves the voxels of the moving grid.

    volume: in the reference frame, (z, y, x) on `grid`; where it attenuates, there is tissue.
    """
    warped = motion.warp(grid, moving_grid)(volume)
    tissue = (warped > TISSUE * _typical(volume)).cpu()
    if not bool(tissue.any()):
        tissue = torch.ones_like(tissue)
    n_folded, least, total_mm, largest_mm = 0, math.inf, 0.0, 0.0
    for start, slab in _slabs(moving_grid):
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


def _slabs(grid: VolumeGrid) -> list[tuple[int, VolumeGrid]]:
    """Return pieces of a grid along z, each with the number of its first slice."""
    n_z, n_y, n_x = grid.shape
    step = max(1, MOST_AT_ONCE // (n_y * n_x))
    pieces = []
    for start in range(0, n_z, step):
        n = min(step, n_z - start)
        center = grid.low_mm[0] + (start + n / 2) * grid.spacing_mm[0], grid.center_mm[1], grid.center_mm[2]
        piece = VolumeGrid(shape=(n, n_y, n_x), spacing_mm=grid.spacing_mm, center_mm=center)
        pieces.append((start, piece))
    return pieces


def _typical(volume: torch.Tensor) -> float:
    """Return the root of the mean square over voxels that attenuate, weighted by how much they do."""
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


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value if value is None or math.isfinite(value) else None
