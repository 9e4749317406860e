"""The part of space that a scan sees, and the grid that covers it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry._values import lengths_mm
from duotomo.geometry.acquisition import Acquisition
from duotomo.geometry.grid import VolumeGrid

SEEN_BY = 0.5
"""A place counts as seen if at least this share of the views sees it."""

Box = tuple[tuple[float, float], tuple[float, float]]


def seen_box_mm(acquisition: Acquisition, height_mm: float, *, share: float = SEEN_BY) -> Box:
    """Return the rectangle ((y low, y high), (x low, x high)) of the plane z that enough of the views see.

    In each view the detector is projected from the source onto the plane, `x = s_x + (c_x - s_x) (s_z - z) /
    (s_z - c_z)` for a corner c, and likewise y; of the views' intervals, those points are kept that lie in at
    least `share` of them. A tilted detector is taken by the rectangle inside its projection.

    >>> from duotomo.geometry import paper
    >>> (y_low, y_high), (x_low, x_high) = seen_box_mm(paper(), 0.0)
    >>> (y_low, y_high), (x_low, x_high)
    ((0.0, 128.0), (-64.0, 64.0))
    """
    rectangles = _rectangles_mm(acquisition, height_mm)
    needed = max(1, math.ceil(share * acquisition.n_views))
    y, x = (_shared(rectangles[:, axis], needed) for axis in range(2))
    if y is None or x is None:
        raise GeometryError(
            f"seen_box_mm: expected a part of the plane z = {height_mm:g} mm that {needed} of "
            f"{acquisition.n_views} views see; got none. Check the sources, the detector and the units."
        )
    return y, x


def grid_in_view(
    acquisition: Acquisition,
    *,
    thickness_mm: float,
    gap_mm: float = 0.0,
    spacing_mm: tuple[float, float, float],
    share: float = SEEN_BY,
) -> VolumeGrid:
    """Return the grid over what enough of the views see of a breast.

    Along z it holds `thickness_mm`; in the plane, what is seen half way up. Voxels are whole: along y and x
    those that fit, along z those that are needed.

    Parameters
    ----------
    acquisition : Acquisition
        The scan.
    thickness_mm : float
        Of the breast.
    gap_mm : float
        From the detector to the breast.
    spacing_mm : tuple of float
        Edges of a voxel, (z, y, x).
    share : float
        Of the views that have to see a place, 0 to 1.

    Returns
    -------
    VolumeGrid
        From the chest wall on.

    Raises
    ------
    GeometryError
        If the breast is not below the sources, or less than a voxel is seen.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> grid = grid_in_view(paper(), thickness_mm=50.0, gap_mm=10.0, spacing_mm=(1.0, 0.5, 0.5))
    >>> grid.shape[0], grid.low_mm[0], grid.high_mm[0]
    (50, 10.0, 60.0)
    """
    where = "grid_in_view"
    d_z, d_y, d_x = lengths_mm(where, "spacing_mm", spacing_mm, ("z", "y", "x"), positive=True)
    if not (0 < thickness_mm < math.inf and 0 <= gap_mm < math.inf):
        raise GeometryError(
            f"{where}: expected a thickness above 0 and a gap of 0 or more, in mm; got {thickness_mm} and "
            f"{gap_mm}. Measure both from the detector up."
        )
    middle_mm, top_mm = gap_mm + thickness_mm / 2, gap_mm + thickness_mm
    lowest_mm = float(acquisition.sources_mm[:, 2].min())
    if top_mm >= lowest_mm:
        raise GeometryError(
            f"{where}: expected the top of the breast below the source, at z = {lowest_mm:g} mm; got z = "
            f"{top_mm:g} mm. Check the thickness and the gap."
        )
    (y_low, y_high), (x_low, x_high) = seen_box_mm(acquisition, middle_mm, share=share)
    # A rounding error must not cost a voxel.
    n_y, n_x = int((y_high - y_low) / d_y + 1e-6), int((x_high - x_low) / d_x + 1e-6)
    if n_y < 1 or n_x < 1:
        raise GeometryError(
            f"{where}: expected voxels smaller than what is seen, {y_high - y_low:g} x {x_high - x_low:g} mm "
            f"(y, x); got {d_y:g} x {d_x:g} mm. Choose smaller voxels."
        )
    n_z = math.ceil(thickness_mm / d_z - 1e-6)
    # The chest wall is where the breast is: what does not fill a voxel is left out at the far side.
    return VolumeGrid(
        shape=(n_z, n_y, n_x),
        spacing_mm=(d_z, d_y, d_x),
        center_mm=(gap_mm + n_z * d_z / 2, y_low + n_y * d_y / 2, (x_low + x_high) / 2),
    )


def _rectangles_mm(acquisition: Acquisition, height_mm: float) -> NDArray[np.float64]:
    """Return, for each view and for y and x, the interval that the detector's corners cut from a plane.

    (view, 2, 2): y then x, low then high; of the two corners on a side, the inner one.
    """
    d_v, d_u = acquisition.pixel_spacing_mm
    n_v, n_u = acquisition.detector_shape
    half_v, half_u = acquisition.v_axes * n_v * d_v / 2, acquisition.u_axes * n_u * d_u / 2
    sources, centers = acquisition.sources_mm, acquisition.detector_centers_mm
    corners = np.stack([centers + a * half_v + b * half_u for a in (-1, 1) for b in (-1, 1)], axis=1)
    share = (sources[:, None, 2] - height_mm) / (sources[:, None, 2] - corners[..., 2])
    places = sources[:, None, :2] + (corners[..., :2] - sources[:, None, :2]) * share[..., None]
    # Of four sorted coordinates of a rectangle's corners, the two in the middle bound what lies inside.
    ordered = np.sort(places, axis=1)
    return np.stack([ordered[:, 1, ::-1], ordered[:, 2, ::-1]], axis=-1)


def _shared(intervals: NDArray[np.float64], needed: int) -> tuple[float, float] | None:
    """Return from the lowest to the highest point that lies in at least `needed` intervals (n, 2)."""
    edges = np.unique(intervals)
    inside = [int(np.sum((intervals[:, 0] <= edge) & (edge <= intervals[:, 1]))) for edge in edges]
    kept = [float(edge) for edge, n in zip(edges, inside, strict=True) if n >= needed]
    return (kept[0], kept[-1]) if len(kept) > 1 else None
