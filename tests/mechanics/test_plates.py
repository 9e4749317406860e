"""Laws of a paddle that tilts and of a chest wall that slides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duotomo.errors import GeometryError
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import Compression, compress
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.plates import Paddle

SHAPE = BreastShape(center_mm=(3.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))


@pytest.fixture(scope="module")
def plain() -> Compression:
    return compress(SHAPE, thickness_mm=40.0, refinements=2)


def test_options_that_say_nothing_change_no_bit(plain: Compression) -> None:
    same = compress(
        SHAPE,
        thickness_mm=40.0,
        refinements=2,
        forces=Forces(),
        paddle=Paddle(at_y_mm=20.0),
        slide_mm=(0.0, 0.0, 0.0),
    )
    np.testing.assert_array_equal(same.moved_mm, plain.moved_mm)
    np.testing.assert_array_equal(same.rest_mm, plain.rest_mm)


def test_fat_that_is_said_to_be_fat_comes_to_the_same(plain: Compression) -> None:
    same = compress(SHAPE, thickness_mm=40.0, refinements=2, stiffness=lambda points: np.ones(len(points)))
    np.testing.assert_allclose(same.moved_mm, plain.moved_mm, atol=2e-3)


@pytest.mark.parametrize("tilt_rad", [0.12, -0.12])
def test_skin_lies_on_the_tilted_paddle(tilt_rad: float, plain: Compression) -> None:
    paddle = Paddle(tilt_rad=tilt_rad, at_y_mm=15.0)
    tilted = compress(SHAPE, thickness_mm=40.0, support_mm=5.0, refinements=2, paddle=paddle)
    _, y, z = tilted.moved_mm.T
    above = (z - 45.0) * math.cos(tilt_rad) - (y - 15.0) * math.sin(tilt_rad)
    assert above.max() == pytest.approx(0.0, abs=0.05)
    assert z.min() == pytest.approx(5.0, abs=0.05)
    on_it = above > -0.1
    assert np.ptp(y[on_it]) > 15
    assert np.polyfit(y[on_it], z[on_it], 1)[0] == pytest.approx(math.tan(tilt_rad), abs=0.02)
    assert abs(tilted.volume_change) < 0.005
    assert tilted.least_jacobian > 0.95
    # Tissue goes where the plates are further apart.
    assert (tilted.moved_mm[:, 1].max() - plain.moved_mm[:, 1].max()) * tilt_rad > 0


def test_slide_along_slippery_plates_takes_all_along(plain: Compression) -> None:
    slid = compress(SHAPE, thickness_mm=40.0, refinements=2, slide_mm=(4.0, 6.0, 0.0))
    np.testing.assert_allclose(slid.moved_mm - [4.0, 6.0, 0.0], plain.moved_mm, atol=2e-3)
    np.testing.assert_allclose(slid.rest_mm, plain.rest_mm, atol=1e-12)


def test_slide_is_the_mean_of_the_chest_wall() -> None:
    wide = BreastShape(center_mm=(3.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 30.0))
    slid = compress(wide, thickness_mm=45.0, refinements=2, slide_mm=(0.0, 0.0, 3.0), support_mm=7.5)
    wall = np.abs(slid.rest_mm[:, 1]) < 1e-9
    # Nodes are not spread evenly over the wall.
    mean = (slid.moved_mm - slid.rest_mm)[wall].mean(axis=0)
    assert mean[2] == pytest.approx(3.0, abs=0.5)
    assert mean[0] == pytest.approx(0.0, abs=0.1)
    assert slid.moved_mm[:, 2].min() == pytest.approx(7.5, abs=0.05)
    assert slid.moved_mm[:, 2].max() == pytest.approx(52.5, abs=0.05)


def test_slide_to_nowhere() -> None:
    with pytest.raises(GeometryError, match="expected a finite slide_mm"):
        compress(SHAPE, thickness_mm=40.0, slide_mm=(0.0, math.nan, 0.0))


def test_plates_that_meet() -> None:
    with pytest.raises(GeometryError, match="expected plates that stay apart"):
        compress(SHAPE, thickness_mm=20.0, paddle=Paddle(tilt_rad=-0.7))


@pytest.mark.parametrize("tilt_rad", [5.0, math.nan])
def test_paddle_that_is_steep(tilt_rad: float) -> None:
    with pytest.raises(GeometryError, match="expected tilt_rad between -pi/4 and pi/4; got"):
        Paddle(tilt_rad=tilt_rad)


def test_paddle_without_place() -> None:
    with pytest.raises(GeometryError, match="expected a finite at_y_mm; got inf"):
        Paddle(at_y_mm=math.inf)
