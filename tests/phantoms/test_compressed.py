"""Laws of a phantom between the plates: its mass, its place, the motion to another compression."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import Compression, compress, motion_between
from duotomo.phantoms import Ellipsoid
from duotomo.phantoms.compressed import Compressed

SHAPE = BreastShape(center_mm=(0.0, 0.0, 30.0), radii_mm=(20.0, 19.0, 14.0))
GRID = VolumeGrid(shape=(28, 26, 52), spacing_mm=(1.0, 1.0, 1.0), center_mm=(11.0, 12.0, 0.0))


class Waves:
    """A smooth phantom that fills all space, so that it is known around the body too."""

    def __init__(self) -> None:
        self.n_calls = 0

    def voxels(self, grid: VolumeGrid) -> NDArray[Any]:
        self.n_calls += 1
        index = np.stack(np.meshgrid(*map(np.arange, grid.shape), indexing="ij"), axis=-1)
        x, y, z = np.moveaxis(voxel_to_world(grid, index), -1, 0)
        waves: NDArray[Any] = 2 + np.sin(x / 6) + np.sin(y / 5 + 1) * np.cos(z / 6)
        return waves


@pytest.fixture(scope="module")
def first() -> Compression:
    return compress(SHAPE, thickness_mm=21.0, refinements=2)


@pytest.fixture(scope="module")
def second() -> Compression:
    return compress(SHAPE, thickness_mm=19.0, roll_rad=math.radians(8), support_mm=1.0, refinements=2)


def inside(compression: Compression, grid: VolumeGrid, *, margin_mm: float) -> NDArray[np.bool_]:
    index = np.stack(np.meshgrid(*map(np.arange, grid.shape), indexing="ij"), axis=-1)
    return SHAPE.depth_mm(compression.to_rest(voxel_to_world(grid, index))) > -margin_mm


def test_motion_takes_one_compressed_phantom_to_the_other(first: Compression, second: Compression) -> None:
    waves = Waves()
    reference, moving = (
        torch.from_numpy(Compressed(phantom=waves, compression=c, rest_spacing_mm=0.5).voxels(GRID))
        for c in (first, second)
    )
    warped = motion_between(first, second, GRID, lattice_mm=1.0).warp(GRID)(reference)
    # In the body and 1 mm around it; the grid's rim knows nothing beyond itself.
    seen = torch.from_numpy(inside(second, GRID, margin_mm=1.0))
    seen[:2] = seen[-2:] = seen[:, :2] = seen[:, -2:] = False
    assert seen.sum() > 5000
    error = torch.linalg.vector_norm((warped - moving)[seen]) / torch.linalg.vector_norm(moving[seen] - 2)
    still = torch.linalg.vector_norm((reference - moving)[seen]) / torch.linalg.vector_norm(moving[seen] - 2)
    assert error < 0.02
    assert still > 0.15


def test_it_is_the_phantom_at_the_rest_points(second: Compression) -> None:
    body = Compressed(phantom=Waves(), compression=second, rest_spacing_mm=0.5).voxels(GRID)
    index = np.stack(np.meshgrid(*map(np.arange, GRID.shape), indexing="ij"), axis=-1)
    x, y, z = np.moveaxis(second.to_rest(voxel_to_world(GRID, index)), -1, 0)
    expected = 2 + np.sin(x / 6) + np.sin(y / 5 + 1) * np.cos(z / 6)
    seen = inside(second, GRID, margin_mm=1.0)
    np.testing.assert_allclose(body[seen], expected[seen], atol=0.05)


@pytest.mark.parametrize("oversample", [1, 2])
def test_mass_stays(second: Compression, oversample: int) -> None:
    body = Ellipsoid(center_mm=SHAPE.center_mm, radii_mm=SHAPE.radii_mm, value=0.05)
    grid = VolumeGrid(shape=(28, 25, 52), spacing_mm=(1.0, 1.0, 1.0), center_mm=(11.0, 12.5, 0.0))
    phantom = Compressed(phantom=body, compression=second, rest_spacing_mm=0.5)
    mass = phantom.voxels(grid, oversample=oversample).sum()
    assert mass == pytest.approx(0.05 * SHAPE.volume_mm3, rel=0.02)


def test_oversampling_is_the_mean_of_finer_voxels(first: Compression) -> None:
    phantom = Compressed(phantom=Waves(), compression=first, rest_spacing_mm=1.0)
    coarse = VolumeGrid(shape=(4, 5, 6), spacing_mm=(2.0, 2.0, 2.0), center_mm=(10.0, 8.0, 0.0))
    fine = phantom.voxels(coarse.refine(2)).reshape(4, 2, 5, 2, 6, 2).mean(axis=(1, 3, 5))
    np.testing.assert_allclose(phantom.voxels(coarse, oversample=2), fine, atol=0.02)


def test_slabs_join(first: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    phantom = Compressed(phantom=Waves(), compression=first, rest_spacing_mm=1.0)
    whole = phantom.voxels(GRID)
    monkeypatch.setattr("duotomo.phantoms.compressed._SLAB_VOXELS", 5 * 26 * 52)
    np.testing.assert_allclose(phantom.voxels(GRID), whole, atol=1e-5)


def test_there_is_air_far_away(first: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duotomo.phantoms.compressed._SLAB_VOXELS", 1)
    phantom = Compressed(phantom=Waves(), compression=first, rest_spacing_mm=1.0, margin_mm=3.0)
    tall = VolumeGrid.on_detector((60, 6, 8), (1.0, 2.0, 2.0))
    volume = phantom.voxels(tall)
    assert (volume[:20] > 0).all()
    assert (volume[26:] == 0).all()


def test_rest_is_voxelised_once(first: Compression) -> None:
    waves = Waves()
    phantom = Compressed(phantom=waves, compression=first, rest_spacing_mm=1.0)
    small = VolumeGrid(shape=(2, 3, 4), spacing_mm=(1.0, 1.0, 1.0), center_mm=(10.0, 5.0, 0.0))
    assert phantom.voxels(small, dtype=np.float32).dtype == np.float32
    phantom.voxels(small)
    assert waves.n_calls == 1


@pytest.mark.parametrize("spacing_mm", [0.0, -1.0, math.inf, math.nan])
def test_rest_spacing_out_of_range(first: Compression, spacing_mm: float) -> None:
    with pytest.raises(GeometryError, match="expected rest_spacing_mm > 0; got"):
        Compressed(phantom=Waves(), compression=first, rest_spacing_mm=spacing_mm)


def test_margin_out_of_range(first: Compression) -> None:
    with pytest.raises(GeometryError, match="expected margin_mm > 0; got 0"):
        Compressed(phantom=Waves(), compression=first, margin_mm=0.0)


def test_oversample_out_of_range(first: Compression) -> None:
    with pytest.raises(GeometryError, match="expected oversample >= 1; got 0"):
        Compressed(phantom=Waves(), compression=first).voxels(GRID, oversample=0)
