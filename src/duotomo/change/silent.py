"""Where no statement about a change is made, and why."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.change.change import Silent
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm, world_to_pixel
from duotomo.methods import MotionUncertainty, Study
from duotomo.methods.level import coarsening
from duotomo.transforms import Motion
from duotomo.transforms.inversion import invert_points

Floats = NDArray[np.float64]

TISSUE = 0.3
"""Attenuation of the breast, of the median of what is more than a fifth of the largest."""

SKIN_MM = 5.0
"""Distance to the border of the breast within which edges that do not fit exceed all change."""

CHEST_MM = 12.0
"""Distance to the chest-wall border of the field of view, of either visit, that is left out."""

SEEN_BY = 0.8
"""Least share of the views of a visit that see a place."""

LEAST_SURE_MM = 3.0
"""Standard deviation of the motion along any axis, above which places cannot be compared."""

STRIDE_MM = 6.0
"""Distance of the points that the motion is inverted at."""


def silent_voxels(
    study: Study, deep_mm: torch.Tensor, motion: Motion, uncertainty: MotionUncertainty | None = None
) -> torch.Tensor:
    """Return a `Silent` for every voxel of the current visit's grid, (z, y, x), uint8 on the CPU.

    Parameters
    ----------
    study : Study
        The current visit, the reference, and the prior one.
    deep_mm : torch.Tensor
        What `depth_mm` returns of its volume.
    motion : Motion
        From the prior visit's frame to the current one's.
    uncertainty : MotionUncertainty, optional
        Of the motion, if it is known.
    """
    grid = study.grid
    coarse = grid.coarsen(coarsening(grid, STRIDE_MM))
    points = voxel_centers_mm(coarse).reshape(-1, 3)
    before = invert_points(motion, torch.from_numpy(points)).xyz_mm.numpy()
    unseen, chest = np.zeros(len(points), bool), np.zeros(len(points), bool)
    for acquisition, own in zip((one.acquisition for one in study.visits), (points, before), strict=True):
        unseen |= _share_seen(acquisition, own) < SEEN_BY
        shifted = own - np.array([0.0, CHEST_MM, 0.0])
        chest |= _share_seen(acquisition, shifted) < SEEN_BY
    unsure = np.zeros(len(points), bool)
    if uncertainty is not None and uncertainty.is_known:
        unsure = uncertainty.deviation_mm(torch.from_numpy(before)).amax(dim=1).numpy() > LEAST_SURE_MM
    result = torch.zeros(grid.shape, dtype=torch.uint8)
    for where, why in (
        (unsure, Silent.MOTION_UNDETERMINED),
        (chest, Silent.CHEST_WALL),
        (unseen, Silent.OUTSIDE_VIEW),
    ):
        result[_finer(where, coarse, grid)] = int(why)
    result[deep_mm < SKIN_MM] = int(Silent.OUTSIDE_BREAST)
    return result


def depth_mm(volume: torch.Tensor, grid: VolumeGrid) -> torch.Tensor:
    """Return the distance of every voxel to what is not breast, (z, y, x), in mm; zero outside."""
    from scipy.ndimage import binary_fill_holes, distance_transform_edt, label

    values = volume.detach().float().cpu()
    large = values[values > 0.2 * values.max()]
    mask = (values > TISSUE * large.median()).numpy() if len(large) else np.zeros(grid.shape, bool)
    parts, n_parts = label(mask)
    if n_parts > 1:
        mask = parts == 1 + np.argmax(np.bincount(parts.ravel())[1:])
    # Beyond the grid there is no breast, but behind the chest wall there is.
    padded = np.pad(np.stack([binary_fill_holes(layer) for layer in mask]), ((1, 1), (0, 1), (1, 1)))
    depths = distance_transform_edt(padded, sampling=grid.spacing_mm)[1:-1, :-1, 1:-1]
    return torch.from_numpy(depths.astype(np.float32))


def _share_seen(acquisition: Acquisition, points: Floats) -> Floats:
    """Return the share of the views whose detector shows each point, (point,)."""
    index = world_to_pixel(acquisition, points)
    inside = (index > -0.5) & (index < np.array(acquisition.detector_shape) - 0.5)
    share: Floats = inside.all(axis=-1).mean(axis=0)
    return share


def _finer(where: NDArray[np.bool_], coarse: VolumeGrid, grid: VolumeGrid) -> torch.Tensor:
    values = torch.from_numpy(where.reshape(coarse.shape)).float()[None, None]
    return torch.nn.functional.interpolate(values, size=grid.shape, mode="nearest-exact")[0, 0] > 0
