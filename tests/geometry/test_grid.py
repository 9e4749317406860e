"""Laws of volume grids."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid, voxel_to_world
from tests.strategies import grids

GRID = VolumeGrid(shape=(7, 7, 7), spacing_mm=(1.0, 1.0, 1.0), center_mm=(3.5, 3.5, 0.0))


def test_it_prints_as_the_call_that_rebuilds_it():
    assert repr(GRID) == (
        "VolumeGrid(shape=(7, 7, 7), spacing_mm=(1.0, 1.0, 1.0), center_mm=(3.5, 3.5, 0.0))"
    )


def test_values_become_plain_numbers():
    grid = VolumeGrid(
        shape=np.array([7, 7, 7]), spacing_mm=np.ones(3, dtype=np.float32), center_mm=[3.5, 3.5, 0]
    )
    assert grid == GRID
    assert repr(grid) == repr(GRID)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GRID.shape = (1, 1, 1)


@given(grids())
def test_the_faces_enclose_the_size(grid):
    np.testing.assert_allclose(np.subtract(grid.high_mm, grid.low_mm), grid.size_mm, atol=1e-12)
    assert grid.n_voxels == np.prod(grid.shape)


@given(grids(), st.integers(0, 40))
def test_on_detector_rests_on_it(grid, gap_mm):
    rested = VolumeGrid.on_detector(grid.shape, grid.spacing_mm, gap_mm=gap_mm)
    np.testing.assert_allclose(rested.low_mm, (gap_mm, 0.0, -rested.size_mm[2] / 2), atol=1e-12)
    assert rested.size_mm == grid.size_mm


@given(grids(), st.tuples(*[st.integers(1, 4)] * 3))
def test_coarse_voxels_are_unions_of_fine_ones(grid, factor):
    coarse = grid.coarsen(factor)
    np.testing.assert_allclose(coarse.low_mm, grid.low_mm, atol=1e-12)
    assert all(n * f >= m > (n - 1) * f for n, f, m in zip(coarse.shape, factor, grid.shape, strict=True))
    # Fine faces i f and (i + 1) f are the faces of coarse voxel i.
    index = np.array(coarse.shape) - 1
    for step in (-0.5, 0.5):
        fine = (index + 0.5 + step) * factor - 0.5
        np.testing.assert_allclose(
            voxel_to_world(coarse, index + step), voxel_to_world(grid, fine), atol=1e-12
        )


@given(grids(), st.integers(1, 4))
def test_refining_keeps_the_box_and_coarsening_undoes_it(grid, factor):
    fine = grid.refine(factor)
    np.testing.assert_allclose(fine.low_mm, grid.low_mm, atol=1e-12)
    np.testing.assert_allclose(fine.high_mm, grid.high_mm, atol=1e-12)
    back = fine.coarsen(factor)
    assert back.shape == grid.shape
    np.testing.assert_allclose(back.spacing_mm, grid.spacing_mm)
    np.testing.assert_allclose(back.center_mm, grid.center_mm, atol=1e-12)


@given(grids())
def test_a_factor_of_one_changes_nothing(grid):
    assert grid.coarsen(1) == grid == grid.refine((1, 1, 1))


@pytest.mark.parametrize("shape", [(7, 7), (7, 7, 0), (7, 7, -1), (7, 7, 7.0), 7, "777"])
def test_a_wrong_shape_is_refused(shape):
    with pytest.raises(GeometryError, match=r"VolumeGrid: expected shape as one positive integer per axis"):
        dataclasses.replace(GRID, shape=shape)


@pytest.mark.parametrize(
    "spacing_mm", [(1, 1), (1, 1, 0), (1, 1, -1), (1, 1, np.nan), (1, 1, np.inf), (1, 1, "one"), None]
)
def test_a_wrong_spacing_is_refused(spacing_mm):
    with pytest.raises(GeometryError, match=r"VolumeGrid: expected spacing_mm as one positive finite number"):
        dataclasses.replace(GRID, spacing_mm=spacing_mm)


@pytest.mark.parametrize("center_mm", [(1, 1), (1, 1, np.nan), (1, 1, [2])])
def test_a_wrong_center_is_refused(center_mm):
    with pytest.raises(GeometryError, match=r"VolumeGrid: expected center_mm as one finite number per axis"):
        dataclasses.replace(GRID, center_mm=center_mm)


@pytest.mark.parametrize("factor", [0, -2, 1.5, (2, 2), (2, 2, 0)])
@pytest.mark.parametrize("name", ["coarsen", "refine"])
def test_a_wrong_factor_is_refused(name, factor):
    with pytest.raises(GeometryError, match=f"VolumeGrid.{name}: expected factor as one positive integer"):
        getattr(GRID, name)(factor)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"VolumeGrid.from_json: expected JSON text; got .*Pass text written by VolumeGrid.to_json"),
        ("[1]", "expected a JSON object; got list"),
        ("{}", "expected kind 'VolumeGrid'; got None"),
        (json.dumps({"kind": "Acquisition"}), "expected kind 'VolumeGrid'; got 'Acquisition'"),
        (json.dumps({"kind": "VolumeGrid", "shape": [1, 1, 1], "spacing_mm": [1, 1, 1]}), r"missing \['cent"),
        (GRID.to_json().replace("}", ', "extra": 1}'), r"not known \['extra'\]"),
        (GRID.to_json().replace("3.5", "null"), "expected center_mm as one finite number"),
    ],
)
def test_wrong_json_is_refused(text, message):
    with pytest.raises(GeometryError, match=message):
        VolumeGrid.from_json(text)


def test_slabs_are_slices_of_the_grid() -> None:
    grid = VolumeGrid.on_detector((7, 4, 5), (2.0, 3.0, 4.0), gap_mm=6.0)
    slab = grid.slab(2, 5)
    assert (slab.shape, slab.spacing_mm) == ((3, 4, 5), grid.spacing_mm)
    assert slab.low_mm == (10.0, 0.0, -10.0)
    assert grid.slab(0, 7) == grid
    for start, stop in ((3, 3), (-1, 2), (0, 8)):
        with pytest.raises(GeometryError, match=f"expected 0 <= start < stop <= 7; got {start} and {stop}"):
            grid.slab(start, stop)


@given(grid=grids(), most_voxels=st.integers(1, 500))
def test_a_grid_is_coarsened_no_further_than_needed(grid: VolumeGrid, most_voxels: int) -> None:
    coarse = grid.coarsened_to(most_voxels)
    assert coarse.n_voxels <= most_voxels
    assert coarse.low_mm == pytest.approx(grid.low_mm)
    if grid.n_voxels <= most_voxels:
        assert coarse == grid
    else:
        factor = round(coarse.spacing_mm[0] / grid.spacing_mm[0])
        assert coarse == grid.coarsen(factor)
        assert grid.coarsen(factor - 1).n_voxels > most_voxels
