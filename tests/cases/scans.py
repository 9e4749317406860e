"""Scans: views over an arc, and single rays."""

from __future__ import annotations

from math import radians

from duotomo.geometry import Acquisition

Point = tuple[float, float, float]


def arc(
    detector_shape: tuple[int, int],
    pixel_mm: float | tuple[float, float],
    *,
    n_views: int = 7,
    degrees: float = 50.0,
    tilt_deg: float = 0.0,
    source_to_detector_mm: float = 660.0,
    pivot_height_mm: float = 0.0,
) -> Acquisition:
    """Return a scan over an arc, the detector turning by `tilt_deg` in all.

    detector_shape, pixel_mm: (v, u); one number for square pixels.
    """
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=radians(degrees),
        detector_tilt_range_rad=radians(tilt_deg),
        source_to_detector_mm=source_to_detector_mm,
        pivot_height_mm=pivot_height_mm,
        detector_shape=detector_shape,
        pixel_spacing_mm=pixel_mm if isinstance(pixel_mm, tuple) else (pixel_mm, pixel_mm),
    )


def one_view(source_mm: Point, center_mm: Point, *, pixel_mm: float = 0.01, n: int = 1) -> Acquisition:
    """Return one view of a flat detector of n x n pixels; by default a single small one, so a ray."""
    return Acquisition(
        source_mm=[source_mm],
        detector_center_mm=[center_mm],
        u_axis=[(1.0, 0.0, 0.0)],
        v_axis=[(0.0, 1.0, 0.0)],
        pixel_spacing_mm=(pixel_mm, pixel_mm),
        detector_shape=(n, n),
    )
