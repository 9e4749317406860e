"""Sum of squared differences of locally normalised volumes, which follows structure instead of brightness."""

from __future__ import annotations

import math

import torch

from duotomo.geometry import VolumeGrid
from duotomo.objectives.image_misfit import SumOfSquares

WINDOW, SMOOTHING = 1.0, 0.5
"""Standard deviations of the window and of the smoothing, in units of the largest voxel edge."""

LEAST_CONTRAST = 0.1
"""Added to the local standard deviation, relative to the attenuation of the object."""


class LocalCorrelation(SumOfSquares):
    """Local correlation, `F(params) = 1/2 sum over voxels of m (T(params) n(f) - n(g))^2`, m the mask.

    `n(f) = S (f - G f) / sqrt(G f^2 - (G f)^2 + c^2)`: the volume less its local mean, divided by its local
    standard deviation, and smoothed. G and S are Gaussian filters of 1 and 0.5 times the largest edge of a
    voxel, c a tenth of the object's attenuation, `sqrt(sum of f^4 / sum of f^2)`, whatever air surrounds it.

    Limited-angle reconstructions are smeared along the rays, in the frame of the machine, not of the breast.
    Squared differences of attenuation align the smears of large, bright structures; local normalisation
    leaves edges, of whatever contrast. Smoothing makes interpolation blur both volumes alike.

    Parameters
    ----------
    transform, volume, target, reference, moving, mask, central_step, cubic
        As for `ImageMisfit`, as are the errors that they raise.

    Examples
    --------
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> f = torch.rand(grid.shape, generator=torch.Generator().manual_seed(0))
    >>> LocalCorrelation(Translation(grid), f, 3 * f).value(torch.zeros(3)) < 1e-6
    True
    """

    def prepare(self) -> None:
        self.volume = locally_normalised(self.volume, self.reference)
        self.target = locally_normalised(self.target, self.moving)


def locally_normalised(volume: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the volume less its local mean, divided by its local standard deviation, and smoothed.

    Parameters
    ----------
    volume : torch.Tensor
        (z, y, x) on `grid`, in 1/mm.
    grid : VolumeGrid
        Of the volume.

    Returns
    -------
    torch.Tensor
        n(f) of `LocalCorrelation`, (z, y, x), without unit.
    """
    edge_mm = max(grid.spacing_mm)
    mean = smoothed(volume, grid, WINDOW * edge_mm)
    variance = smoothed(volume.square(), grid, WINDOW * edge_mm).sub_(mean.square()).clamp_(min=0)
    # An empty volume stays one of zeros.
    tiny = torch.finfo(volume.dtype).tiny
    squares = volume.square()
    floor = LEAST_CONTRAST**2 * squares.square().sum() / (squares.sum() + tiny) + tiny
    return smoothed((volume - mean).div_(variance.add_(floor).sqrt_()), grid, SMOOTHING * edge_mm)


def smoothed(volume: torch.Tensor, grid: VolumeGrid, sigma_mm: float) -> torch.Tensor:
    """Return a volume filtered by a Gaussian; beyond the grid it has its outermost values.

    Parameters
    ----------
    volume : torch.Tensor
        (z, y, x) on `grid`.
    grid : VolumeGrid
        Of the volume.
    sigma_mm : float
        Standard deviation, in mm.

    Returns
    -------
    torch.Tensor
        (z, y, x).
    """
    for axis, spacing_mm in enumerate(grid.spacing_mm):
        sigma = sigma_mm / spacing_mm
        reach = math.ceil(3.5 * sigma)
        at = torch.arange(-reach, reach + 1, dtype=torch.float64)
        weights = torch.exp(-at.square() / (2 * sigma**2))
        weights = (weights / weights.sum()).to(volume)[None, None]
        rows = volume.movedim(axis, -1)
        padded = torch.nn.functional.pad(
            rows.reshape(-1, 1, rows.shape[-1]), (reach, reach), mode="replicate"
        )
        volume = torch.nn.functional.conv1d(padded, weights).reshape(rows.shape).movedim(-1, axis)
    return volume.contiguous()
