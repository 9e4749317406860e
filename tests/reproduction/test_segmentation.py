"""Segmenting a breast: a made-up image with known parts gives them back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.reproduction.third_party.segmentation import SKIN_MM, Segmented, otsu, segment

Mask = NDArray[np.bool_]

SHAPE = (60, 60, 120)
SPACING_MM = (1.2, 1.0, 1.0)
CHEST_WALL_MM = 10.0


def ellipsoid(center_mm: tuple[float, ...], radii_mm: tuple[float, ...]) -> Mask:
    points = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1) * SPACING_MM
    inside: Mask = np.sum(((points - center_mm) / np.array(radii_mm)) ** 2, axis=-1) <= 1
    return inside


BREAST = ellipsoid((36.0, 10.0, 30.0), (30.0, 40.0, 22.0))
OTHER_BREAST = ellipsoid((36.0, 10.0, 90.0), (30.0, 40.0, 22.0))
GLAND = ellipsoid((36.0, 28.0, 24.0), (8.0, 10.0, 3.0)) | ellipsoid((30.0, 24.0, 36.0), (10.0, 8.0, 3.0))


@pytest.fixture(scope="module")
def found() -> Segmented:
    tissue = BREAST | OTHER_BREAST
    tissue[:, :8] = True  # The chest wall.
    image = np.where(GLAND, 110.0, np.where(tissue, 45.0, 0.0))
    # Brighter towards the coil, below and to the right, as real images are.
    z, _, x = np.meshgrid(*map(np.arange, SHAPE), indexing="ij")
    image *= 1 + 0.6 * (x / 60) + 0.4 * (1 - z / 60)
    noise = np.random.default_rng(0).normal(0, 3, SHAPE)
    return segment(np.abs(image + noise).astype(np.float32), SPACING_MM, chest_wall_mm=CHEST_WALL_MM)


def cut(mask: Mask, found: Segmented) -> Mask:
    """Return the part of an image's mask that the segmentation covers."""
    (z, y, x), (n_z, n_y, n_x) = found.first, found.breast.shape
    return mask[z : z + n_z, y : y + n_y, x : x + n_x]


def overlap(one: Mask, other: Mask) -> float:
    """Return Dice's coefficient."""
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def test_one_breast_is_cut_out(found: Segmented) -> None:
    assert found.first[1] == CHEST_WALL_MM
    assert overlap(found.breast, cut(BREAST, found)) > 0.97
    in_front = BREAST[:, int(CHEST_WALL_MM) :]
    assert found.breast.sum() == pytest.approx(in_front.sum(), rel=0.05)
    # Air on all sides but the chest wall's.
    for side in (found.breast[[0, -1]], found.breast[:, -1], found.breast[:, :, [0, -1]]):
        assert not side.any()


def test_gland_is_found_in_spite_of_the_coil(found: Segmented) -> None:
    gland = cut(GLAND, found)
    assert overlap(found.gland > 0.5, gland) > 0.85
    assert found.gland.min() >= 0
    assert found.gland.max() <= 1
    assert found.gland[found.breast & ~gland].mean() < 0.05


def test_skin_is_a_shell_that_leaves_the_chest_wall_open(found: Segmented) -> None:
    assert not (found.skin & ~found.breast).any()
    assert not (found.gland[found.skin] > 0).any()
    middle = found.breast.shape[0] // 2
    row = found.skin[middle, 0]
    # Along the chest wall, skin at the two sides only.
    assert row.sum() * SPACING_MM[2] == pytest.approx(2 * SKIN_MM, abs=1.5)
    column = found.skin[middle, :, found.breast.shape[2] // 2]
    assert 1 <= column.sum() <= 2
    assert not column[:30].any()


def test_images_without_a_breast_are_refused() -> None:
    with pytest.raises(DuotomoError, match="expected tissue and air in front of the chest wall; got 0"):
        segment(np.zeros((20, 30, 40), dtype=np.float32), SPACING_MM, chest_wall_mm=10.0)
    thin = np.zeros((40, 40, 60), dtype=np.float32)
    thin[18:22, :30, 10:14] = 50.0
    with pytest.raises(DuotomoError, match="expected a breast more than 16 mm thick"):
        segment(thin, SPACING_MM, chest_wall_mm=10.0)


@given(gap=st.floats(5.0, 50.0), n=st.integers(20, 200), seed=st.integers(0, 99))
def test_otsu_parts_two_clear_classes(gap: float, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = rng.uniform(0, 1, n), rng.uniform(gap, gap + 1, 2 * n)
    assert low.max() <= otsu(np.concatenate([low, high])) <= high.min()
