"""Laws of maps of stiffness, and of bodies made of several tissues."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import compress
from duotomo.mechanics.stiffness import GlandInFat, GlandVolume, PectoralMuscle

SHAPE = BreastShape(center_mm=(3.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))
POINTS = np.random.default_rng(0).uniform([-37, 0, 3], [43, 38, 57], size=(200, 3))


def test_maps_add_and_multiply_point_by_point() -> None:
    gland = GlandInFat.behind_nipple(SHAPE)
    muscle = PectoralMuscle.upper_outer(SHAPE, outer=1)
    np.testing.assert_allclose((gland * muscle)(POINTS), gland(POINTS) * muscle(POINTS))
    mean = 0.5 * gland + 0.5 * muscle
    np.testing.assert_allclose(mean(POINTS), (gland(POINTS) + muscle(POINTS)) / 2)


def test_gland_is_half_mixed_on_its_border() -> None:
    gland = GlandInFat(center_mm=(0.0, 0.0, 0.0), radii_mm=(20.0, 15.0, 10.0), ratio=5.0, border_mm=2.0)
    border = np.array([[20.0, 0.0, 0.0], [0.0, -15.0, 0.0], [0.0, 0.0, 10.0]])
    np.testing.assert_allclose(gland(border), 3.0)
    np.testing.assert_allclose(gland(border * 3), 1.0, atol=1e-3)
    assert gland(np.zeros((1, 3)))[0] == pytest.approx(5.0, abs=1e-3)


def test_gland_lies_behind_the_nipple() -> None:
    gland = GlandInFat.behind_nipple(SHAPE, ratio=4.0)
    stiff = gland(POINTS) > 2.5
    assert stiff.any()
    assert (SHAPE.depth_mm(POINTS[stiff]) > 0).all()
    assert gland(np.array([[3.0, 38.0, 30.0]]))[0] < 2.5 < gland(np.array([[3.0, 30.0, 30.0]]))[0]


def test_muscle_lies_above_and_outside_and_at_the_wall() -> None:
    for outer in (-1, 1):
        muscle = PectoralMuscle.upper_outer(SHAPE, outer=outer, tension=6.0)
        away = (POINTS - SHAPE.center_mm) * [outer, 1, 1]
        stiff = muscle(POINTS) > 3.5
        assert stiff.sum() > 5
        assert (away[stiff][:, 0] + away[stiff][:, 2] > 0).all()
        assert away[stiff][:, 1].max() < 0.7 * SHAPE.radii_mm[1]


def test_fractions_that_vary_evenly_are_read_exactly() -> None:
    grid = VolumeGrid(shape=(6, 8, 10), spacing_mm=(4.0, 4.0, 4.0), center_mm=(30.0, 16.0, 3.0))
    slope, offset = np.array([0.01, 0.008, 0.006]), 0.2
    fractions = voxel_centers_mm(grid) @ slope + offset
    points = np.random.default_rng(1).uniform([-14, 3, 21], [20, 29, 39], size=(50, 3))
    volume = GlandVolume(fractions=fractions, grid=grid, ratio=4.0)
    np.testing.assert_allclose(volume(points), 1 + 3 * (points @ slope + offset))


def test_stiff_gland_is_squeezed_less() -> None:
    gland = GlandInFat.behind_nipple(SHAPE, ratio=8.0)
    soft, stiff = (compress(SHAPE, thickness_mm=38.0, refinements=2, stiffness=s) for s in (None, gland))
    top_and_bottom = np.array(gland.center_mm) + np.array([[0, 0, 10.0], [0, 0, -10.0]])
    heights = [float(np.ptp(c.from_rest(top_and_bottom)[:, 2])) for c in (soft, stiff)]
    assert heights[0] < 0.85 * 20
    assert heights[1] > heights[0] + 1
    assert abs(stiff.volume_change) < 0.01


def test_stiffness_is_asked_for_at_rest() -> None:
    seen = []

    def fat(points: np.ndarray) -> np.ndarray:
        seen.append(points)
        return np.ones(len(points))

    compress(SHAPE, thickness_mm=50.0, roll_rad=1.0, slide_mm=(9.0, 8.0, 2.0), refinements=1, stiffness=fat)
    inside = SHAPE.depth_mm(np.concatenate(seen))
    assert inside.min() > 0
    lowest, highest = np.concatenate(seen).min(axis=0), np.concatenate(seen).max(axis=0)
    np.testing.assert_allclose((lowest + highest)[[0, 2]] / 2, [3.0, 30.0], atol=0.5)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda points: np.ones((len(points), 1)), "expected stiffness of points"),
        (lambda points: 1 - points[:, 1], "expected stiffness > 0 at all points"),
        (lambda points: np.full(len(points), math.nan), "expected stiffness > 0 at all points"),
    ],
)
def test_stiffness_that_cannot_be(wrong: object, match: str) -> None:
    with pytest.raises((GeometryError, ShapeError), match=match):
        compress(SHAPE, thickness_mm=40.0, refinements=1, stiffness=wrong)  # type: ignore[arg-type]


def test_maps_that_cannot_be() -> None:
    gland = GlandInFat.behind_nipple(SHAPE)
    with pytest.raises(GeometryError, match="GlandInFat: expected ratio > 0; got 0"):
        replace(gland, ratio=0.0)
    with pytest.raises(GeometryError, match=r"GlandInFat: expected radii_mm \(x, y, z\) > 0"):
        replace(gland, radii_mm=(1.0, 0.0, 1.0))
    muscle = PectoralMuscle.upper_outer(SHAPE, outer=1)
    with pytest.raises(GeometryError, match="PectoralMuscle: expected tension > 0; got -1"):
        replace(muscle, tension=-1.0)
    with pytest.raises(GeometryError, match="PectoralMuscle: expected slope > 0; got 0"):
        replace(muscle, slope=0.0)
    with pytest.raises(GeometryError, match="expected a direction outward"):
        replace(muscle, outward=(0.0, 0.0))
    with pytest.raises(GeometryError, match="expected outer 1 or -1; got 0"):
        PectoralMuscle.upper_outer(SHAPE, outer=0)


def test_fractions_that_cannot_be() -> None:
    grid = VolumeGrid.on_detector((2, 4, 6), (1.0, 1.0, 1.0))
    with pytest.raises(ShapeError, match=r"expected fractions \(z, y, x\) = \(2, 4, 6\); got \(6, 4, 2\)"):
        GlandVolume(fractions=np.zeros((6, 4, 2)), grid=grid)
    with pytest.raises(GeometryError, match=r"expected fractions from 0 to 1; got 0\.0 to 2\.0"):
        GlandVolume(fractions=np.linspace(0, 2, 48).reshape(grid.shape), grid=grid)
