"""Laws of the toroid: volume, translation, turning, chords, and the messages of what cannot exist."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid, Toroid
from duotomo.phantoms.solids import Box
from duotomo.phantoms.toroid import ring_chords
from tests.cases.scans import arc, one_view

GRID = VolumeGrid.on_detector((32, 40, 40), (1.0, 1.0, 1.0), gap_mm=2.0)
RING = Toroid(center_mm=(0.0, 20.0, 18.0), major_radius_mm=11.0, minor_radius_mm=5.0, value=0.04)
SCAN = arc((24, 28), 2.0, n_views=3)


def turned(acquisition: Acquisition, quarters: int) -> Acquisition:
    """Return the scan turned about the ring's axis."""
    turn = np.linalg.matrix_power(np.array([(0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)]), quarters)
    center = np.asarray(RING.center_mm)
    return replace(
        acquisition,
        source_mm=(acquisition.sources_mm - center) @ turn.T + center,
        detector_center_mm=(acquisition.detector_centers_mm - center) @ turn.T + center,
        u_axis=acquisition.u_axes @ turn.T,
        v_axis=acquisition.v_axes @ turn.T,
    )


def integral(ring: Toroid, acquisition: Acquisition) -> float:
    return float(ring.line_integrals(acquisition, oversample=1).item())


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


@given(off_ring_mm=st.floats(-4.999, 4.999), phi=st.floats(-pi, pi), modulation=st.sampled_from([0.0, 0.6]))
def test_upright_ray_through_the_tube(off_ring_mm: float, phi: float, modulation: float) -> None:
    # Along it the brightness is constant.
    x, y = (11.0 + off_ring_mm) * np.cos(phi), 20.0 + (11.0 + off_ring_mm) * np.sin(phi)
    got = integral(replace(RING, modulation=modulation), one_view((x, y, 600.0), (x, y, 0.0)))
    chord_mm = 2 * np.sqrt(25.0 - off_ring_mm**2)
    brightness = 1 + modulation * (np.cos(phi) + np.sin(2 * phi) / 2) / (3 * np.sqrt(3) / 4)
    assert got == pytest.approx(chord_mm * RING.value * brightness, rel=1e-9)


def test_upright_rays_through_the_hole_and_beside_the_ring_meet_nothing() -> None:
    for x, y in ((0.0, 20.0), (5.9, 20.0), (0.0, 36.1), (-16.1, 20.0)):
        assert integral(RING, one_view((x, y, 600.0), (x, y, 0.0))) == 0.0


def test_ray_stops_at_the_detector_and_starts_at_the_source() -> None:
    whole = integral(RING, one_view((11.0, 20.0, 600.0), (11.0, 20.0, 0.0)))
    for source_z, pixel_z in ((600.0, 18.0), (18.0, 0.0)):
        half = integral(RING, one_view((11.0, 20.0, source_z), (11.0, 20.0, pixel_z)))
        assert half == pytest.approx(whole / 2, rel=1e-12)


lines = st.tuples(*[st.floats(-1.2, 1.2)] * 3, *[st.floats(-1.0, 1.0)] * 3).filter(
    lambda line: np.linalg.norm(line[3:]) > 0.1
)


