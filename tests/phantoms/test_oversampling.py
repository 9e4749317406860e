"""Phantoms with exact line integrals refuse fewer than one sample, under their own names."""

from __future__ import annotations

import pytest

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms import SheppLogan, Toroid
from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder
from tests.cases.scans import arc

CENTER_MM = (3.0, 21.0, 24.0)
PHANTOMS = (
    Box(center_mm=CENTER_MM, size_mm=(18.0, 23.0, 13.0), value=0.05),
    Ellipsoid(center_mm=CENTER_MM, radii_mm=(9.0, 12.0, 7.0), value=0.05),
    EllipticCylinder(center_mm=CENTER_MM, radii_mm=(9.0, 12.0), height_mm=13.0, value=0.05),
    SheppLogan(center_mm=CENTER_MM, size_mm=30.0),
    Toroid(center_mm=CENTER_MM, major_radius_mm=11.0, minor_radius_mm=5.0, value=0.04),
)


@pytest.mark.parametrize("phantom", PHANTOMS, ids=lambda phantom: type(phantom).__name__)
def test_oversample_below_one_is_refused(phantom: Ellipsoid) -> None:
    grid = VolumeGrid.on_detector((4, 5, 6), (5.0, 5.0, 5.0))
    expected = rf"{type(phantom).__name__}\.{{}}: expected oversample >= 1; got 0"
    with pytest.raises(GeometryError, match=expected.format("voxels")):
        phantom.voxels(grid, oversample=0)
    with pytest.raises(GeometryError, match=expected.format("line_integrals")):
        phantom.line_integrals(arc((8, 9), 4.0), oversample=0)
