"""Hypothesis strategies for small random grids and scans: at most 7 voxels or pixels along an axis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from duotomo.geometry import Acquisition, VolumeGrid, pixel_to_world

MOST = 7
NARROWEST_SOURCE_MM = 150


def sixteenths(low: float, high: float) -> st.SearchStrategy[float]:
    """Draw multiples of 1/16: exact in binary, short when a failing case is printed."""
    return st.integers(round(low * 16), round(high * 16)).map(lambda n: n / 16)


def counts() -> st.SearchStrategy[int]:
    return st.integers(1, MOST)


@st.composite
def grids(draw: st.DrawFn) -> VolumeGrid:
    """Draw a grid above z = 0: anisotropic voxels, often one voxel thin, anywhere near the middle."""
    shape = draw(st.tuples(counts(), counts(), counts()))
    spacing_mm = draw(st.tuples(*[sixteenths(0.25, 4)] * 3))
    low_z_mm = draw(sixteenths(0, 20))
    y_mm, x_mm = draw(st.tuples(sixteenths(-5, 20), sixteenths(-10, 10)))
    return VolumeGrid(
        shape=shape, spacing_mm=spacing_mm, center_mm=(low_z_mm + shape[0] * spacing_mm[0] / 2, y_mm, x_mm)
    )


@st.composite
def acquisitions(draw: st.DrawFn, *, tilting: bool | None = None) -> Acquisition:
    """Draw a scan with 1 to 5 views: static or tilting detector, a whole sweep or some views of one.

    tilting: True or False to have only such detectors.
    """
    tilts = draw(st.booleans()) if tilting is None else tilting
    sweep = Acquisition.arc(
        n_views=draw(st.integers(1, 5)),
        angle_range_rad=draw(sixteenths(0, 1)),
        detector_tilt_range_rad=draw(sixteenths(0.0625, 0.25)) if tilts else 0.0,
        source_to_detector_mm=draw(sixteenths(NARROWEST_SOURCE_MM, 700)),
        pivot_height_mm=draw(sixteenths(0, 50)),
        detector_shape=draw(st.tuples(counts(), counts())),
        pixel_spacing_mm=draw(st.tuples(sixteenths(0.25, 4), sixteenths(0.25, 4))),
        source_y_mm=draw(sixteenths(-5, 20)),
    )
    return sweep[draw(st.lists(st.integers(0, len(sweep) - 1), min_size=1, unique=True).map(sorted))]


@st.composite
def scans(draw: st.DrawFn, *, tilting: bool | None = None) -> tuple[VolumeGrid, Acquisition]:
    """Draw a grid and a scan that see each other: at least one pixel's central ray passes through the grid.

    The grid lies between the detector and the source in every view; its shadow may reach over the detector's
    edges (truncated views), or miss the detector in other views.
    """
    acquisition = draw(acquisitions(tilting=tilting))
    shape = draw(st.tuples(counts(), counts(), counts()))
    spacing_mm = draw(st.tuples(*[sixteenths(0.25, 4)] * 3))
    size_mm = np.multiply(shape, spacing_mm)
    n_v, n_u = acquisition.detector_shape
    corners_mm = pixel_to_world(acquisition, [(v, u) for v in (-0.5, n_v - 0.5) for u in (-0.5, n_u - 0.5)])
    center_z_mm = max(float(corners_mm[..., 2].max()), 0.0) + draw(sixteenths(0, 20)) + size_mm[0] / 2
    view = draw(st.integers(0, len(acquisition) - 1))
    pixel = draw(st.tuples(st.integers(0, n_v - 1), st.integers(0, n_u - 1)))
    pixel_mm = pixel_to_world(acquisition, pixel)[view]
    source_mm = acquisition.sources_mm[view]
    on_ray_mm = pixel_mm + (source_mm - pixel_mm) * (center_z_mm - pixel_mm[2]) / (source_mm[2] - pixel_mm[2])
    off_y, off_x = draw(st.tuples(sixteenths(-0.4375, 0.4375), sixteenths(-0.4375, 0.4375)))
    grid = VolumeGrid(
        shape=shape,
        spacing_mm=spacing_mm,
        center_mm=(center_z_mm, on_ray_mm[1] + off_y * size_mm[1], on_ray_mm[0] + off_x * size_mm[2]),
    )
    acquisition.check_above(grid)
    return grid, acquisition


@st.composite
def grid_pairs(draw: st.DrawFn) -> tuple[VolumeGrid, VolumeGrid]:
    """Draw a reference grid, and a moving grid of other voxels whose middle lies in the reference's box."""
    reference = draw(grids())
    shape = draw(st.tuples(counts(), counts(), counts()))
    spacing_mm = draw(st.tuples(*[sixteenths(0.25, 4)] * 3))
    along = draw(st.tuples(*[sixteenths(-0.4375, 0.4375)] * 3))
    z_mm, y_mm, x_mm = np.array(reference.center_mm) + np.multiply(along, reference.size_mm)
    return reference, VolumeGrid(shape=shape, spacing_mm=spacing_mm, center_mm=(z_mm, y_mm, x_mm))
