"""Laws of the solids: volume, chord length, translation, and the messages of what cannot exist."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms.solids import Box, Ellipsoid, EllipticCylinder
from tests.cases.scans import arc, one_view

Solid = Box | Ellipsoid | EllipticCylinder

ELLIPSOID = Ellipsoid(center_mm=(3.0, 21.0, 24.0), radii_mm=(9.0, 12.0, 7.0), value=0.05)
CYLINDER = EllipticCylinder(center_mm=(3.0, 21.0, 24.0), radii_mm=(9.0, 12.0), height_mm=13.0, value=0.05)
BOX = Box(center_mm=(3.0, 21.0, 24.0), size_mm=(18.0, 23.0, 13.0), value=0.05)
SOLIDS = pytest.mark.parametrize("solid", [ELLIPSOID, CYLINDER, BOX], ids=lambda solid: type(solid).__name__)
GRID = VolumeGrid.on_detector((22, 40, 44), (2.0, 1.0, 1.0), gap_mm=2.0)
SCAN = arc((30, 36), 2.0, n_views=3)


def volume_mm3(solid: Solid) -> float:
    if isinstance(solid, Box):
        return float(np.prod(solid.size_mm))
    if isinstance(solid, Ellipsoid):
        return 4 / 3 * pi * float(np.prod(solid.radii_mm))
    return pi * float(np.prod(solid.radii_mm)) * solid.height_mm


def scan(source_mm: tuple[float, float, float], *, pixel_mm: float = 0.01, n: int = 1) -> Acquisition:
    """One view of a small flat detector at z = 0, under (3, 21)."""
    return one_view(source_mm, (3.0, 21.0, 0.0), pixel_mm=pixel_mm, n=n)


@SOLIDS
def test_integral_over_voxels_is_the_volume(solid: Solid) -> None:
    total = solid.voxels(GRID, oversample=16).sum() * np.prod(GRID.spacing_mm)
    assert total == pytest.approx(volume_mm3(solid) * solid.value, rel=1e-3)


@SOLIDS
def test_voxels_inside_have_the_value_and_outside_none(solid: Solid) -> None:
    voxels = solid.voxels(GRID)
    assert voxels.shape == GRID.shape
    assert voxels.dtype == np.float64
    assert voxels.max() == pytest.approx(solid.value, rel=1e-12)
    assert voxels.min() == 0.0
    assert voxels[0].max() == 0.0


@SOLIDS
def test_shifted_solid_has_shifted_voxels(solid: Solid) -> None:
    dx, dy, dz = GRID.spacing_mm[::-1]
    x, y, z = solid.center_mm
    moved = replace(solid, center_mm=(x - 2 * dx, y + 3 * dy, z + dz))
    expected = np.roll(solid.voxels(GRID), (1, 3, -2), axis=(0, 1, 2))
    np.testing.assert_allclose(moved.voxels(GRID), expected, atol=1e-12)


@SOLIDS
def test_voxels_in_float32_are_the_rounded_ones(solid: Solid) -> None:
    single = solid.voxels(GRID, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, solid.voxels(GRID), rtol=1e-6)


def test_cylinder_fills_its_slabs_by_their_share() -> None:
    profile = CYLINDER.voxels(GRID)[:, 20, 24] / CYLINDER.value
    low, high = 24.0 - 6.5, 24.0 + 6.5
    faces = GRID.low_mm[0] + np.arange(GRID.shape[0] + 1) * GRID.spacing_mm[0]
    np.testing.assert_allclose(profile, np.diff(np.clip(faces, low, high)) / 2.0, atol=1e-12)


@pytest.mark.parametrize(("solid", "chord_mm"), [(ELLIPSOID, 14.0), (CYLINDER, 13.0), (BOX, 13.0)])
def test_ray_along_z_through_the_centre(solid: Solid, chord_mm: float) -> None:
    (integral,) = solid.line_integrals(scan((3.0, 21.0, 660.0)), oversample=1).ravel()
    assert integral == pytest.approx(chord_mm * solid.value, rel=1e-12)


@pytest.mark.parametrize("solid", [CYLINDER, BOX], ids=lambda solid: type(solid).__name__)
def test_leaning_ray_through_two_flat_faces_lengthens_by_its_lean(solid: Solid) -> None:
    source = (3.0 + 100.0, 21.0, 400.0)
    solid = replace(solid, center_mm=(3.0, 21.0, 10.0))
    (integral,) = solid.line_integrals(scan(source), oversample=1).ravel()
    assert integral == pytest.approx(13.0 * np.hypot(100.0, 400.0) / 400.0 * solid.value, rel=1e-12)


@SOLIDS
def test_ray_stops_at_the_detector(solid: Solid) -> None:
    sunk = replace(solid, center_mm=(3.0, 21.0, 0.0))
    risen = replace(solid, center_mm=(3.0, 21.0, 100.0))
    (half,) = sunk.line_integrals(scan((3.0, 21.0, 660.0)), oversample=1).ravel()
    (whole,) = risen.line_integrals(scan((3.0, 21.0, 660.0)), oversample=1).ravel()
    assert half == pytest.approx(whole / 2, rel=1e-12)


@SOLIDS
def test_rays_that_miss_are_exactly_zero(solid: Solid) -> None:
    away = replace(solid, center_mm=(300.0, 21.0, 24.0))
    assert not away.line_integrals(SCAN).any()


@SOLIDS
def test_line_integrals_are_the_midpoint_sums_of_the_indicator(solid: Solid) -> None:
    acquisition = SCAN
    exact = solid.line_integrals(acquisition, oversample=1)
    center = np.asarray(solid.center_mm)
    for view, v, u in [(0, 10, 20), (1, 12, 18), (2, 9, 13)]:
        pixel = (
            acquisition.detector_centers_mm[view]
            + (u - 17.5) * 2.0 * acquisition.u_axes[view]
            + (v - 14.5) * 2.0 * acquisition.v_axes[view]
        )
        ray = pixel - acquisition.sources_mm[view]
        t = (np.arange(200_000) + 0.5) / 200_000
        offset = acquisition.sources_mm[view] + t[:, None] * ray - center
        if isinstance(solid, Box):
            inside = (np.abs(offset) <= np.asarray(solid.size_mm) / 2).all(axis=1)
        else:
            radii = np.asarray(solid.radii_mm)
            inside = (np.square(offset[:, : len(radii)] / radii)).sum(axis=1) <= 1
        if isinstance(solid, EllipticCylinder):
            inside &= np.abs(offset[:, 2]) <= solid.height_mm / 2
        expected = inside.mean() * np.linalg.norm(ray) * solid.value
        assert expected > 0
        assert exact[view, v, u] == pytest.approx(expected, abs=0.02 * solid.value)


@SOLIDS
def test_a_pixel_is_the_mean_of_its_parts(solid: Solid) -> None:
    fine = solid.line_integrals(scan((20.0, 5.0, 660.0), pixel_mm=0.5, n=60), oversample=1)
    coarse = solid.line_integrals(scan((20.0, 5.0, 660.0), pixel_mm=1.0, n=30), oversample=2)
    np.testing.assert_allclose(fine.reshape(1, 30, 2, 30, 2).mean(axis=(2, 4)), coarse, atol=1e-12)


def test_a_detector_turned_half_about_z_reads_backwards() -> None:
    flat = scan((20.0, 5.0, 660.0), pixel_mm=1.0, n=30)
    turned = replace(flat, u_axis=-flat.u_axes, v_axis=-flat.v_axes)
    expected = ELLIPSOID.line_integrals(flat)[:, ::-1, ::-1]
    np.testing.assert_allclose(ELLIPSOID.line_integrals(turned), expected, atol=1e-12)


def test_box_fills_its_voxels_exactly() -> None:
    voxels = BOX.voxels(GRID)
    assert voxels.sum() * np.prod(GRID.spacing_mm) == pytest.approx(volume_mm3(BOX) * BOX.value, rel=1e-13)
    finer = BOX.voxels(GRID.refine((2, 3, 2)))
    means = finer.reshape(22, 2, 40, 3, 44, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(voxels, means, atol=1e-15)


@given(axis=st.integers(0, 2), share=st.floats(0.01, 0.99))
def test_a_cut_box_has_the_integrals_of_the_whole(axis: int, share: float) -> None:
    sizes, centers = np.array([BOX.size_mm, BOX.size_mm]), np.array([BOX.center_mm, BOX.center_mm])
    sizes[:, axis] *= (share, 1 - share)
    centers[:, axis] += (BOX.size_mm[axis] - sizes[:, axis]) * (-0.5, 0.5)
    parts = [
        replace(BOX, size_mm=tuple(size), center_mm=tuple(center))
        for size, center in zip(sizes, centers, strict=True)
    ]
    acquisition = scan((20.0, 5.0, 660.0), pixel_mm=1.5, n=16)
    total = sum(part.line_integrals(acquisition, oversample=1) for part in parts)
    np.testing.assert_allclose(total, BOX.line_integrals(acquisition, oversample=1), atol=1e-12)


def test_ray_within_the_face_that_two_boxes_share_is_counted_once() -> None:
    left, right = (replace(BOX, center_mm=(3.0 + side * 9.0, 21.0, 24.0)) for side in (-1, 1))
    upright = scan((3.0, 21.0, 660.0))
    integrals = [float(box.line_integrals(upright, oversample=1).item()) for box in (left, right)]
    assert integrals == [0.0, pytest.approx(13.0 * BOX.value, rel=1e-12)]


@given(x=st.floats(-15.0, 15.0), y=st.floats(-15.0, 15.0), n=st.integers(1, 4))
def test_upright_ray_crosses_the_cylinder_or_misses_it(x: float, y: float, n: int) -> None:
    # The rows and columns of an even detector meet the upright ray at an offset that is not zero.
    source = np.array([3.0 + x, 21.0 + y, 660.0])
    pixel_mm = 0.1
    offset = (n - 1) / 2 * pixel_mm
    acquisition = replace(
        scan(tuple(source), pixel_mm=pixel_mm, n=n),
        detector_center_mm=[(source[0] + offset, source[1] + offset, 0.0)],
    )
    integral = CYLINDER.line_integrals(acquisition, oversample=1)[0, 0, 0]
    section = (x / 9.0) ** 2 + (y / 12.0) ** 2
    assume(abs(section - 1) > 1e-9)
    assert integral == pytest.approx(13.0 * CYLINDER.value if section < 1 else 0.0, rel=1e-9)


@SOLIDS
def test_finer_voxels_project_closer_to_the_line_integrals(solid: Solid) -> None:
    acquisition = SCAN
    exact = solid.line_integrals(acquisition, oversample=8)
    errors = []
    for factor in (1, 6):
        grid = VolumeGrid.on_detector((14, 14, 14), (3.0, 3.0, 3.0)).refine(factor)
        volume = torch.from_numpy(solid.voxels(grid))
        got = Projector(grid=grid, acquisition=acquisition)(volume).numpy()
        errors.append(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    assert errors[1] < 0.015 < 0.08 < errors[0]


@given(radius=st.floats(1e-3, 1.0), distance=st.floats(100.0, 5000.0))
def test_chord_through_a_small_far_ball_is_its_diameter(radius: float, distance: float) -> None:
    # The source is off-centre in all axes, so that no coordinate of the ray is exact.
    source = np.array([3.0, 21.0, 0.0]) + distance * np.array([0.3, 0.2, np.sqrt(0.87)])
    ball = Ellipsoid(
        center_mm=tuple(np.array([3.0, 21.0, 0.0]) * 0.9 + source * 0.1), radii_mm=(radius,) * 3, value=1.0
    )
    (integral,) = ball.line_integrals(scan(tuple(source)), oversample=1).ravel()
    assert integral == pytest.approx(2 * radius, rel=1e-8)


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_radii_must_be_positive(radius: float) -> None:
    with pytest.raises(
        GeometryError, match=r"Ellipsoid: expected radii_mm \(x, y, z\) > 0; got .*Give lengths"
    ):
        replace(ELLIPSOID, radii_mm=(9.0, radius, 7.0))
    with pytest.raises(GeometryError, match=r"EllipticCylinder: expected radii_mm \(x, y\) > 0; got"):
        replace(CYLINDER, radii_mm=(radius, 12.0))
    with pytest.raises(GeometryError, match=r"EllipticCylinder: expected height_mm > 0; got"):
        replace(CYLINDER, height_mm=radius)
    with pytest.raises(GeometryError, match=r"Box: expected size_mm \(x, y, z\) > 0; got .*Give lengths"):
        replace(BOX, size_mm=(9.0, radius, 7.0))
