"""Laws of the conversion between indices and the machine frame."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import ShapeError
from duotomo.geometry import VolumeGrid, pixel_to_world, voxel_to_world, world_to_pixel, world_to_voxel
from duotomo.geometry.frame import voxel_centers_mm
from tests.cases.scans import arc
from tests.strategies import acquisitions, grids, scans, sixteenths

GRID = VolumeGrid.on_detector((2, 3, 4), (1.0, 1.0, 1.0))
SCAN = arc((10, 20), 1.0, n_views=3, degrees=30, source_to_detector_mm=600.0)
pixels = st.tuples(sixteenths(-10, 20), sixteenths(-10, 20))


@given(grids(), st.tuples(*[sixteenths(-10, 20)] * 3))
def test_world_to_voxel_undoes_voxel_to_world(grid, index):
    np.testing.assert_allclose(world_to_voxel(grid, voxel_to_world(grid, index)), index, atol=1e-9)


@given(grids())
def test_faces_of_the_grid_are_half_a_voxel_outside(grid):
    np.testing.assert_allclose(voxel_to_world(grid, (-0.5,) * 3)[::-1], grid.low_mm, atol=1e-12)
    np.testing.assert_allclose(
        voxel_to_world(grid, np.array(grid.shape) - 0.5)[::-1], grid.high_mm, atol=1e-12
    )


def test_centers_are_those_of_each_voxel():
    found = voxel_centers_mm(GRID)
    assert found.flags.c_contiguous
    for index in np.ndindex(GRID.shape):
        np.testing.assert_array_equal(found[index], voxel_to_world(GRID, index))


@given(grids(), st.sampled_from([0, 1, 2]))
def test_one_step_of_an_index_is_one_spacing_along_its_axis(grid, axis):
    step = np.eye(3)[axis]
    moved = voxel_to_world(grid, step) - voxel_to_world(grid, np.zeros(3))
    np.testing.assert_allclose(moved[::-1], step * grid.spacing_mm, atol=1e-12)


@given(acquisitions(), pixels)
def test_world_to_pixel_undoes_pixel_to_world(scan, index):
    for view in scan:
        point_mm = pixel_to_world(view, index)[0]
        np.testing.assert_allclose(world_to_pixel(view, point_mm)[0], index, atol=1e-8)


@given(acquisitions(), pixels, sixteenths(0, 0.9375))
def test_every_point_of_a_ray_projects_to_its_pixel(scan, index, fraction):
    for view in scan:
        pixel_mm, source_mm = pixel_to_world(view, index)[0], view.sources_mm[0]
        on_ray_mm = pixel_mm + fraction * (source_mm - pixel_mm)
        np.testing.assert_allclose(world_to_pixel(view, on_ray_mm)[0], index, atol=1e-6)


@given(acquisitions(tilting=False), st.tuples(sixteenths(-20, 20), sixteenths(-20, 20), sixteenths(0, 50)))
def test_a_level_detector_magnifies_and_shifts(scan, point_mm):
    # u = s_x + (x - s_x) h / (h - z), and the same for v with y.
    x, y, z = point_mm
    s_x, s_y, h = scan.sources_mm.T
    shadow_mm = np.stack([s_x + (x - s_x) * h / (h - z), s_y + (y - s_y) * h / (h - z), 0 * h], axis=1)
    expected = np.stack([world_to_pixel(view, p)[0] for view, p in zip(scan, shadow_mm, strict=True)])
    np.testing.assert_allclose(world_to_pixel(scan, point_mm), expected, atol=1e-8)


@given(scans())
def test_scans_see_their_grid(pair):
    grid, scan = pair
    shadows = []
    for view in scan:
        rows, columns = np.indices(view.detector_shape)
        pixel_mm = pixel_to_world(view, np.stack([rows, columns], axis=-1))[0]
        rise = (grid.center_mm[0] - pixel_mm[..., 2:]) / (view.sources_mm[0, 2] - pixel_mm[..., 2:])
        crossing = world_to_voxel(grid, pixel_mm + rise * (view.sources_mm[0] - pixel_mm))
        inside = (crossing > -0.5) & (crossing < np.array(grid.shape) - 0.5)
        shadows.append(inside.all(axis=-1).any())
        assert (pixel_mm[..., 2] <= grid.low_mm[0] + 1e-9).all()
    assert any(shadows)


def test_leading_axes_are_kept():
    assert voxel_to_world(GRID, np.zeros((5, 6, 3))).shape == (5, 6, 3)
    assert world_to_voxel(GRID, np.zeros((5, 6, 3))).shape == (5, 6, 3)
    assert pixel_to_world(SCAN, np.zeros((5, 6, 2))).shape == (3, 5, 6, 3)
    assert world_to_pixel(SCAN, np.zeros((5, 6, 3))).shape == (3, 5, 6, 2)


def test_many_points_convert_as_they_do_one_by_one():
    points_mm = np.random.default_rng(0).normal(size=(4, 5, 3))
    together = world_to_pixel(SCAN, points_mm)
    for i, j in np.ndindex(4, 5):
        np.testing.assert_allclose(together[:, i, j], world_to_pixel(SCAN, points_mm[i, j]), atol=1e-9)
    index = np.random.default_rng(1).normal(size=(4, 2))
    for i in range(4):
        np.testing.assert_allclose(pixel_to_world(SCAN, index)[:, i], pixel_to_world(SCAN, index[i]))


@pytest.mark.parametrize("height_mm", [600.0, 700.0])
def test_a_point_that_is_not_below_the_source_has_no_shadow(height_mm):
    assert np.isnan(world_to_pixel(SCAN[1], (1.0, 1.0, height_mm))).all()


@pytest.mark.parametrize(
    ("convert", "where", "length"),
    [
        (voxel_to_world, GRID, 3),
        (world_to_voxel, GRID, 3),
        (pixel_to_world, SCAN, 2),
        (world_to_pixel, SCAN, 3),
    ],
)
@pytest.mark.parametrize("shape", [(), (4,), (3, 1)])
def test_coordinates_off_the_last_axis_are_refused(convert, where, length, shape):
    message = f"{convert.__name__}: expected .* with a last axis of length {length}; got shape"
    with pytest.raises(ShapeError, match=message):
        convert(where, np.zeros(shape))
