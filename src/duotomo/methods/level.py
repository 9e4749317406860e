"""One level of the multi-resolution pyramid: grids, data, projectors, and the scale of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from duotomo.geometry import VolumeGrid
from duotomo.geometry.binning import bin_projections
from duotomo.methods.detector_filter import change_over, spline_filtered, voxel_shadow
from duotomo.methods.study import Study, Visit
from duotomo.objectives import Term
from duotomo.objectives.nuisance import Nuisance
from duotomo.operators import Projector, SplineBasis
from duotomo.operators.counted import Counted
from duotomo.reconstruct.combined_pixels import combined_rays
from duotomo.transforms import Transform, Translation

Factors = tuple[int, int, int]
"""Voxels combined along (z, y, x)."""

FINEST: Factors = (1, 1, 1)

OBJECT = 0.1
"""Line integrals above this share of the largest belong to the object."""

UNEXPLAINED = 2.0
"""The variance of what no volume explains, beside the noise, in units of that of a typical ray."""

Basis = Literal["voxel", "spline"]
"""What the numbers of a volume are: values of voxels, or coefficients of a cubic spline."""


class Level:
    """A study whose voxels and pixels are combined by whole factors.

    Line integrals of combined pixels are averaged over the rays that have a weight, and so are variances.
    With voxels as the basis, pixels are combined along v and u by the factors of y and x. With splines, they
    are combined up to the size of a voxel's shadow, and smoothed as the spline smooths the volume: a level
    then holds no detail that its volume cannot show, and none is explained by a motion.

    Parameters
    ----------
    study : Study
        At full resolution.
    coarsen : tuple of int
        Voxels combined along (z, y, x).
    basis : str
        "voxel" or "spline".
    sigmas : sequence of float, optional
        Noise of each visit at full resolution, for those without weights; none unless given.
    mismatches : sequence of float, optional
        What a volume cannot explain of each visit, as a standard deviation of the line integrals per mm of
        the voxels' edges along y and x; adds to the noise, and to the variance that weights stand for.
    edges : float
        What voxels cannot explain at sharp edges: this share of the change of the line integrals over a
        voxel's shadow adds to the standard deviation of a ray. Visits then have weights, the inverse
        variances, unless nothing is known of their noise.
    offset : float
        Standard deviation of the unknown offset of each view's line integrals.
    unexplained : float
        The variance of what no volume explains, beside that which weights stand for, in units of that of a
        typical ray; zero where weights are known to say all.
    """

    def __init__(
        self,
        study: Study,
        coarsen: Factors,
        *,
        basis: Basis = "voxel",
        sigmas: Sequence[float] | None = None,
        mismatches: Sequence[float] | None = None,
        edges: float = 0.0,
        offset: float = 0.0,
        unexplained: float = UNEXPLAINED,
    ) -> None:
        self.coarsen, self.edges, self.grid = coarsen, edges, study.grid.coarsen(coarsen)
        self.basis = SplineBasis(self.grid) if basis == "spline" else None
        self.grids = tuple(study.grid_of(visit).coarsen(coarsen) for visit in study.visits)
        edge_mm = math.sqrt(self.grid.spacing_mm[1] * self.grid.spacing_mm[2])
        self.mismatches = tuple(edge_mm * one for one in mismatches or (0.0,) * len(study.visits))
        self._offset = offset
        visits, self.noises = [], []
        sigmas = sigmas or (0.0,) * len(study.visits)
        rows = zip(study.visits, self.grids, sigmas, self.mismatches, strict=True)
        for visit, grid, sigma, mismatch in rows:
            factor, shadow = (coarsen[1], coarsen[2]), self._shadow(visit, grid)
            if self.basis is not None:
                factor = _whole(shadow)
            binned = _binned(visit, factor, mismatch, unexplained)
            # Noise that has been averaged over n pixels has fallen by sqrt(n).
            noise = math.hypot(sigma / math.sqrt(factor[0] * factor[1]), mismatch)
            shadow = self._shadow(binned, grid)
            if self.basis is not None:
                used = None if binned.weights is None else binned.weights > 0
                binned = replace(binned, projections=spline_filtered(binned.projections, shadow, used))
            if edges > 0:
                binned = _less_at_edges(binned, noise, edges, shadow)
            # Whitened noise is 1.
            self.noises.append(noise if binned.weights is None else 1.0)
            visits.append(binned)
        self.visits = tuple(visits)
        self.projectors = tuple(
            Counted(Projector(grid=grid, acquisition=visit.acquisition))
            for grid, visit in zip(self.grids, self.visits, strict=True)
        )

    def terms(self, transforms: Sequence[Transform]) -> list[Term]:
        """Return the terms of the joint misfit, given one transform for each moving visit."""
        return [
            Term(
                projector=projector,
                data=visit.projections,
                weights=visit.weights,
                nuisance=self._nuisance(visit, mismatch),
                transform=transform,
                grid=grid,
                cubic=self.basis is not None,
            )
            for projector, visit, grid, mismatch, transform in zip(
                self.projectors, self.visits, self.grids, self.mismatches, (None, *transforms), strict=True
            )
        ]

    def leave_out(self, rays: Sequence[torch.Tensor]) -> None:
        """Give some rays of each visit no weight; each tensor tells which, (view, v, u).

        Visits without weights get those of their noise.
        """
        visits = []
        for index, (visit, out) in enumerate(zip(self.visits, rays, strict=True)):
            weights = visit.weights
            if weights is None:
                weights = torch.full_like(visit.projections, (self.noises[index] or 1.0) ** -2)
                self.noises[index] = 1.0
            visits.append(replace(visit, weights=weights.masked_fill(out, 0.0)))
        self.visits = tuple(visits)

    def _shadow(self, visit: Visit, grid: VolumeGrid) -> tuple[float, float]:
        """Return the edges of a voxel's shadow, along (v, u), in pixels of a visit.

        That of the larger voxels, where a visit has its own: they hold what the volume shows.
        """
        pairs = zip(*(voxel_shadow(visit.acquisition, one) for one in (grid, self.grid)), strict=True)
        v, u = (max(pair) for pair in pairs)
        return v, u

    def _nuisance(self, visit: Visit, mismatch: float) -> Nuisance | None:
        if self._offset == 0:
            return None
        # Thousands of rays of a view outweigh the prior: without weights a rough scale of the noise will do.
        noise = 1.0 if visit.weights is not None or mismatch == 0 else mismatch
        return Nuisance(offset=self._offset, noise=noise)

    def noise_gradient_rms(self) -> float:
        """Return the RMS over voxels of the gradient of the misfit that noise leaves at the true volume.

        `sum over visits of sqrt(mean((A^T W n)^2))`, n white noise whose standard deviation is that of the
        level, `hypot(sigma / sqrt(pixels combined), mismatch)`, or `1 / sqrt(w)` with weights. Neither the
        filter of the data nor the spline counts: what a volume cannot explain is not white, and they leave
        most of it.
        """
        pulls = [noise * _rms(self._pulled(index)) for index, noise in enumerate(self.noises)]
        # Added, not their squares: what voxels cannot explain is much the same in every visit.
        return sum(pulls)

    def curvature(self) -> float:
        """Return the mean over the voxels of the diagonal of `sum over visits of B^T A^T W A B`."""
        images = [self._pulled(index) for index in range(len(self.visits))]
        if self.basis is not None:
            images = [self.basis(image) if image.shape == self.basis.domain else image for image in images]
        return math.hypot(*map(_rms, images)) ** 2

    def _pulled(self, index: int) -> torch.Tensor:
        """Return `A^T sqrt(W) n`, n white noise of standard deviation 1."""
        like, weights = self.visits[index].projections, self.visits[index].weights
        generator = torch.Generator(device=like.device).manual_seed(0)
        noise = torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)
        return self.projectors[index].adjoint(noise if weights is None else weights.sqrt() * noise)

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


def interpolated(
    fields: torch.Tensor, coarsen: Factors, shape: Factors, *, mode: str = "trilinear"
) -> torch.Tensor:
    """Return fields, (field, z, y, x) on `grid.coarsen(coarsen)`, at the voxels of `grid`, (field, *shape).

    What has no value in a coarse voxel has none next to it either.
    """
    # By the factors, and then cut: at the far side coarse voxels may reach beyond the grid.
    finer = torch.nn.functional.interpolate(fields[None], scale_factor=list(map(float, coarsen)), mode=mode)
    n_z, n_y, n_x = shape
    return finer[0, :, :n_z, :n_y, :n_x]


def resampled(volume: torch.Tensor, source: VolumeGrid, target: VolumeGrid) -> torch.Tensor:
    """Return a volume on a finer grid, interpolated linearly, and extrapolated by the outermost values."""
    if source == target:
        return volume
    identity = Translation(source)
    warp = identity.warp(identity.identity(), source, target)
    # Divided by what a volume of ones becomes: voxels beyond the outermost centres keep their value.
    share = warp(torch.ones_like(volume))
    return warp(volume) / share.clamp(min=1e-6)


def _whole(shadow: tuple[float, float]) -> tuple[int, int]:
    """Return how many pixels fit into a shadow, at least one."""
    v, u = (max(1, math.floor(edge + 1e-6)) for edge in shadow)
    return v, u


def _less_at_edges(visit: Visit, noise: float, share: float, shadow: tuple[float, float]) -> Visit:
    """Return a visit whose rays count the less the more line integrals change over a voxel's shadow.

    `1 / (v + (share c)^2)`, v the variance without, c the change. Without noise and weights nothing says how
    much that is, and the visit stays as it is.
    """
    if visit.weights is None and noise == 0:
        return visit
    used = None if visit.weights is None else visit.weights > 0
    added = (share * change_over(visit.projections, shadow, used)).square()
    if visit.weights is None:
        return replace(visit, weights=1 / (noise**2 + added))
    return replace(visit, weights=visit.weights / (1 + visit.weights * added))


def _rms(image: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(image, dtype=torch.float64)) / math.sqrt(image.numel())


def _binned(visit: Visit, factor: tuple[int, int], mismatch: float, unexplained: float) -> Visit:
    projections, weights = visit.projections, visit.weights
    if weights is None:
        return replace(
            visit, projections=bin_projections(projections, factor), acquisition=visit.acquisition.bin(factor)
        )
    binned, variance, counts = combined_rays(projections, weights, factor)
    more = mismatch**2 + unexplained * _typical_variance(binned, variance, counts)
    return replace(
        visit,
        projections=binned,
        acquisition=visit.acquisition.bin(factor),
        weights=torch.where(counts, 1 / (variance + more), 0.0),
    )


def _typical_variance(projections: torch.Tensor, variance: torch.Tensor, counts: torch.Tensor) -> float:
    """Return the median variance of the rays through the object.

    Without more of it, rays beside the object, of which there are many and whose noise is least, would rule,
    and with them the outline of the voxels at the skin.
    """
    inside = (projections > OBJECT * projections.max()) & counts
    return float(variance[inside].median()) if bool(inside.any()) else 0.0