def nearest_and_along(line: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    along = np.array(line[3:])[:, None] / np.linalg.norm(line[3:])
    point = np.array(line[:3])[:, None]
    return point - along * (along * point).sum(), along


@given(line=lines, tube=st.floats(0.05, 0.95))
def test_chords_cover_what_lies_in_the_torus(line: tuple[float, ...], tube: float) -> None:
    nearest, along = nearest_and_along(line)
    low, high = (ends.ravel() for ends in ring_chords(nearest, along, tube))
    assert low[0] <= high[0] <= low[1] <= high[1]
    s = np.linspace(-2.0, 2.0, 2001)
    x, y, z = nearest + along * s
    depth = tube - np.hypot(np.hypot(x, y) - 1, z)
    there = high > low
    covered = ((low[there, None] <= s) & (s <= high[there, None])).any(axis=0)
    assert covered[depth > 1e-9].all()
    assert not covered[depth < -1e-9].any()


@given(line=lines, tube=st.floats(0.05, 0.95), phi=st.floats(-pi, pi))
def test_chords_turn_with_the_line_about_the_axis(line: tuple[float, ...], tube: float, phi: float) -> None:
    nearest, along = nearest_and_along(line)
    turn = np.array([(np.cos(phi), -np.sin(phi), 0), (np.sin(phi), np.cos(phi), 0), (0, 0, 1)])
    low, high = ring_chords(nearest, along, tube)
    # A line that only just touches has a chord as long as the root of its depth.
    for other_low, other_high in (
        ring_chords(turn @ nearest, turn @ along, tube),
        ring_chords(nearest, -along, tube),
    ):
        assert (other_high - other_low).sum() == pytest.approx((high - low).sum(), abs=1e-6)


def test_a_line_that_touches_the_equator_from_outside_has_no_chord() -> None:
    low, high = ring_chords(np.array([[1.25], [0.0], [0.0]]), np.array([[0.0], [1.0], [0.0]]), 0.25)
    assert (high - low).sum() < 1e-7


@pytest.mark.parametrize("source", [(150.0, -80.0, 300.0), (-90.0, 130.0, 45.0)], ids=["steep", "flat"])
@pytest.mark.parametrize("aim", [(11.0, 20.0), (-8.0, 26.0), (1.0, 9.5)])
def test_leaning_integral_is_the_fine_sum_of_the_brightness(
    source: tuple[float, float, float], aim: tuple[float, float]
) -> None:
    ring = replace(RING, modulation=0.9)
    # From the source through a point of the tube's middle down to z = 0.
    direction = (np.array([*aim, 18.0]) - source) * source[2] / (source[2] - 18.0)
    t = (np.arange(400_000) + 0.5) / 400_000
    x, y, z = (source + t[:, None] * direction - ring.center_mm).T
    radius = np.hypot(x, y)
    inside = (radius - 11.0) ** 2 + z**2 <= 25.0
    g = (x / radius + x * y / radius**2) / (3 * np.sqrt(3) / 4)
    expected = float((inside * ring.value * (1 + 0.9 * g)).mean() * np.linalg.norm(direction))
    assert expected > 0
    pixel = tuple(source + direction)
    assert integral(ring, one_view(source, pixel)) == pytest.approx(expected, rel=1e-4)


@given(off_mm=st.floats(-1e-7, 1e-7), tilt=st.floats(-1e-7, 1e-7))
def test_a_ray_that_all_but_touches_the_ring_is_all_but_zero(off_mm: float, tilt: float) -> None:
    # Chords of next to no length, along lines that are next to upright.
    x = 16.0 + off_mm
    assert 0 <= integral(RING, one_view((x + 600.0 * tilt, 20.0, 600.0), (x, 20.0, 0.0))) < 0.01


def test_quarter_turns_of_a_modulated_ring_average_to_the_even_one() -> None:
    # cos(phi) and sin(2 phi) have no mean over four quarter turns.
    modulated = [RING.line_integrals(turned(SCAN, quarters), oversample=1) for quarters in range(4)]
    even = replace(RING, modulation=0.0).line_integrals(SCAN, oversample=1)
    np.testing.assert_allclose(np.mean(modulated, axis=0), even, atol=1e-12)
    assert difference(modulated[0], even) > 0.1


@pytest.mark.parametrize("modulation", [0.0, 0.5])
def test_finer_voxels_project_closer_to_the_line_integrals(modulation: float) -> None:
    ring = replace(RING, modulation=modulation)
    exact = ring.line_integrals(SCAN)
    errors = []
    for factor in (1, 4):
        grid = VolumeGrid.on_detector((13, 20, 20), (2.0, 2.0, 2.0), gap_mm=5.0).refine(factor)
        volume = torch.from_numpy(ring.voxels(grid, oversample=4))
        errors.append(difference(Projector(grid=grid, acquisition=SCAN)(volume).numpy(), exact))
    assert errors[1] < 0.25 * errors[0]
    assert errors[1] < 0.02


@pytest.mark.parametrize(
    "body",
    [
        Ellipsoid(center_mm=RING.center_mm, radii_mm=(18.0, 18.0, 12.0), value=0.046),
        Box(center_mm=RING.center_mm, size_mm=(36.0, 36.0, 20.0), value=0.046),
    ],
    ids=lambda body: type(body).__name__,
)
def test_bodys_line_integrals_are_added(body: Box | Ellipsoid) -> None:
    both = replace(RING, body=body).line_integrals(SCAN, oversample=2)
    expected = RING.line_integrals(SCAN, oversample=2) + body.line_integrals(SCAN, oversample=2)
    np.testing.assert_allclose(both, expected, atol=1e-14)


def test_a_pixel_is_the_mean_of_its_parts() -> None:
    scan = SCAN
    fine = replace(scan, detector_shape=(48, 56), pixel_spacing_mm=(1.0, 1.0))
    parts = RING.line_integrals(fine, oversample=1).reshape(3, 24, 2, 28, 2)
    np.testing.assert_allclose(RING.line_integrals(scan, oversample=2), parts.mean(axis=(2, 4)), atol=1e-12)


@pytest.mark.parametrize(("minor_mm", "major_mm"), [(0.0, 5.0), (6.0, 5.0), (float("nan"), 5.0)])
def test_radii_that_make_no_ring_are_refused(minor_mm: float, major_mm: float) -> None:
    with pytest.raises(GeometryError, match="Toroid: expected 0 < minor_radius_mm < major_radius_mm"):
        replace(RING, minor_radius_mm=minor_mm, major_radius_mm=major_mm)


@pytest.mark.parametrize("modulation", [-0.1, 1.0])
def test_modulation_that_turns_negative_is_refused(modulation: float) -> None:
    with pytest.raises(GeometryError, match="Toroid: expected 0 <= modulation < 1"):
        replace(RING, modulation=modulation)
