"""The projector's slow and obvious form: dense weight matrices, two products per view and slice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duotomo.kernels.project.footprint import COLUMNS, ROWS, Floats


def weights(footprint: Floats, *, n_pixels: int, n_voxels: int) -> Floats:
    """Return `W[k, i]`, the share of pixel k that voxel i's footprint covers, averaged over the slab.

    footprint: (4,), `(p, q)` of the lower and of the upper face.

    >>> weights(np.array([0.5, 1.0, 0.5, 1.0]), n_pixels=3, n_voxels=2)
    array([[0.5, 0. ],
           [0.5, 0.5],
           [0. , 0.5]])
    """
    p_low, q_low, p_high, q_high = footprint
    edge = np.arange(n_voxels + 1)
    ends = np.stack([p_low + q_low * edge, p_high + q_high * edge])
    begin, sweep = ends.min(axis=0), np.ptp(ends, axis=0)
    pixel = np.arange(n_pixels)[:, None]
    cover = _integral(pixel + 1 - begin, sweep) - _integral(pixel - begin, sweep)
    return np.asarray(cover[:, :-1] - cover[:, 1:])


def _integral(distance: Floats, sweep: Floats) -> Floats:
    """Integrate, up to `distance`, a ramp that rises from 0 at 0 to 1 at `sweep`."""
    inside = np.clip(distance, 0, sweep)
    rise = inside**2 / (2 * np.where(sweep > 0, sweep, 1))
    return np.asarray(rise + np.maximum(distance - sweep, 0))


def accumulate(
    source: NDArray[np.floating], target: NDArray[np.floating], footprints: Floats, *, transposed: bool
) -> None:
    """Add to `target` the projection of `source`, or its transpose.

    Forward, `target[view] += sum over slices of Y source[slice] X^T`; transposed,
    `target[slice] += sum over views of Y^T source[view] X`.

    footprints: (view, slice, axis, 4).
    """
    n_views, n_slices = footprints.shape[:2]
    pixels, voxels = (source, target) if transposed else (target, source)
    for view in range(n_views):
        for index in range(n_slices):
            rows, columns = (
                weights(
                    footprints[view, index, axis],
                    n_pixels=pixels.shape[1 + axis],
                    n_voxels=voxels.shape[1 + axis],
                )
                for axis in (ROWS, COLUMNS)
            )
            if transposed:
                target[index] += rows.T @ source[view] @ columns
            else:
                target[view] += rows @ source[index] @ columns.T
