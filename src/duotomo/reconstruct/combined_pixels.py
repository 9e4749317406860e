"""Pixels that are small beside the shadow of a voxel, combined: detail that no voxel can show."""

from __future__ import annotations

import math

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.geometry.binning import bin_projections, binned_pixels
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.reconstruct._rays import projector_of


def pixels_per_voxel(grid: VolumeGrid, acquisition: Acquisition) -> tuple[int, int]:
    """Return how many whole pixels fit into the shadow of a voxel along (v, u), at least one.

    The shadow is that of the edges along y and x in the middle of the grid, in the view that magnifies least.

    Parameters
    ----------
    grid : VolumeGrid
        Of the volume.
    acquisition : Acquisition
        The scan.

    Returns
    -------
    tuple of int
        Along (v, u).

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> pixels_per_voxel(VolumeGrid.on_detector((8, 8, 8), (4.0, 4.0, 3.0)), paper())
    (4, 3)
    """
    sources, normals = acquisition.sources_mm, acquisition.normals
    to_detector, to_middle = (
        ((sources - end) * normals).sum(axis=1)
        for end in (acquisition.detector_centers_mm, np.array(grid.center_mm[::-1]))
    )
    least = float((to_detector / to_middle).min())
    spacings = zip(grid.spacing_mm[1:], acquisition.pixel_spacing_mm, strict=True)
    v, u = (max(1, math.floor(least * edge / pixel + 1e-6)) for edge, pixel in spacings)
    return v, u


def combine_pixels(misfit: ProjectionMisfit, sigma: float) -> tuple[ProjectionMisfit, float]:
    """Return the misfit and sigma with the pixels combined that lie within one voxel's shadow.

    Detail finer than a voxel would be left as a residual that has the pattern of the voxels, many times the
    noise, and would be paid for by the volume. Line integrals are averaged over the pixels that have a
    weight; the variance of such a mean of n pixels is `mean(1 / w) / n`, or `sigma^2 / n` without weights. A
    remainder at the high end of an axis is left out, as by `Acquisition.bin`.

    Parameters
    ----------
    misfit : ProjectionMisfit
        Of a `Projector`.
    sigma : float
        Of the noise; with weights relative to them.

    Returns
    -------
    misfit : ProjectionMisfit
        The same one where a voxel's shadow holds one pixel only.
    sigma : float
        That belongs to it.
    """
    projector = projector_of("combine_pixels", misfit)
    factor = pixels_per_voxel(projector.grid, projector.acquisition)
    if factor == (1, 1):
        return misfit, sigma
    data, weights = misfit.data, misfit.weights
    operator = Projector(projector.grid, projector.acquisition.bin(factor))
    if weights is None:
        n_pixels = math.prod(binned_pixels(n, f)[1] for n, f in zip(data.shape[-2:], factor, strict=True))
        return ProjectionMisfit(operator, bin_projections(data, factor)), sigma / math.sqrt(n_pixels)
    values, variance, counts = combined_rays(data, weights, factor)
    return ProjectionMisfit(operator, values, torch.where(counts, 1 / variance, 0.0)), sigma


def combined_rays(
    data: torch.Tensor, weights: torch.Tensor, factor: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the mean of each block over rays with a weight, its variance, and where there are any.

    A plain mean: weights within a pixel would favour rays that pass the object by. Line integrals and weights
    are (view, v, u); `factor` is that along (v, u).
    """
    # Pixels of weight zero may hold anything.
    used, zero = weights > 0, torch.zeros_like(data)
    share = bin_projections(used.to(data), factor)
    some = torch.where(share > 0, share, 1.0)
    mean = bin_projections(torch.where(used, data, zero), factor) / some
    variance = bin_projections(torch.where(used, 1 / weights, zero), factor) / some.square()
    shape = data.shape[-2:]
    variance /= math.prod(binned_pixels(n, f)[1] for n, f in zip(shape, factor, strict=True))
    return mean, variance, share > 0
