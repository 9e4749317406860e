"""Laws of the toroid: volume, translation, turning, and the messages of what cannot exist."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Ellipsoid, Toroid

GRID = VolumeGrid.on_detector((32, 40, 40), (1.0, 1.0, 1.0), gap_mm=2.0)
RING = Toroid(center_mm=(0.0, 20.0, 18.0), major_radius_mm=11.0, minor_radius_mm=5.0, value=0.04)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


@pytest.mark.parametrize("modulation", [0.0, 0.5])
def test_integral_over_voxels_is_the_volume_of_a_torus(modulation: float) -> None:
    # The modulation has no mean around the ring.
    total = replace(RING, modulation=modulation).voxels(GRID, oversample=4).sum()
    assert total == pytest.approx(RING.value * 2 * pi**2 * 11.0 * 5.0**2, rel=2e-3)


def test_shifted_toroid_has_shifted_voxels() -> None:
    moved = replace(RING, center_mm=(2.0, 17.0, 19.0))
    expected = np.roll(RING.voxels(GRID), (1, -3, 2), axis=(0, 1, 2))
    np.testing.assert_allclose(moved.voxels(GRID), expected, atol=1e-12)


def test_even_ring_does_not_change_when_turned_about_its_axis() -> None:
    even = replace(RING, modulation=0.0).voxels(GRID)
    np.testing.assert_allclose(np.rot90(even, axes=(1, 2)), even, atol=1e-12)


def test_modulated_ring_changes_when_turned_or_turned_over() -> None:
    volume = RING.voxels(GRID)
    for quarters in (1, 2, 3):
        assert difference(np.rot90(volume, quarters, axes=(1, 2)), volume) > 0.2
    # Half a turn about an axis in the ring's plane is a mirror in z and one in the plane: about x, about y,
    # and about the two lines between them.
    upside_down = volume[::-1]
    in_plane = volume.transpose(0, 2, 1)
    for turned in (upside_down[:, ::-1], upside_down[:, :, ::-1], in_plane[::-1], in_plane[::-1, ::-1, ::-1]):
        assert difference(turned, volume) > 0.2


def test_brightness_stays_within_the_modulation() -> None:
    volume = replace(RING, modulation=0.5).voxels(GRID, oversample=1)
    inside = volume[volume > 0]
    assert inside.min() >= 0.5 * RING.value - 1e-12
    assert inside.max() <= 1.5 * RING.value + 1e-12
    assert np.ptp(inside) > 0.9 * RING.value


def test_body_is_added() -> None:
    body = Ellipsoid(center_mm=RING.center_mm, radii_mm=(18.0, 18.0, 12.0), value=0.046)
    both = replace(RING, body=body).voxels(GRID)
    np.testing.assert_allclose(both, RING.voxels(GRID) + body.voxels(GRID, oversample=2), atol=1e-15)


def test_voxels_have_the_dtype_asked_for() -> None:
    assert RING.voxels(GRID, dtype=np.float32).dtype == np.float32


def test_coarse_voxels_are_means_of_fine_ones() -> None:
    fine = RING.voxels(GRID.refine(2), oversample=1)
    means = fine.reshape(32, 2, 40, 2, 40, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(RING.voxels(GRID, oversample=2), means, atol=1e-12)


@pytest.mark.parametrize(("minor_mm", "major_mm"), [(0.0, 5.0), (6.0, 5.0), (float("nan"), 5.0)])
def test_radii_that_make_no_ring_are_refused(minor_mm: float, major_mm: float) -> None:
    with pytest.raises(GeometryError, match="Toroid: expected 0 < minor_radius_mm < major_radius_mm"):
        replace(RING, minor_radius_mm=minor_mm, major_radius_mm=major_mm)


@pytest.mark.parametrize("modulation", [-0.1, 1.0])
def test_modulation_that_turns_negative_is_refused(modulation: float) -> None:
    with pytest.raises(GeometryError, match="Toroid: expected 0 <= modulation < 1"):
        replace(RING, modulation=modulation)


def test_oversample_below_one_is_refused() -> None:
    with pytest.raises(GeometryError, match=r"Toroid\.voxels: expected oversample >= 1; got 0"):
        RING.voxels(GRID, oversample=0)
