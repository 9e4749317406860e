"""Laws of lesions: volume on every grid, place, seeds, mixing with the phantom, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.breast import Breast, Density
from duotomo.phantoms.lesions import CalcificationCluster, SpiculatedMass, WithLesions
from duotomo.phantoms.solids import Ellipsoid

CENTER = (1.0, 21.0, 20.0)
MASS = SpiculatedMass(center_mm=CENTER, radius_mm=4.0, seed=3)
CLUSTER = CalcificationCluster(center_mm=CENTER, spread_mm=5.0, n=12, diameter_mm=0.4, seed=3)
BALL = Ellipsoid(center_mm=CENTER, radii_mm=(15.0, 15.0, 15.0), value=0.05)
CORE_MM3 = 4 / 3 * math.pi * 4.0**3


def grid(spacing_mm: float) -> VolumeGrid:
    """Return a grid of 24 mm around the lesions."""
    n = round(24 / spacing_mm)
    return VolumeGrid(shape=(n, n, n), spacing_mm=(spacing_mm,) * 3, center_mm=CENTER[::-1])


def volume_mm3(share: np.ndarray, spacing_mm: float) -> float:
    return float(share.sum()) * spacing_mm**3


@pytest.mark.parametrize("irregularity", [0.0, 0.15, 0.3])
def test_core_has_the_volume_of_a_ball(irregularity: float) -> None:
    core = replace(MASS, n_spicules=0, irregularity=irregularity)
    assert volume_mm3(core.share(grid(1.0)), 1.0) == pytest.approx(CORE_MM3, rel=0.015)


def test_core_without_irregularity_is_a_ball() -> None:
    ball = Ellipsoid(center_mm=CENTER, radii_mm=(4.0, 4.0, 4.0), value=1.0).voxels(grid(1.0), oversample=8)
    np.testing.assert_allclose(
        replace(MASS, n_spicules=0, irregularity=0.0).share(grid(1.0)), ball, atol=0.02
    )


def test_spikes_add_a_little_and_reach_far() -> None:
    core, whole = replace(MASS, n_spicules=0).share(grid(1.0)), MASS.share(grid(1.0))
    assert np.all(whole >= core)
    assert 0.03 * CORE_MM3 < volume_mm3(whole - core, 1.0) < 0.3 * CORE_MM3
    assert MASS.reach_mm > 1.5 * replace(MASS, n_spicules=0).reach_mm


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spikes_grow_out_of_the_core(seed: int) -> None:
    mass = replace(MASS, irregularity=0.3, seed=seed)
    side = np.linspace(-12.0, 12.0, 121)
    points = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1) + CENTER
    parts, n_parts = ndimage.label(mass.contains(points), np.ones((3, 3, 3)))
    sizes = ndimage.sum_labels(parts > 0, parts, range(1, n_parts + 1))
    assert sizes.max() > 0.999 * sizes.sum()


@pytest.mark.parametrize("lesion", [MASS, CLUSTER], ids=["mass", "cluster"])
def test_share_is_a_share_of_the_same_volume_on_every_grid(lesion: SpiculatedMass) -> None:
    shares = {spacing: lesion.share(grid(spacing)) for spacing in (0.8, 2.4)}
    for share in shares.values():
        assert share.min() == 0.0
        assert 0.0 < share.max() <= 1.0
    fine_mm3, coarse_mm3 = (volume_mm3(share, spacing) for spacing, share in shares.items())
    assert fine_mm3 == pytest.approx(coarse_mm3, rel=0.01)
    means = shares[0.8].reshape(10, 3, 10, 3, 10, 3).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(shares[2.4], means, atol=0.02)


@given(diameter_mm=st.floats(0.05, 1.2), spacing_mm=st.sampled_from([0.6, 1.0, 3.0]))
def test_calcifications_keep_their_volume_however_small(diameter_mm: float, spacing_mm: float) -> None:
    cluster = replace(CLUSTER, diameter_mm=diameter_mm, n=3)
    share = cluster.share(grid(spacing_mm))
    assert volume_mm3(share, spacing_mm) == pytest.approx(cluster.volume_mm3, rel=2e-3)


def test_grain_larger_than_voxels_fills_those_inside() -> None:
    grain = replace(CLUSTER, spread_mm=1e-6, n=1, diameter_mm=8.0)
    x, y, z, diameter = grain.grains_mm[0]
    ball = Ellipsoid(center_mm=(x, y, z), radii_mm=(diameter / 2,) * 3, value=1.0)
    expected = ball.voxels(grid(1.0), oversample=8)
    np.testing.assert_allclose(grain.share(grid(1.0)), expected, atol=0.03)
    np.testing.assert_allclose(grain.share(grid(1.0))[expected == 1.0], 1.0, rtol=2e-3)


def test_grains_lie_apart_and_within_the_spread() -> None:
    crowd = CalcificationCluster(center_mm=CENTER, spread_mm=1.5, n=30, diameter_mm=0.5, seed=1)
    centers, diameters = crowd.grains_mm[:, :3], crowd.grains_mm[:, 3]
    assert np.linalg.norm(centers - CENTER, axis=1).max() <= 1.5
    assert diameters.min() >= 0.3
    assert diameters.max() <= 0.7
    apart = np.linalg.norm(centers[:, None] - centers, axis=-1) + 10 * np.eye(30)
    assert np.all(apart > (diameters[:, None] + diameters) / 2)


@pytest.mark.parametrize("lesion", [MASS, CLUSTER], ids=["mass", "cluster"])
def test_lesion_contains_what_its_share_counts(lesion: SpiculatedMass) -> None:
    points = np.random.default_rng(0).uniform(-12.0, 12.0, size=(200_000, 3)) + CENTER
    inside = lesion.contains(points)
    share = lesion.share(grid(0.8))
    z, y, x = (np.floor((points[:, axis] - CENTER[axis] + 12.0) / 0.8).astype(int) for axis in (2, 1, 0))
    of_voxel = share[z, y, x]
    assert inside.any()
    assert np.mean(of_voxel[inside] == 0.0) < 0.01  # the points that are counted may miss a tip
    assert np.sum(inside & (of_voxel > 0.999)) >= 0.99 * np.sum(of_voxel > 0.999)
    assert lesion.contains(points[:6].reshape(2, 3, 3)).shape == (2, 3)


def test_same_seed_gives_the_same_lesion_and_another_seed_another() -> None:
    for lesion in (MASS, CLUSTER):
        share = lesion.share(grid(1.0))
        np.testing.assert_array_equal(replace(lesion).share(grid(1.0)), share)
        assert np.abs(replace(lesion, seed=4).share(grid(1.0)) - share).max() > 0.02


@pytest.mark.parametrize("lesion", [MASS, CLUSTER], ids=["mass", "cluster"])
def test_moved_lesion_has_a_moved_share(lesion: SpiculatedMass) -> None:
    moved = replace(lesion, center_mm=(2.0, 19.0, 21.0))
    expected = np.roll(lesion.share(grid(1.0)), (1, -2, 1), axis=(0, 1, 2))
    np.testing.assert_allclose(moved.share(grid(1.0)), expected, atol=1e-3)


@pytest.mark.parametrize("lesion", [MASS, CLUSTER], ids=["mass", "cluster"])
def test_grid_sees_the_part_of_a_lesion_that_it_covers(lesion: SpiculatedMass) -> None:
    whole = lesion.share(grid(1.0))
    part = VolumeGrid(shape=(24, 12, 24), spacing_mm=(1.0, 1.0, 1.0), center_mm=(20.0, 15.0, 1.0))
    np.testing.assert_allclose(lesion.share(part), whole[:, :12], atol=1e-12)
    elsewhere = VolumeGrid(shape=(4, 5, 6), spacing_mm=(1.0, 1.0, 1.0), center_mm=(90.0, 21.0, 1.0))
    np.testing.assert_array_equal(lesion.share(elsewhere), np.zeros((4, 5, 6)))


def test_lesions_take_the_place_of_the_phantom() -> None:
    cluster = replace(CLUSTER, center_mm=(9.0, 21.0, 20.0), spread_mm=1.0, n=2)
    volume = WithLesions(phantom=BALL, lesions=(MASS, cluster)).voxels(grid(1.0))
    plain = BALL.voxels(grid(1.0))
    mass, calcification = (
        attenuation_per_mm(tissue, energy_kev=20.0) for tissue in (Tissue.MASS, Tissue.CALCIFICATION)
    )
    with_mass = plain + MASS.share(grid(1.0)) * (mass - plain)
    np.testing.assert_allclose(
        volume, with_mass + cluster.share(grid(1.0)) * (calcification - with_mass), rtol=1e-12
    )
    assert volume[12, 12, 12] == pytest.approx(mass)


def test_phantom_without_lesions_stays_as_it_is() -> None:
    held = WithLesions(phantom=BALL, lesions=())
    np.testing.assert_array_equal(held.voxels(grid(1.0)), BALL.voxels(grid(1.0)))
    single = WithLesions(phantom=BALL, lesions=(MASS,)).voxels(grid(1.0), dtype=np.float32)
    assert single.dtype == np.float32


def test_lesions_see_the_energy_of_the_phantom() -> None:
    shape = BreastShape(center_mm=(1.0, 0.0, 20.0), radii_mm=(25.0, 30.0, 20.0))
    breast = Breast(shape=shape, density=Density.B, seed=1, energy_kev=25.0)
    volume = WithLesions(phantom=breast, lesions=(MASS,), energy_kev=25.0).voxels(grid(1.0))
    assert volume[12, 12, 12] == pytest.approx(attenuation_per_mm(Tissue.MASS, energy_kev=25.0))
    with pytest.raises(DuotomoError, match="WithLesions: expected the phantom's energy_kev, 25; got 20"):
        WithLesions(phantom=breast, lesions=(MASS,))


@pytest.mark.parametrize(
    ("lesion", "change", "message"),
    [
        (MASS, {"radius_mm": 0.0}, "SpiculatedMass: expected radius_mm > 0; got 0"),
        (MASS, {"n_spicules": -1}, "SpiculatedMass: expected n_spicules >= 0; got -1"),
        (MASS, {"irregularity": 0.4}, "SpiculatedMass: expected 0 <= irregularity <= 0.3; got 0.4"),
        (CLUSTER, {"spread_mm": math.inf}, "CalcificationCluster: expected spread_mm > 0; got inf"),
        (CLUSTER, {"diameter_mm": -1.0}, "CalcificationCluster: expected diameter_mm > 0; got -1"),
        (CLUSTER, {"n": 0}, "CalcificationCluster: expected n >= 1; got 0"),
        (CLUSTER, {"spread_mm": 0.2}, "CalcificationCluster: expected room for n = 12 grains"),
    ],
)
def test_lesions_that_cannot_exist_are_refused(
    lesion: SpiculatedMass, change: dict[str, object], message: str
) -> None:
    with pytest.raises(GeometryError, match=message):
        replace(lesion, **change)
