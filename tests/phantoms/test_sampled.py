"""Laws of a phantom given by voxels: its own grid, coarser grids, shifted grids, and what cannot exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DtypeError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.phantoms.sampled import Sampled
from duotomo.phantoms.solids import Box

GRID = VolumeGrid(shape=(6, 8, 10), spacing_mm=(1.3, 0.7, 0.4), center_mm=(7.1, 5.3, 0.9))
VOLUME = np.random.default_rng(0).random(GRID.shape)
PHANTOM = Sampled(volume=VOLUME, grid=GRID)

shifts_mm = st.tuples(*[st.floats(-3.0, 3.0)] * 3)
spacings_mm = st.tuples(*[st.floats(0.15, 3.0)] * 3)


def around(spacing_mm: tuple[float, float, float], shift_mm: tuple[float, float, float]) -> VolumeGrid:
    """Return a grid that holds all of GRID, shifted by less than the rest."""
    shape = tuple(int((size + 6.0) / d) + 2 for size, d in zip(GRID.size_mm, spacing_mm, strict=True))
    center_mm = tuple(c + s for c, s in zip(GRID.center_mm, shift_mm, strict=True))
    return VolumeGrid(shape=shape, spacing_mm=spacing_mm, center_mm=center_mm)


def test_on_its_own_grid_it_is_the_volume() -> None:
    np.testing.assert_allclose(PHANTOM.voxels(GRID), VOLUME, rtol=1e-12)


@pytest.mark.parametrize("factor", [2, (3, 1, 5), (2, 4, 1)])
def test_coarser_voxels_are_means_of_blocks(factor: int | tuple[int, int, int]) -> None:
    z, y, x = (factor,) * 3 if isinstance(factor, int) else factor
    blocks = VOLUME.reshape(6 // z, z, 8 // y, y, 10 // x, x).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(PHANTOM.voxels(GRID.coarsen(factor)), blocks, rtol=1e-12)


def test_finer_voxels_repeat_the_coarse_ones() -> None:
    repeated = VOLUME.repeat(2, axis=0).repeat(3, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(PHANTOM.voxels(GRID.refine((2, 3, 2))), repeated, rtol=1e-12)


@given(spacing_mm=spacings_mm, shift_mm=shifts_mm)
def test_a_grid_around_it_holds_all_of_it(
    spacing_mm: tuple[float, float, float], shift_mm: tuple[float, float, float]
) -> None:
    target = around(spacing_mm, shift_mm)
    mass = PHANTOM.voxels(target).sum() * np.prod(spacing_mm)
    assert mass == pytest.approx(VOLUME.sum() * np.prod(GRID.spacing_mm), rel=1e-10)


@given(spacing_mm=spacings_mm, shift_mm=shifts_mm)
def test_a_constant_volume_is_a_box(
    spacing_mm: tuple[float, float, float], shift_mm: tuple[float, float, float]
) -> None:
    target = around(spacing_mm, shift_mm)
    constant = Sampled(volume=np.full(GRID.shape, 0.05), grid=GRID)
    box = Box(center_mm=GRID.center_mm[::-1], size_mm=GRID.size_mm[::-1], value=0.05)
    np.testing.assert_allclose(constant.voxels(target), box.voxels(target), atol=1e-12)


def test_within_a_constant_volume_every_voxel_has_the_constant() -> None:
    constant = Sampled(volume=np.full(GRID.shape, 0.05), grid=GRID)
    inner = replace(GRID, shape=(5, 7, 9), spacing_mm=(1.1, 0.6, 0.43))
    np.testing.assert_allclose(constant.voxels(inner), 0.05, rtol=1e-12)


def test_half_a_voxel_further_neighbours_are_averaged() -> None:
    z, y, x = GRID.center_mm
    shifted = PHANTOM.voxels(replace(GRID, center_mm=(z, y, x + 0.2)))
    expected = (VOLUME + np.pad(VOLUME, ((0, 0), (0, 0), (0, 1)))[:, :, 1:]) / 2
    np.testing.assert_allclose(shifted, expected, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_beside_it_there_is_nothing(axis: int, side: float) -> None:
    center_mm = list(GRID.center_mm)
    center_mm[axis] += side * (GRID.size_mm[axis] + 1e-6)
    assert not PHANTOM.voxels(replace(GRID, center_mm=tuple(center_mm))).any()


def test_voxels_have_the_dtype_asked_for_and_labels_are_averaged_too() -> None:
    labels = (VOLUME * 200).astype(np.uint8)
    single = Sampled(volume=labels, grid=GRID).voxels(GRID.coarsen(2), dtype=np.float32)
    assert single.dtype == np.float32
    exact = labels.astype(float).reshape(3, 2, 4, 2, 5, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(single, exact, rtol=1e-6)


def test_volume_of_another_shape_is_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"Sampled: expected volume \(z, y, x\) = \(6, 8, 10\); got \(10, 8, 6\)"
    ):
        Sampled(volume=VOLUME.T, grid=GRID)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_volume_that_is_not_finite_is_refused(bad: float) -> None:
    volume = VOLUME.copy()
    volume[3, 4, 5] = bad
    with pytest.raises(NonFiniteError, match="Sampled: expected volume to be finite; got"):
        Sampled(volume=volume, grid=GRID)


@pytest.mark.parametrize("dtype", [bool, complex])
def test_volume_of_no_real_numbers_is_refused(dtype: type) -> None:
    with pytest.raises(DtypeError, match="Sampled: expected volume of real numbers; got"):
        Sampled(volume=VOLUME.astype(dtype), grid=GRID)
