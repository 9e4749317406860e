"""Laws of the Shepp-Logan phantom: tissues, mass, shift, scale, line integrals, and what cannot exist."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms import SheppLogan
from tests.cases.scans import arc, one_view

GRID = VolumeGrid.on_detector((32, 40, 40), (1.0, 1.0, 1.0), gap_mm=2.0)
HEAD = SheppLogan(center_mm=(0.0, 20.0, 18.0), size_mm=30.0)
SCAN = arc((24, 24), 2.0, n_views=3)


def at(head: SheppLogan, x: float, y: float, z: float) -> float:
    """Return the attenuation at a point, in half edges of the cube from its middle."""
    half = head.size_mm / 2
    center = tuple(c + half * d for c, d in zip(head.center_mm[::-1], (z, y, x), strict=True))
    point = VolumeGrid(shape=(1, 1, 1), spacing_mm=(1e-6, 1e-6, 1e-6), center_mm=center)
    return float(head.voxels(point, oversample=1)[0, 0, 0])


@pytest.mark.parametrize(
    ("tissue", "x", "y", "z", "share"),
    [
        ("skull", 0.0, 0.91, 0.0, 1.0),
        ("skull", 0.68, 0.0, 0.0, 1.0),
        ("skull", 0.0, 0.0, 0.80, 1.0),
        ("air", 0.7, 0.0, 0.0, 0.0),
        ("brain", 0.0, -0.4, 0.0, 0.2),
        ("right ventricle", 0.22, 0.0, 0.0, 0.0),
        ("left ventricle", -0.22, 0.0, 0.0, 0.0),
        # Turned by +18 degrees, the left ventricle's upper end leans to the left.
        ("left ventricle, upper end", -0.22 - 0.38 * np.sin(pi / 10), 0.38 * np.cos(pi / 10), 0.0, 0.0),
        ("beside its upper end", -0.22 + 0.38 * np.sin(pi / 10), 0.38 * np.cos(pi / 10), 0.0, 0.3),
        ("upper tumour", 0.0, 0.45, -0.15, 0.3),
        ("upper small tumour", 0.0, 0.1, 0.25, 0.3),
        ("lower right tumour", 0.06, -0.605, 0.0, 0.3),
    ],
)
def test_tissue_at_known_points(tissue: str, x: float, y: float, z: float, share: float) -> None:
    assert at(HEAD, x, y, z) == pytest.approx(share * HEAD.value, abs=1e-15), tissue


def test_mass_is_that_of_ten_ellipsoids() -> None:
    volumes = [
        (1.0, 0.69 * 0.92 * 0.81),
        (-0.8, 0.6624 * 0.874 * 0.78),
        (-0.2, 0.11 * 0.31 * 0.22),
        (-0.2, 0.16 * 0.41 * 0.28),
        (0.1, 0.21 * 0.25 * 0.41 + 2 * 0.046**2 * 0.05 + 0.046 * 0.023 * 0.05),
        (0.1, 0.023**2 * 0.02 + 0.023 * 0.046 * 0.02),
    ]
    expected = HEAD.value * 15.0**3 * 4 / 3 * pi * sum(a * v for a, v in volumes)
    assert HEAD.voxels(GRID, oversample=4).sum() == pytest.approx(expected, rel=5e-3)


@given(oversample=st.integers(1, 3), x=st.floats(-2, 2), y=st.floats(18, 22), z=st.floats(16, 20))
def test_voxels_lie_between_nothing_and_the_skull(oversample: int, x: float, y: float, z: float) -> None:
    grid = GRID.coarsen(2)
    volume = replace(HEAD, center_mm=(x, y, z)).voxels(grid, oversample=oversample)
    assert volume.min() >= 0
    assert 0.5 * HEAD.value < volume.max() <= HEAD.value * (1 + 1e-12)


def test_shifted_head_has_shifted_voxels() -> None:
    moved = replace(HEAD, center_mm=(2.0, 17.0, 19.0))
    expected = np.roll(HEAD.voxels(GRID), (1, -3, 2), axis=(0, 1, 2))
    np.testing.assert_allclose(moved.voxels(GRID), expected, atol=1e-12)


def test_head_twice_as_large_on_voxels_twice_as_large_is_the_same() -> None:
    z, y, x = GRID.center_mm
    grid = VolumeGrid(shape=GRID.shape, spacing_mm=(2.0, 2.0, 2.0), center_mm=(2 * z, 2 * y, 2 * x))
    large = replace(HEAD, center_mm=(0.0, 40.0, 36.0), size_mm=60.0)
    np.testing.assert_allclose(large.voxels(grid), HEAD.voxels(GRID), atol=1e-12)


def test_coarse_voxels_are_means_of_fine_ones() -> None:
    fine = HEAD.voxels(GRID.refine(2), oversample=1)
    means = fine.reshape(32, 2, 40, 2, 40, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(HEAD.voxels(GRID, oversample=2), means, atol=1e-12)


def test_voxels_have_the_dtype_asked_for_and_scale_with_the_value() -> None:
    double = replace(HEAD, value=0.1).voxels(GRID, dtype=np.float32)
    assert double.dtype == np.float32
    np.testing.assert_allclose(double, 2 * HEAD.voxels(GRID), rtol=1e-6)


def test_upright_ray_through_the_middle_meets_skull_and_brain() -> None:
    flat = one_view((0.0, 20.0, 660.0), (0.0, 20.0, 0.0))
    brain = 0.78 * sqrt(1 - (0.0184 / 0.874) ** 2)
    expected = HEAD.value * 30.0 * (0.81 - 0.8 * brain)
    assert HEAD.line_integrals(flat, oversample=1).item() == pytest.approx(expected, rel=1e-12)


def test_finer_voxels_project_closer_to_the_line_integrals() -> None:
    exact = HEAD.line_integrals(SCAN)
    errors = []
    for factor in (1, 4):
        grid = VolumeGrid.on_detector((18, 20, 20), (2.0, 2.0, 2.0)).refine(factor)
        volume = torch.from_numpy(HEAD.voxels(grid, oversample=4))
        got = Projector(grid=grid, acquisition=SCAN)(volume).numpy()
        errors.append(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    assert errors[1] < 0.25 * errors[0]
    assert errors[1] < 0.02


@given(x=st.floats(-6, 6), y=st.floats(8, 40), z=st.floats(0, 40), size_mm=st.floats(1, 60))
def test_line_integrals_lie_between_nothing_and_skull_throughout(
    x: float, y: float, z: float, size_mm: float
) -> None:
    head = replace(HEAD, center_mm=(x, y, z), size_mm=size_mm)
    integrals = head.line_integrals(arc((6, 6), 8.0, n_views=3), oversample=1)
    assert integrals.min() >= 0
    assert integrals.max() <= head.value * size_mm


def test_head_and_scan_twice_as_large_have_integrals_twice_as_large() -> None:
    scan = arc((16, 16), 3.0, n_views=3)
    large = replace(
        scan,
        source_mm=2 * scan.sources_mm,
        detector_center_mm=2 * scan.detector_centers_mm,
        pixel_spacing_mm=(6.0, 6.0),
    )
    head = replace(HEAD, center_mm=(0.0, 40.0, 36.0), size_mm=60.0)
    np.testing.assert_allclose(head.line_integrals(large), 2 * HEAD.line_integrals(scan), atol=1e-12)


@pytest.mark.parametrize("size_mm", [0.0, -1.0, float("nan"), float("inf")])
def test_cube_without_size_is_refused(size_mm: float) -> None:
    with pytest.raises(GeometryError, match="SheppLogan: expected size_mm > 0; got"):
        replace(HEAD, size_mm=size_mm)


@pytest.mark.parametrize("value", [-0.01, float("nan")])
def test_negative_attenuation_is_refused(value: float) -> None:
    with pytest.raises(GeometryError, match="SheppLogan: expected value >= 0 and finite; got"):
        replace(HEAD, value=value)
