"""One level of the multi-resolution pyramid: grids, data, projectors, and the scale of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.binning import bin_projections, binned_pixels
from duotomo.methods.study import Study, Visit
from duotomo.objectives import Term
from duotomo.operators import Projector
from duotomo.operators.counted import Counted
from duotomo.reconstruct.noise import total_variation_weight
from duotomo.transforms import Transform, Translation

Factors = tuple[int, int, int]
"""Voxels combined along (z, y, x)."""

FINEST: Factors = (1, 1, 1)


class Level:
    """A study whose voxels and pixels are combined by whole factors.

    Pixels are combined along v and u by the factors of y and x: line integrals are averaged, by their weights
    where there are any, and weights are added.

    Parameters
    ----------
    study : Study
        At full resolution.
    coarsen : tuple of int
        Voxels combined along (z, y, x).
    """

    def __init__(self, study: Study, coarsen: Factors) -> None:
        self.coarsen = coarsen
        self.grid = study.grid.coarsen(coarsen)
        self.visits = tuple(_coarsened(visit, coarsen) for visit in study.visits)
        self.grids = tuple(study.grid_of(visit).coarsen(coarsen) for visit in study.visits)
        self.projectors = tuple(
            Counted(Projector(grid=grid, acquisition=visit.acquisition))
            for grid, visit in zip(self.grids, self.visits, strict=True)
        )
        # Noise that has been averaged over n pixels has fallen by sqrt(n); whitened noise stays 1.
        self.noise_shrinks = 1 / math.sqrt(coarsen[1] * coarsen[2])

    def terms(self, transforms: Sequence[Transform]) -> list[Term]:
        """Return the terms of the joint misfit, given one transform for each moving visit."""
        return [
            Term(
                projector=projector,
                data=visit.projections,
                weights=visit.weights,
                transform=transform,
                grid=grid,
            )
            for projector, visit, grid, transform in zip(
                self.projectors, self.visits, self.grids, (None, *transforms), strict=True
            )
        ]

    def noise_gradient_rms(self, sigmas: Sequence[float]) -> float:
        """Return the RMS of the noise gradient: over voxels, of the misfit's gradient at the true volume.

        `sqrt(sum over visits of mean((A^T W n)^2))`, n white noise of standard deviation sigma, or of
        `sigma / sqrt(w)` with weights. `sigmas` are those at full resolution, one per visit.
        """
        pulls = []
        for projector, visit, sigma in zip(self.projectors, self.visits, sigmas, strict=True):
            like, shrinks = visit.projections, self.noise_shrinks if visit.weights is None else 1.0
            pulls.append(
                total_variation_weight(
                    projector,
                    sigma * shrinks,
                    visit.weights,
                    kappa=1.0,
                    device=like.device,
                    dtype=like.dtype,
                )
            )
        return math.hypot(*pulls)

    @property
    def applications(self) -> int:
        """Projector applications on this level so far."""
        return sum(projector.applications for projector in self.projectors)


def coarsening(grid: VolumeGrid, spacing_mm: float) -> Factors:
    """Return the factors (z, y, x) that bring each edge of a voxel near `spacing_mm`, never below 1.

    Examples
    --------
    >>> coarsening(VolumeGrid.on_detector((50, 600, 800), (1.0, 0.1, 0.1)), 0.8)
    (1, 8, 8)
    """
    z, y, x = (max(1, round(spacing_mm / edge)) for edge in grid.spacing_mm)
    return z, y, x


def block_mean(volume: torch.Tensor, coarsen: Factors) -> torch.Tensor:
    """Return a volume on `grid.coarsen(coarsen)`: the mean over the voxels that each coarse one combines."""
    if coarsen == FINEST:
        return volume
    # At the far side a coarse voxel may reach beyond the grid: the mean is over those it has.
    pooled: torch.Tensor = torch.nn.functional.avg_pool3d(
        volume[None, None], coarsen, ceil_mode=True, count_include_pad=False
    )
    return pooled[0, 0]


def resampled(volume: torch.Tensor, source: VolumeGrid, target: VolumeGrid) -> torch.Tensor:
    """Return a volume on a finer grid, interpolated linearly, and extrapolated by the outermost values."""
    if source == target:
        return volume
    identity = Translation(source)
    warp = identity.warp(identity.identity(), source, target)
    # Divided by what a volume of ones becomes: voxels beyond the outermost centres keep their value.
    share = warp(torch.ones_like(volume))
    return warp(volume) / share.clamp(min=1e-6)


def _coarsened(visit: Visit, coarsen: Factors) -> Visit:
    _, f_v, f_u = coarsen
    if (f_v, f_u) == (1, 1):
        return visit
    factor = (f_v, f_u)
    projections, weights = visit.projections, visit.weights
    if weights is None:
        binned, total = bin_projections(projections, factor), None
    else:
        shape = visit.acquisition.detector_shape
        n_pixels = math.prod(binned_pixels(n, f)[1] for n, f in zip(shape, factor, strict=True))
        mean = bin_projections(weights, factor)
        binned = bin_projections(weights * projections, factor) / mean.clamp(min=torch.finfo(mean.dtype).tiny)
        total = mean * n_pixels
    return Visit(
        projections=binned, acquisition=visit.acquisition.bin(factor), weights=total, grid=visit.grid
    )
