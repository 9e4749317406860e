"""The scan that a machine would take over another range of angles, or with another number of views."""

from __future__ import annotations

import math

import numpy as np

from duotomo.errors import GeometryError
from duotomo.geometry._values import counts
from duotomo.geometry._views import Floats
from duotomo.geometry.acquisition import Acquisition


def range_rad(acquisition: Acquisition) -> float:
    """Return the angle from the first to the last place of the tube, seen from the middle of the detector.

    >>> from duotomo.geometry import paper
    >>> round(math.degrees(range_rad(paper())), 6)
    50.0
    """
    return float(np.ptp(acquisition.angles_rad))


def resweep(acquisition: Acquisition, *, factor: float = 1.0, n_views: int | None = None) -> Acquisition:
    """Return the scan over `factor` times the range of angles, with `n_views` views.

    The angle of the tube is scaled about the middle of its range, `t' = m + factor (t - m)`, at the same
    distance from the middle of the detector; what the detector moves and turns is scaled alike, about its
    mean. Other numbers of views are interpolated between the views, in the order of their angles.

    factor: above 0; 1 leaves the range as it is. n_views: that of the scan unless given.

    >>> from duotomo.geometry import paper
    >>> narrow = resweep(paper(), factor=0.5, n_views=5)
    >>> narrow.n_views, round(math.degrees(range_rad(narrow)), 6)
    (5, 25.0)
    """
    where = "resweep"
    if not 0 < factor < math.inf:
        raise GeometryError(f"{where}: expected a factor above 0; got {factor}. 2 doubles the range.")
    (n,) = counts(where, "n_views", (n_views or acquisition.n_views,), ("view",))
    if factor == 1 and n == acquisition.n_views:
        return acquisition
    angles, centers = acquisition.angles_rad, acquisition.detector_centers_mm
    order, middle = np.argsort(angles, kind="stable"), centers.mean(axis=0)
    from_middle = acquisition.sources_mm - middle
    turned = (angles.min() + angles.max()) / 2 * (1 - factor) + factor * angles
    if np.abs(turned).max() >= math.pi / 2:
        raise GeometryError(
            f"{where}: expected the tube above the detector; got an angle of "
            f"{math.degrees(np.abs(turned).max()):.4g} degrees. Choose a smaller factor."
        )
    along = np.linspace(0, acquisition.n_views - 1, n)
    angle, radius, y = (
        np.interp(along, np.arange(acquisition.n_views), values[order])
        for values in (turned, np.hypot(from_middle[:, 0], from_middle[:, 2]), from_middle[:, 1])
    )
    u, v = (_scaled(axes[order], factor, along) for axes in (acquisition.u_axes, acquisition.v_axes))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    # Scaled axes need not be at right angles any more.
    v -= np.sum(u * v, axis=1, keepdims=True) * u
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return Acquisition(
        source_mm=middle + np.stack([radius * np.sin(angle), y, radius * np.cos(angle)], axis=1),
        detector_center_mm=_scaled(centers[order], factor, along),
        u_axis=u,
        v_axis=v,
        pixel_spacing_mm=acquisition.pixel_spacing_mm,
        detector_shape=acquisition.detector_shape,
    )


def _scaled(rows: Floats, factor: float, along: Floats) -> Floats:
    """Return rows (view, xyz), scaled about their mean, at places between them."""
    mean = rows.mean(axis=0)
    scaled = mean + factor * (rows - mean)
    return np.stack([np.interp(along, np.arange(len(rows)), column) for column in scaled.T], axis=1)
