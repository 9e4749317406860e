"""Laws of acquisitions and of binning."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import Acquisition, VolumeGrid, pixel_to_world
from duotomo.geometry.binning import bin_projections
from tests.strategies import acquisitions, scans

ONE_VIEW = Acquisition(
    source_mm=[(0, 0, 660)],
    detector_center_mm=[(0, 10, 0)],
    u_axis=[(1, 0, 0)],
    v_axis=[(0, 1, 0)],
    pixel_spacing_mm=(1, 1),
    detector_shape=(20, 30),
)
ARC = {
    "n_views": 5,
    "angle_range_rad": 0.8,
    "source_to_detector_mm": 660.0,
    "pivot_height_mm": 40.0,
    "detector_shape": (20, 30),
    "pixel_spacing_mm": (1.0, 0.5),
}
FIVE_VIEWS = Acquisition.arc(**ARC)
factors = st.one_of(st.integers(1, 9), st.tuples(st.integers(1, 9), st.integers(1, 9)))


def two_views(**changes):
    """A scan of two views in which the second has these values."""
    fields = dataclasses.asdict(ONE_VIEW)
    for name, value in changes.items():
        fields[name] = [fields[name][0], value]
    for name in ("source_mm", "detector_center_mm", "u_axis", "v_axis"):
        if name not in changes:
            fields[name] = [fields[name][0]] * 2
    return Acquisition(**fields)


def assert_close(one, other):
    assert one.detector_shape == other.detector_shape
    np.testing.assert_allclose(one.pixel_spacing_mm, other.pixel_spacing_mm, rtol=1e-12)
    for name in ("sources_mm", "detector_centers_mm", "u_axes", "v_axes"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-9)


def test_it_prints_as_the_call_that_rebuilds_it():
    assert repr(ONE_VIEW) == (
        "Acquisition(source_mm=((0.0, 0.0, 660.0),), detector_center_mm=((0.0, 10.0, 0.0),), "
        "u_axis=((1.0, 0.0, 0.0),), v_axis=((0.0, 1.0, 0.0),), pixel_spacing_mm=(1.0, 1.0), "
        "detector_shape=(20, 30))"
    )


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ONE_VIEW.detector_shape = (1, 1)


@given(acquisitions())
def test_arrays_have_one_row_per_view(scan):
    assert scan.shape == (len(scan), *scan.detector_shape)
    for array in (scan.sources_mm, scan.detector_centers_mm, scan.u_axes, scan.v_axes, scan.normals):
        assert array.shape == (scan.n_views, 3)
        assert array.dtype == np.float64


@given(acquisitions())
def test_normals_are_unit_at_right_angles_and_look_at_the_source(scan):
    np.testing.assert_allclose(np.linalg.norm(scan.normals, axis=1), 1)
    np.testing.assert_allclose(np.sum(scan.normals * scan.u_axes, axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.sum(scan.normals * scan.v_axes, axis=1), 0, atol=1e-12)
    assert (np.sum(scan.normals * (scan.sources_mm - scan.detector_centers_mm), axis=1) > 0).all()


def test_swapping_the_axes_keeps_the_normal():
    swapped = dataclasses.replace(ONE_VIEW, u_axis=ONE_VIEW.v_axis, v_axis=ONE_VIEW.u_axis)
    np.testing.assert_array_equal(swapped.normals, ONE_VIEW.normals)


@given(acquisitions(), st.data())
def test_slicing_selects_rows(scan, data):
    n_views = len(scan)
    numbers = np.arange(n_views)
    mask = data.draw(st.lists(st.booleans(), min_size=n_views, max_size=n_views).filter(any))
    views = data.draw(st.lists(st.integers(-n_views, n_views - 1), min_size=1, max_size=6))
    start = data.draw(st.integers(0, n_views - 1))
    for index in (slice(start, None), slice(None, None, -1), views, np.array(views), mask, np.array(mask)):
        np.testing.assert_array_equal(scan[index].sources_mm, scan.sources_mm[numbers[index]])
        np.testing.assert_array_equal(scan[index].u_axes, scan.u_axes[numbers[index]])
    assert scan[start] == scan[[start]] == scan[start : start + 1] == scan[start - n_views]
    assert scan[:] == scan == scan[::-1][::-1]
    assert list(scan) == [scan[view] for view in range(n_views)]


@pytest.mark.parametrize("views", [slice(0, 0), [], [False] * 5])
def test_zero_views_left_are_refused(views):
    with pytest.raises(GeometryError, match="expected at least one view; got zero of 5"):
        FIVE_VIEWS[views]


@pytest.mark.parametrize("views", [5, -6, [0, 5]])
def test_views_out_of_range_are_refused(views):
    with pytest.raises(GeometryError, match=r"expected views from -5 to 4; got .* The scan has 5 views"):
        FIVE_VIEWS[views]


@pytest.mark.parametrize("views", [1.0, [0.0, 1.0], [True, False], "12", [[0], [1]], None])
def test_other_indices_are_refused(views):
    with pytest.raises(GeometryError, match="expected an index, a slice, a list of indices or a mask of 5"):
        FIVE_VIEWS[views]


@given(acquisitions(), factors)
def test_binning_keeps_the_low_corner_and_unites_pixels(scan, factor):
    coarse = scan.bin(factor)
    wanted = np.broadcast_to(factor, 2)
    per_bin = np.minimum(wanted, scan.detector_shape)
    np.testing.assert_array_equal(coarse.detector_shape, np.maximum(scan.detector_shape // wanted, 1))
    for corner in ((0, 0), coarse.detector_shape):
        np.testing.assert_allclose(
            pixel_to_world(coarse, np.array(corner) - 0.5),
            pixel_to_world(scan, np.array(corner) * per_bin - 0.5),
            atol=1e-9,
        )


@given(acquisitions(), factors)
def test_binned_projections_are_means_with_the_binned_shape(scan, factor):
    projections = np.random.default_rng(0).normal(size=(2, *scan.shape))
    binned = bin_projections(projections, factor)
    coarse = scan.bin(factor)
    assert binned.shape == (2, *coarse.shape)
    f_v, f_u = np.minimum(np.broadcast_to(factor, 2), scan.detector_shape)
    np.testing.assert_allclose(binned[..., -1, -1], _last_block(projections, coarse, f_v, f_u).mean((-2, -1)))
    as_tensor = bin_projections(torch.from_numpy(projections), factor)
    np.testing.assert_allclose(as_tensor.numpy(), binned)


def _last_block(projections, coarse, f_v, f_u):
    n_v, n_u = coarse.detector_shape
    return projections[..., (n_v - 1) * f_v : n_v * f_v, (n_u - 1) * f_u : n_u * f_u]


def test_binning_keeps_the_dtype():
    assert bin_projections(np.ones((2, 4, 4), dtype=np.float32), 2).dtype == np.float32
    assert bin_projections(torch.ones(2, 4, 4, dtype=torch.float32), 2).dtype == torch.float32


def test_projections_without_a_detector_are_refused():
    with pytest.raises(ShapeError, match=r"bin_projections: expected projections \(..., v, u\); got shape"):
        bin_projections(np.ones(4), 2)


@pytest.mark.parametrize("factor", [0, 2.5, (1, 2, 3)])
def test_a_wrong_factor_is_refused(factor):
    with pytest.raises(GeometryError, match=r"Acquisition\.bin: expected factor as one positive integer"):
        ONE_VIEW.bin(factor)
    with pytest.raises(GeometryError, match="bin_projections: expected factor as one positive integer"):
        bin_projections(np.ones((4, 4)), factor)


def test_the_arc_has_its_angles_radius_and_detector():
    pivot = np.array([0, 0, 40.0])
    np.testing.assert_allclose(np.linalg.norm(FIVE_VIEWS.sources_mm - pivot, axis=1), 620)
    about_pivot = np.arctan2(FIVE_VIEWS.sources_mm[:, 0], FIVE_VIEWS.sources_mm[:, 2] - 40)
    np.testing.assert_allclose(about_pivot, [-0.4, -0.2, 0.0, 0.2, 0.4], atol=1e-12)
    assert FIVE_VIEWS.source_mm[2] == (0.0, 0.0, 660.0)
    np.testing.assert_allclose(pixel_to_world(FIVE_VIEWS, (-0.5, -0.5)), [(-7.5, 0, 0)] * 5, atol=1e-12)


def test_angles_are_seen_from_the_detector():
    on_detector = Acquisition.arc(**{**ARC, "pivot_height_mm": 0.0})
    np.testing.assert_allclose(on_detector.angles_rad, [-0.4, -0.2, 0.0, 0.2, 0.4], atol=1e-12)


def test_one_view_of_an_arc_looks_straight_down():
    assert Acquisition.arc(**{**ARC, "n_views": 1}).source_mm == ((0.0, 0.0, 660.0),)


def test_a_detector_that_turns_as_far_as_the_source_faces_it():
    scan = Acquisition.arc(**ARC, detector_tilt_range_rad=ARC["angle_range_rad"])
    towards_source = scan.sources_mm - [0, 0, 40]
    np.testing.assert_allclose(
        scan.normals, towards_source / np.linalg.norm(towards_source, axis=1)[:, None], atol=1e-12
    )
    # Turned about the pivot as one piece, source and detector keep their distance.
    apart_mm = (scan.sources_mm - scan.detector_centers_mm)[:, [0, 2]]
    np.testing.assert_allclose(np.linalg.norm(apart_mm, axis=1), 660)


@given(acquisitions())
def test_from_vectors_rebuilds_a_scan(scan):
    d_v, d_u = scan.pixel_spacing_mm
    rebuilt = Acquisition.from_vectors(
        source_mm=scan.sources_mm,
        detector_center_mm=scan.detector_centers_mm,
        u_mm=d_u * scan.u_axes,
        v_mm=d_v * scan.v_axes,
        detector_shape=scan.detector_shape,
    )
    assert_close(rebuilt, scan)


@pytest.mark.parametrize("lengths", [(1.0, 1.1), (0.0, 0.0)])
def test_vectors_of_several_lengths_are_refused(lengths):
    with pytest.raises(
        GeometryError, match="from_vectors: expected u_mm of one positive length in all views"
    ):
        Acquisition.from_vectors(
            source_mm=[(0, 0, 660)] * 2,
            detector_center_mm=[(0, 10, 0)] * 2,
            u_mm=[(length, 0, 0) for length in lengths],
            v_mm=[(0, 1, 0)] * 2,
            detector_shape=(20, 30),
        )


@pytest.mark.parametrize("n_views", [0, -1, 2.0])
def test_an_arc_without_views_is_refused(n_views):
    with pytest.raises(GeometryError, match="expected n_views as one positive integer"):
        Acquisition.arc(**{**ARC, "n_views": n_views})


def test_a_pivot_above_the_source_is_refused():
    with pytest.raises(GeometryError, match=r"expected source_to_detector_mm above pivot_height_mm; got 660"):
        Acquisition.arc(**{**ARC, "pivot_height_mm": 700.0})


@pytest.mark.parametrize("name", ["angle_range_rad", "source_to_detector_mm", "pivot_height_mm"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_arc_that_is_not_finite_is_refused(name, value):
    with pytest.raises(GeometryError, match="expected finite angles and distances; got"):
        Acquisition.arc(**{**ARC, name: value})


def test_a_sweep_below_the_detector_is_refused():
    with pytest.raises(GeometryError, match="in view 0: detector behind the source"):
        Acquisition.arc(**{**ARC, "angle_range_rad": 4.0})


@pytest.mark.parametrize("name", ["source_mm", "detector_center_mm", "u_axis", "v_axis"])
def test_vectors_that_are_not_triples_are_refused(name):
    with pytest.raises(GeometryError, match=rf"expected {name} as \(view, xyz\) .*; got zero views"):
        dataclasses.replace(ONE_VIEW, **{name: []})
    with pytest.raises(GeometryError, match=rf"expected {name} as \(view, xyz\) .*; got shape \(1, 2\)"):
        dataclasses.replace(ONE_VIEW, **{name: [(0, 1)]})
    with pytest.raises(GeometryError, match=rf"expected {name} as \(view, xyz\) .*; got 'up'"):
        dataclasses.replace(ONE_VIEW, **{name: "up"})
    with pytest.raises(GeometryError, match=rf"expected {name} to be finite; got .*nan.* in view 1"):
        two_views(**{name: (0, np.nan, 1)})


def test_unequal_numbers_of_views_are_refused():
    with pytest.raises(GeometryError, match=r"same number of views in all; got \{'source_mm': 2, 'det"):
        dataclasses.replace(ONE_VIEW, source_mm=[(0, 0, 660)] * 2)


@pytest.mark.parametrize("name", ["u_axis", "v_axis"])
def test_axes_that_are_not_unit_are_refused(name):
    with pytest.raises(GeometryError, match=f"expected {name} of length 1; got length 1.00001 in view 1"):
        two_views(**{name: (0, 1.00001, 0)})


def test_axes_that_are_not_at_right_angles_are_refused():
    with pytest.raises(GeometryError, match=r"at right angles; got a cosine of 0.6 in view 1"):
        two_views(u_axis=(0.8, 0.6, 0))


@pytest.mark.parametrize("height_mm", [0, -1])
def test_a_detector_behind_the_source_is_refused(height_mm):
    with pytest.raises(
        GeometryError, match=r"expected the detector below the source; .* in view 1: detector"
    ):
        two_views(source_mm=(0, 0, height_mm))


def test_a_source_on_the_plane_of_the_detector_is_refused():
    with pytest.raises(GeometryError, match=r"expected the source off the detector's plane; .* in view 1\."):
        two_views(u_axis=(0, 0, 1))


@pytest.mark.parametrize("spacing_mm", [(1, 0), (1, -1), (1, np.nan), (1, 1, 1)])
def test_a_wrong_pixel_spacing_is_refused(spacing_mm):
    with pytest.raises(
        GeometryError, match="expected pixel_spacing_mm as one positive finite number per axis"
    ):
        dataclasses.replace(ONE_VIEW, pixel_spacing_mm=spacing_mm)


@pytest.mark.parametrize("shape", [(1, 0), (1.5, 1), (1, 1, 1)])
def test_a_wrong_detector_shape_is_refused(shape):
    with pytest.raises(GeometryError, match="expected detector_shape as one positive integer per axis"):
        dataclasses.replace(ONE_VIEW, detector_shape=shape)


@given(scans())
def test_scans_have_the_source_above_the_grid(pair):
    grid, scan = pair
    scan.check_above(grid)


def test_a_source_inside_the_grid_is_refused():
    grid = VolumeGrid.on_detector((660, 1, 1), (1, 1, 1))
    with pytest.raises(GeometryError, match=r"top face, z = 660.0 mm; got z = 611.* mm in view 0. Lower"):
        FIVE_VIEWS.check_above(grid)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "Acquisition.from_json: expected JSON text"),
        ("3", "expected a JSON object; got int"),
        (json.dumps({"kind": "VolumeGrid"}), "expected kind 'Acquisition'; got 'VolumeGrid'"),
        (json.dumps({"kind": "Acquisition"}), r"missing \['detector_center_mm', 'detector_shape', 'pixel_sp"),
        (ONE_VIEW.to_json().replace("}", ', "w_axis": 1}'), r"not known \['w_axis'\]"),
    ],
)
def test_wrong_json_is_refused(text, message):
    with pytest.raises(GeometryError, match=message):
        Acquisition.from_json(text)
