"""Conversion between indices and the machine frame: the one place that knows how they relate.

An integer index is the centre of a voxel or pixel; index -0.5 is the outer edge of the first one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.errors import ShapeError
from duotomo.geometry.acquisition import Acquisition
from duotomo.geometry.grid import VolumeGrid

Floats = NDArray[np.float64]


def voxel_to_world(grid: VolumeGrid, index_zyx: ArrayLike) -> Floats:
    """Return the points of voxel indices: `low_mm + (index + 1/2) * spacing_mm`, turned to xyz.

    Parameters
    ----------
    grid : VolumeGrid
        The voxels.
    index_zyx : array_like
        (..., zyx), fractions allowed.

    Returns
    -------
    numpy.ndarray
        (..., xyz), in mm, float64.

    Raises
    ------
    ShapeError
        If `index_zyx` has not three coordinates on its last axis.

    Examples
    --------
    >>> voxel_to_world(VolumeGrid.on_detector((2, 4, 6), (1, 1, 1)), (0, 0, 0)).tolist()
    [-2.5, 0.5, 0.5]
    """
    index = _last_axis("voxel_to_world", "index_zyx", index_zyx, 3)
    middle = (np.array(grid.shape) - 1) / 2
    zyx_mm: Floats = grid.center_mm + (index - middle) * grid.spacing_mm
    return zyx_mm[..., ::-1]


def voxel_centers_mm(grid: VolumeGrid) -> Floats:
    """Return the centres of all voxels, (z, y, x, xyz), in mm.

    >>> voxel_centers_mm(VolumeGrid.on_detector((2, 4, 6), (1, 1, 1)))[0, 3, 5].tolist()
    [2.5, 3.5, 0.5]
    """
    return np.ascontiguousarray(voxel_to_world(grid, np.moveaxis(np.indices(grid.shape), 0, -1)))


def voxel_matrix(grid: VolumeGrid) -> Floats:
    """Return `voxel_to_world` as a matrix, (4, 4): from an index (z, y, x, 1) to (x, y, z, 1) in mm."""
    spacing, center = np.array(grid.spacing_mm), np.array(grid.center_mm)
    matrix = np.zeros((4, 4))
    # World coordinates are in the order x, y, z; indices in the order z, y, x.
    matrix[[2, 1, 0], [0, 1, 2]] = spacing
    matrix[[2, 1, 0], 3] = center - (np.array(grid.shape) - 1) / 2 * spacing
    matrix[3, 3] = 1
    return matrix


def world_to_voxel(grid: VolumeGrid, xyz_mm: ArrayLike) -> Floats:
    """Return the fractional voxel indices of points: `(zyx - low_mm) / spacing_mm - 1/2`.

    Parameters
    ----------
    grid
        As for `voxel_to_world`.
    xyz_mm : array_like
        Points, (..., xyz), in mm.

    Returns
    -------
    numpy.ndarray
        (..., zyx), float64.

    Raises
    ------
    ShapeError
        If `xyz_mm` has not three coordinates on its last axis.

    Examples
    --------
    >>> world_to_voxel(VolumeGrid.on_detector((2, 4, 6), (1, 1, 1)), (-2.5, 0.5, 0.5)).tolist()
    [0.0, 0.0, 0.0]
    """
    points_mm = _last_axis("world_to_voxel", "xyz_mm", xyz_mm, 3)
    middle = (np.array(grid.shape) - 1) / 2
    index: Floats = (points_mm[..., ::-1] - grid.center_mm) / grid.spacing_mm + middle
    return index


def pixel_to_world(acquisition: Acquisition, index_vu: ArrayLike) -> Floats:
    """Return the points of pixel indices in every view.

    `c + (v - (n_v - 1)/2) d_v v_axis + (u - (n_u - 1)/2) d_u u_axis`, with c the detector's centre.

    Parameters
    ----------
    acquisition : Acquisition
        The scan.
    index_vu : array_like
        Of pixels, (..., vu); a fraction lies between their centres.

    Returns
    -------
    numpy.ndarray
        (view, ..., xyz), in mm, float64.

    Raises
    ------
    ShapeError
        If `index_vu` has not two coordinates on its last axis.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> pixel_to_world(paper(), (0, 0)).shape
    (11, 3)
    """
    index = _last_axis("pixel_to_world", "index_vu", index_vu, 2)
    middle = (np.array(acquisition.detector_shape) - 1) / 2
    offset_mm = (index - middle) * acquisition.pixel_spacing_mm
    in_plane_mm: Floats = np.einsum("...c,cvk->v...k", offset_mm, _in_plane_axes(acquisition))
    return in_plane_mm + _per_view(acquisition.detector_centers_mm, index.ndim - 1)


def world_to_pixel(acquisition: Acquisition, xyz_mm: ArrayLike) -> Floats:
    """Return where the ray from the source through each point meets the detector, in every view.

    `hit = s + (p - s) ((c - s) . n) / ((p - s) . n)`, with source s, detector centre c and normal n.

    Parameters
    ----------
    acquisition
        As for `pixel_to_world`.
    xyz_mm : array_like
        Points p, (..., xyz), in mm.

    Returns
    -------
    numpy.ndarray
        (view, ..., vu), fractional pixel indices, inside the detector or not, float64; NaN for a point that
        is not on the detector's side of the source.

    Raises
    ------
    ShapeError
        Unless the points have three coordinates each.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> world_to_pixel(paper()[5], (0.0, 0.5, 0.0)).tolist()
    [[0.0, 63.5]]
    """
    points_mm = _last_axis("world_to_pixel", "xyz_mm", xyz_mm, 3)
    n_axes = points_mm.ndim - 1
    source_mm = _per_view(acquisition.sources_mm, n_axes)
    center_mm = _per_view(acquisition.detector_centers_mm, n_axes)
    normal = _per_view(acquisition.normals, n_axes)
    ray_mm = points_mm - source_mm
    # The normals look towards the source, so a point that is projected lies at negative depth.
    depth_mm = np.sum(ray_mm * normal, axis=-1, keepdims=True)
    depth_mm = np.where(depth_mm < 0, depth_mm, np.nan)
    scale = np.sum((center_mm - source_mm) * normal, axis=-1, keepdims=True) / depth_mm
    from_center_mm = source_mm + scale * ray_mm - center_mm
    offset_mm = np.einsum("v...k,cvk->v...c", from_center_mm, _in_plane_axes(acquisition))
    middle = (np.array(acquisition.detector_shape) - 1) / 2
    index: Floats = offset_mm / acquisition.pixel_spacing_mm + middle
    return index


def _in_plane_axes(acquisition: Acquisition) -> Floats:
    return np.stack([acquisition.v_axes, acquisition.u_axes])


def _per_view(vectors: Floats, n_axes: int) -> Floats:
    return vectors.reshape(len(vectors), *(1,) * n_axes, 3)


def _last_axis(where: str, name: str, values: ArrayLike, n: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != n:
        raise ShapeError(
            f"{where}: expected {name} with a last axis of length {n}; got shape {array.shape}. "
            f"Put the coordinates on the last axis."
        )
    return array
