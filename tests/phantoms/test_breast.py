"""Laws of the breast: one anatomy on every grid, the density asked for, skin, air, texture, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import duotomo
from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.breast import Breast, BreastTissue, Density

SHAPE = BreastShape(center_mm=(3.0, 1.0, 32.0), radii_mm=(38.0, 36.0, 30.0))
BREAST = Breast(shape=SHAPE, density=Density.C, seed=5)
GRID = VolumeGrid(shape=(12, 14, 16), spacing_mm=(5.5, 3.0, 5.0), center_mm=(32.0, 20.0, 3.0))


def points(n: int, seed: int = 0) -> np.ndarray:
    """Return points in the box around the breast and its nipple, (n, xyz)."""
    return np.random.default_rng(seed).uniform((-36.0, -1.0, 1.0), (42.0, 43.0, 63.0), size=(n, 3))


def dense_share(breast: Breast) -> float:
    """Return gland, ligaments and ducts by attenuation, over the volume inside the skin."""
    where = points(12_000, seed=99)
    tissue = breast.tissue_at(where)
    outside = np.isin(tissue, (BreastTissue.AIR, BreastTissue.SKIN, BreastTissue.NIPPLE))
    fat = attenuation_per_mm(Tissue.ADIPOSE, energy_kev=20.0)
    gland = attenuation_per_mm(Tissue.GLANDULAR, energy_kev=20.0)
    return float(np.mean(np.clip((breast.at(where[~outside]) - fat) / (gland - fat), 0.0, 1.0)))


def spectrum_slope(volume: np.ndarray, spacing_mm: float) -> float:
    """Return the slope of the radially averaged power spectrum between 0.12 and 1 per mm, in log-log."""
    values = volume - volume.mean()
    for axis, n in enumerate(volume.shape):
        values = values * np.hanning(n).reshape([-1 if a == axis else 1 for a in range(volume.ndim)])
    power = np.abs(np.fft.fftn(values)) ** 2
    axes = np.meshgrid(*(np.fft.fftfreq(n, spacing_mm) for n in volume.shape), indexing="ij")
    frequency = np.sqrt(sum(axis**2 for axis in axes))
    edges = np.geomspace(0.12, 1.0, 8)
    rings = [(frequency >= low) & (frequency < high) for low, high in pairwise(edges)]
    means = [float(power[ring].mean()) for ring in rings]
    slope, _ = np.polyfit(np.log(np.sqrt(edges[1:] * edges[:-1])), np.log(means), 1)
    return float(slope)


def test_coarse_voxels_are_means_of_fine_ones() -> None:
    fine = BREAST.voxels(GRID.refine(2), oversample=1)
    means = fine.reshape(12, 2, 14, 2, 16, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(BREAST.voxels(GRID, oversample=2), means, rtol=1e-9, atol=1e-12)


def test_more_points_per_voxel_change_little() -> None:
    grid = VolumeGrid(shape=(8, 8, 8), spacing_mm=(1.0, 1.0, 1.0), center_mm=(32.0, 15.0, 3.0))
    two, six = BREAST.voxels(grid, oversample=2), BREAST.voxels(grid, oversample=6)
    assert np.linalg.norm(two - six) < 0.05 * np.linalg.norm(six)
    assert two.mean() == pytest.approx(six.mean(), rel=0.01)


def test_voxels_are_the_breast_at_their_middles() -> None:
    z, y, x = (
        low + (np.arange(n) + 0.5) * d
        for low, n, d in zip(GRID.low_mm, GRID.shape, GRID.spacing_mm, strict=True)
    )
    middles = np.stack(np.meshgrid(z, y, x, indexing="ij")[::-1], axis=-1)
    voxels = BREAST.voxels(GRID, oversample=1)
    # A border may fall on either side of a point that two roundings put in two places.
    assert np.mean(np.isclose(voxels, BREAST.at(middles), rtol=1e-6)) > 0.999


def test_moved_breast_has_moved_voxels() -> None:
    moved = replace(BREAST, shape=replace(SHAPE, center_mm=(3.0 + 10.0, 1.0 + 6.0, 32.0 - 11.0)))
    expected = np.roll(BREAST.voxels(GRID, oversample=1), (-2, 2, 2), axis=(0, 1, 2))
    inner = (slice(0, 8), slice(3, None), slice(3, None))
    same = np.isclose(moved.voxels(GRID, oversample=1)[inner], expected[inner], rtol=1e-6)
    assert np.mean(same) > 0.995


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dense_tissue_fills_what_the_density_asks_for(seed: int) -> None:
    shares = [dense_share(replace(BREAST, density=density, seed=seed)) for density in Density]
    assert shares == sorted(shares)
    np.testing.assert_allclose(shares, [density.fibroglandular_share for density in Density], atol=0.03)


def test_density_does_not_depend_on_the_shape() -> None:
    flat = replace(BREAST, shape=BreastShape(center_mm=(3.0, 1.0, 32.0), radii_mm=(37.0, 40.0, 18.0)))
    assert dense_share(flat) == pytest.approx(Density.C.fibroglandular_share, abs=0.03)


def test_same_seed_gives_the_same_breast_and_another_seed_another() -> None:
    again = Breast(shape=SHAPE, density=Density.C, seed=5)
    np.testing.assert_array_equal(again.voxels(GRID, oversample=1), BREAST.voxels(GRID, oversample=1))
    where = points(4000)
    tissue, other = BREAST.tissue_at(where), replace(BREAST, seed=6).tissue_at(where)
    assert np.mean((tissue != other)[tissue == BreastTissue.GLANDULAR]) > 0.2


def test_denser_breast_of_the_same_seed_has_the_same_gland_and_more() -> None:
    where = points(6000)
    b = replace(BREAST, density=Density.B).tissue_at(where) == BreastTissue.GLANDULAR
    d = replace(BREAST, density=Density.D).tissue_at(where) == BreastTissue.GLANDULAR
    assert b.any()
    assert np.all(d[b])


@pytest.mark.parametrize("direction", [(1.0, 0.2, 0.0), (0.3, 0.4, 1.0), (-0.6, 0.7, -0.5)])
@pytest.mark.parametrize("skin_mm", [1.5, 3.0])
def test_skin_is_as_thick_as_asked_for_across_it(
    direction: tuple[float, float, float], skin_mm: float
) -> None:
    center, radii = np.array(SHAPE.center_mm), np.array(SHAPE.radii_mm)
    q = np.array(direction) / np.linalg.norm(direction)
    inwards = -q / radii / np.linalg.norm(q / radii)
    depths = np.arange(-2.0, 6.0, 0.01)
    tissue = replace(BREAST, skin_mm=skin_mm).tissue_at(center + radii * q + depths[:, None] * inwards)
    skin = depths[tissue == BreastTissue.SKIN]
    assert skin.min() == pytest.approx(0.0, abs=0.02)
    assert skin.max() == pytest.approx(skin_mm, rel=0.04)
    assert len(skin) * 0.01 == pytest.approx(skin_mm, rel=0.04)


def test_skin_is_where_the_shape_says_so() -> None:
    bare = replace(BREAST, nipple_radius_mm=0.0)
    where = points(8000)
    depth, tissue = SHAPE.depth_mm(where), bare.tissue_at(where)
    expected = (depth >= 0) & (depth < 1.5) & (where[:, 1] >= 1.0) & (tissue != BreastTissue.DUCT)
    np.testing.assert_array_equal(tissue == BreastTissue.SKIN, expected)


def test_outside_is_air() -> None:
    where = points(8000)
    behind = where[:, 1] < SHAPE.center_mm[1]
    nipple = np.add(SHAPE.center_mm, (0.0, SHAPE.radii_mm[1], 0.0))
    far = (SHAPE.depth_mm(where) < 0) & (np.linalg.norm(where - nipple, axis=1) > 5.0)
    # Ducts end within the nipple.
    np.testing.assert_array_equal(BREAST.at(where) == 0.0, behind | far)
    np.testing.assert_array_equal(BREAST.tissue_at(where) == BreastTissue.AIR, behind | far)


def test_nipple_stands_out_of_the_tip() -> None:
    x, y, z = np.add(SHAPE.center_mm, (0.0, SHAPE.radii_mm[1], 0.0))
    column = np.array([[x + 3.5, y + h, z] for h in (1.0, 3.0, 6.0)])
    assert BREAST.tissue_at(column).tolist() == [BreastTissue.NIPPLE, BreastTissue.NIPPLE, BreastTissue.AIR]


def test_attenuation_lies_between_fat_and_the_densest_tissue() -> None:
    values = BREAST.at(points(10_000))
    inside = values[values > 0]
    of = {tissue: attenuation_per_mm(tissue, energy_kev=20.0) for tissue in Tissue}
    assert inside.min() == pytest.approx(of[Tissue.ADIPOSE])
    assert inside.max() <= of[Tissue.LIGAMENT] + 1e-12
    between = (inside > of[Tissue.ADIPOSE] * 1.01) & (inside < of[Tissue.GLANDULAR] * 0.99)
    assert 0.02 < np.mean(between) < 0.5  # borders of the gland are neither fat nor gland


def test_energy_changes_attenuation_but_not_anatomy() -> None:
    where = points(3000)
    hard = replace(BREAST, energy_kev=28.0)
    np.testing.assert_array_equal(hard.tissue_at(where), BREAST.tissue_at(where))
    soft_values = BREAST.at(where)
    assert np.all(hard.at(where)[soft_values > 0] < soft_values[soft_values > 0])


def test_every_tissue_is_there_and_ducts_start_in_the_nipple() -> None:
    assert set(BREAST.tissue_at(points(20_000)).tolist()) == set(BreastTissue)
    nipple = np.add(SHAPE.center_mm, (0.0, SHAPE.radii_mm[1], 0.0))
    around = nipple + np.random.default_rng(1).uniform(-2.0, 2.0, size=(2000, 3))
    tissue = BREAST.tissue_at(around)
    assert np.mean(tissue == BreastTissue.DUCT) > 0.1


def test_ligaments_are_thin_and_run_through_fat() -> None:
    fatty = replace(BREAST, density=Density.A)
    where = points(60_000)
    at = where[fatty.tissue_at(where) == BreastTissue.LIGAMENT]
    assert 0.002 < len(at) / 60_000 < 0.03
    # Of six points 1 mm around one in a sheet, those across it leave it.
    steps = np.concatenate((np.eye(3), -np.eye(3)))
    around = fatty.tissue_at(at[:, None] + steps) == BreastTissue.LIGAMENT
    assert np.mean(around) < 0.5
    assert np.mean(around.any(axis=1)) > 0.5


@pytest.mark.parametrize("density", [Density.C, Density.D])
def test_texture_has_the_spectrum_of_a_breast(density: Density) -> None:
    cube = VolumeGrid(shape=(72, 72, 72), spacing_mm=(0.3, 0.3, 0.3), center_mm=(32.0, 17.0, 3.0))
    volume = replace(BREAST, density=density).voxels(cube, oversample=1)
    assert -4.0 < spectrum_slope(volume, 0.3) < -2.0


def test_voxels_have_the_dtype_asked_for() -> None:
    single = BREAST.voxels(GRID, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, BREAST.voxels(GRID), rtol=1e-6)


def test_points_keep_their_shape() -> None:
    where = points(24).reshape(2, 3, 4, 3)
    assert BREAST.at(where).shape == BREAST.tissue_at(where).shape == (2, 3, 4)
    assert BREAST.at(where[0, 0, 0]).shape == ()


def test_import_loads_no_compiler() -> None:
    names = "duotomo.phantoms.breast, duotomo.phantoms.lesions"
    code = f"import sys, {names}; raise SystemExit('numba' in sys.modules)"
    source = str(Path(duotomo.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shape": replace(SHAPE, radii_mm=(40.0, 9.0, 30.0))},
            r"Breast: expected radii_mm \(x, y, z\) >= 10",
        ),
        ({"seed": -1}, "Breast: expected seed >= 0; got -1"),
        ({"skin_mm": -1.0}, "Breast: expected 0 <= skin_mm"),
        ({"skin_mm": 30.0}, "Breast: expected 0 <= skin_mm"),
        ({"nipple_radius_mm": float("nan")}, "Breast: expected 0 <= nipple_radius_mm"),
        ({"n_ducts": 0}, "Breast: expected n_ducts >= 1; got 0"),
    ],
)
def test_breasts_that_cannot_exist_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(GeometryError, match=message):
        replace(BREAST, **change)


def test_oversample_below_one_is_refused() -> None:
    with pytest.raises(GeometryError, match=r"Breast\.voxels: expected oversample >= 1; got 0"):
        BREAST.voxels(GRID, oversample=0)


@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
def test_points_without_three_coordinates_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(GeometryError, match=r"Breast: expected points_mm \(\.\.\., xyz\)"):
        BREAST.at(np.zeros(shape))
