"""Laws of a further squeeze of a body made of voxels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.mechanics.compression import Compression
from duotomo.mechanics.compression_mask import compress_mask
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import signed_volumes
from duotomo.mechanics.stiffness import GlandInFat
from duotomo.mechanics.tissue import ElasticTissue

GRID = VolumeGrid(shape=(14, 20, 40), spacing_mm=(3.0, 3.0, 3.0), center_mm=(40.0, 30.0, 4.0))


def half_disc() -> NDArray[np.bool_]:
    """Return a flat body with a round front, 30 mm high, in the middle of the grid."""
    index = np.stack(np.meshgrid(*map(np.arange, GRID.shape), indexing="ij"), axis=-1)
    x, y, z = np.moveaxis(voxel_to_world(GRID, index), -1, 0)
    mask: NDArray[np.bool_] = (((x - 4) / 50) ** 2 + (y / 48) ** 2 <= 1) & (np.abs(z - 40) < 15)
    return mask


@pytest.fixture(scope="module")
def squeezed() -> Compression:
    return compress_mask(half_disc(), GRID, edge_mm=15.0)


def test_it_is_as_thick_as_asked(squeezed: Compression) -> None:
    assert squeezed.thickness_mm == pytest.approx(0.925 * 30)
    assert squeezed.moved_mm[:, 2].min() == pytest.approx(25.0, abs=0.05)
    assert np.ptp(squeezed.moved_mm[:, 2]) == pytest.approx(0.925 * 30, abs=0.1)


def test_tissue_keeps_its_volume_and_its_side(squeezed: Compression) -> None:
    assert abs(squeezed.volume_change) < 0.01
    assert squeezed.least_jacobian > 0.95
    assert signed_volumes(squeezed.moved_mm, squeezed.tetrahedra).min() > 0


def test_flat_body_is_stretched_evenly(squeezed: Compression) -> None:
    # A flat body between slippery plates can do without any bulge: all of it is squeezed alike.
    points = np.array([[4.0, 10.0, 30.0], [34.0, 20.0, 45.0], [-20.0, 30.0, 40.0]])
    stretch = 0.925**-0.5
    expected = np.array([4.0, 0.0, 25.0]) + (points - [4.0, 0.0, 25.0]) * [stretch, stretch, 0.925]
    np.testing.assert_allclose(squeezed.from_rest(points), expected, atol=0.15)


def test_maps_are_inverse(squeezed: Compression) -> None:
    points = np.random.default_rng(0).uniform([-30, 5, 26], [38, 30, 50], size=(200, 3))
    np.testing.assert_allclose(squeezed.from_rest(squeezed.to_rest(points)), points, atol=1e-3)


def test_mask_of_other_shape() -> None:
    with pytest.raises(ShapeError, match=r"expected mask \(z, y, x\) = \(14, 20, 40\); got \(40, 20, 14\)"):
        compress_mask(half_disc().T, GRID)


def test_empty_mask() -> None:
    with pytest.raises(GeometryError, match="expected a mask with a body in it; got none"):
        compress_mask(np.zeros(GRID.shape, dtype=bool), GRID)


def test_body_on_a_narrow_foot() -> None:
    mask = half_disc()
    mask[:, :5] = False
    mask[7, :5, 20] = True
    compression = compress_mask(mask, GRID, edge_mm=15.0)
    assert compression.least_jacobian > 0
    assert signed_volumes(compression.moved_mm, compression.tetrahedra).min() > 0


@pytest.mark.parametrize("factor", [0.0, 1.0, math.nan])
def test_factor_out_of_range(factor: float) -> None:
    with pytest.raises(GeometryError, match="expected 0 < thickness_factor < 1; got"):
        compress_mask(half_disc(), GRID, thickness_factor=factor)


def test_edge_out_of_range() -> None:
    with pytest.raises(GeometryError, match="expected edge_mm > 0; got 0"):
        compress_mask(half_disc(), GRID, edge_mm=0.0)


def test_softer_bulk_bulges_less() -> None:
    loose = compress_mask(half_disc(), GRID, edge_mm=30.0, tissue=ElasticTissue(poisson_ratio=0.3))
    stiff = compress_mask(half_disc(), GRID, edge_mm=30.0)
    assert np.ptp(loose.moved_mm[:, 0]) < np.ptp(stiff.moved_mm[:, 0]) - 0.5


def test_options_that_say_nothing_change_no_bit(squeezed: Compression) -> None:
    same = compress_mask(half_disc(), GRID, edge_mm=15.0, forces=Forces())
    np.testing.assert_array_equal(same.moved_mm, squeezed.moved_mm)


def test_weight_friction_and_gland(squeezed: Compression) -> None:
    nipple = np.argmax(squeezed.rest_mm[:, 1])
    heavy = compress_mask(
        half_disc(), GRID, edge_mm=15.0, forces=Forces(gravity_per_mm=0.02, down=(1.0, 0.0, 0.0))
    )
    assert heavy.moved_mm[nipple, 0] > squeezed.moved_mm[nipple, 0] + 0.3
    rough = compress_mask(half_disc(), GRID, edge_mm=15.0, forces=Forces(friction=5.0, creep_mm=0.05))
    flat = np.abs(rough.rest_mm[:, 2] - 55.0) < 1e-6
    slip = np.linalg.norm((rough.moved_mm - rough.rest_mm)[flat][:, :2], axis=1)
    assert slip.max() < 0.2 < 0.5 * np.abs((squeezed.moved_mm - squeezed.rest_mm)[flat][:, :2]).max()
    gland = GlandInFat(center_mm=(4.0, 30.0, 40.0), radii_mm=(15.0, 15.0, 10.0), ratio=8.0)
    mixed = compress_mask(half_disc(), GRID, edge_mm=15.0, stiffness=gland)
    ends = np.array([[4.0, 30.0, 33.0], [4.0, 30.0, 47.0]])
    assert np.ptp(mixed.from_rest(ends)[:, 2]) > np.ptp(squeezed.from_rest(ends)[:, 2]) + 0.2


def test_friction_makes_contact_stretch_less() -> None:
    slippery, rough = (
        compress_mask(half_disc(), GRID, edge_mm=15.0, forces=Forces(friction=friction))
        for friction in (0.0, 0.5)
    )
    top = np.abs(slippery.rest_mm[:, 2] - 55.0) < 1e-6
    assert (rough.moved_mm[top][:, :2].std(axis=0) < 0.99 * slippery.moved_mm[top][:, :2].std(axis=0)).all()
