"""Laws of slices and views: the right plane, shared scales, arrows where they point."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DtypeError, DuotomoError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report.displacement import draw_displacement_errors
from duotomo.report.slices import draw_slices
from duotomo.report.views import THREE, cut_volume, voxel_at, voxel_center_mm

GRID = VolumeGrid.on_detector((6, 7, 8), (2.0, 1.0, 1.0))
VOLUME = np.random.default_rng(1).random(GRID.shape)
index = st.tuples(*(st.integers(0, n - 1) for n in GRID.shape))


@given(index)
def test_a_voxel_holds_its_centre(voxel: tuple[int, int, int]) -> None:
    assert voxel_at("slices", GRID, voxel_center_mm(GRID, voxel)) == voxel


def test_the_faces_of_the_box_belong_to_it() -> None:
    assert voxel_at("slices", GRID, GRID.low_mm[::-1]) == (0, 0, 0)
    assert voxel_at("slices", GRID, GRID.high_mm[::-1]) == (5, 6, 7)


@given(index)
def test_a_bright_voxel_is_seen_at_its_centre_in_every_view(voxel: tuple[int, int, int]) -> None:
    volume = np.zeros(GRID.shape)
    volume[voxel] = 1.0
    point = voxel_center_mm(GRID, voxel)
    for view in THREE:
        ((row, column),) = np.argwhere(cut_volume(volume, view, voxel))
        right_mm, up_mm = view.of(point)
        assert right_mm == GRID.low_mm[view.horizontal] + (column + 0.5) * GRID.spacing_mm[view.horizontal]
        assert up_mm == GRID.low_mm[view.vertical] + (row + 0.5) * GRID.spacing_mm[view.vertical]


@pytest.mark.parametrize("view", THREE, ids=lambda view: view.seen_from)
def test_views_are_right_handed(view: object) -> None:
    unit = np.eye(3)[::-1]  # of (z, y, x), as xyz
    eye = {"from above": (0, 0, 1), "from the chest wall": (0, -1, 0), "from the side": (1, 0, 0)}
    towards = np.cross(unit[view.horizontal], unit[view.vertical])  # type: ignore[attr-defined]
    assert tuple(towards) == eye[view.seen_from]  # type: ignore[attr-defined]


def test_rows_share_a_window_and_differences_a_symmetric_one() -> None:
    figure = draw_slices(
        rows={"truth": VOLUME, "other": torch.from_numpy(3 * VOLUME)},
        differences={"small": VOLUME - 0.5, "large": 5 * VOLUME},
        grid=GRID,
        unit="1/mm",
    )
    windows = [axes.images[0].get_clim() for axes in figure.axes if axes.images]
    assert len(windows) == 12
    assert set(windows[:6]) == {(VOLUME.min(), VOLUME.max())}
    assert len(set(windows[6:])) == 1
    low, high = windows[6]
    assert low == -high
    assert 4 < high <= 5
    titles = [text.get_text() for text in figure.texts]
    assert titles == ["truth", "other", "small", "large"]
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert "attenuation, 1/mm" in labels
    assert "difference, 1/mm" in labels


def test_what_is_given_is_drawn() -> None:
    at_mm = (-1.5, 2.5, 7.0)
    figure = draw_slices(
        rows={"f": VOLUME},
        differences={"d": VOLUME},
        grid=GRID,
        unit="1/mm",
        window=(0.2, 0.4),
        difference_limit=0.3,
        at_mm=at_mm,
    )
    heads = [axes.get_title().split("\n")[1] for axes in figure.axes[:3]]
    assert heads == ["z = 7.0 mm", "y = 2.5 mm", "x = -1.5 mm"]
    assert figure.axes[0].images[0].get_clim() == (0.2, 0.4)
    pictures = [axes for axes in figure.axes if axes.images]
    assert pictures[3].images[0].get_clim() == (-0.3, 0.3)
    for axes, view in zip(pictures, THREE, strict=False):
        shown = np.asarray(axes.images[0].get_array())
        assert np.array_equal(shown, cut_volume(VOLUME, view, (3, 2, 2)))


def test_names_of_axes_stand_on_the_left_and_below() -> None:
    figure = draw_slices(rows={"a": VOLUME, "b": VOLUME}, grid=GRID, unit="1/mm")
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes if axes.images]
    assert labels[:3] == [("", "y, mm"), ("", "z, mm"), ("", "")]
    assert labels[3:] == [("x, mm", "y, mm"), ("x, mm", "z, mm"), ("y, mm", "")]


def test_arrows_point_where_a_cut_passes_close_and_only_in_rows() -> None:
    near, far = (0.5, 3.5, 5.0), (0.5, 3.5, 11.9)
    figure = draw_slices(
        rows={"f": VOLUME}, differences={"d": VOLUME}, grid=GRID, unit="1/mm", at_mm=near, arrows=[near, far]
    )
    # Scale bar's words apart, an arrow is a note without words.
    tips = [[note.xy for note in axes.texts if not note.get_text()] for axes in figure.axes if axes.images]
    assert tips[0] == [(0.5, 3.5)]
    assert tips[1] == [(0.5, 5.0), (0.5, 11.9)]
    assert tips[2] == [(3.5, 5.0), (3.5, 11.9)]
    assert tips[3:] == [[], [], []]


def test_constant_volumes_draw() -> None:
    zero = np.zeros(GRID.shape)
    figure = draw_slices(rows={"f": zero}, differences={"d": zero}, grid=GRID, unit="1/mm")
    assert figure.axes[0].images[0].get_clim() == (0.0, 1.0)


def test_a_difference_is_hatched_where_a_visit_has_no_data_and_its_colours_are_of_the_rest() -> None:
    change = torch.full(GRID.shape, 0.1)
    unseen = torch.zeros(GRID.shape, dtype=torch.bool)
    unseen[:, :, 0] = True
    change[unseen] = 50.0
    rows, differences = {"volume": torch.rand(GRID.shape)}, {"change": change}
    figure = draw_slices(
        rows=rows, differences=differences, unseen={"change": unseen}, grid=GRID, unit="1/mm"
    )
    hatched = [axes for axes in figure.axes if any(one.get_gid() == "no data" for one in axes.patches)]
    # From above and from the chest wall; the cut seen from the side passes elsewhere.
    assert len(hatched) == 2
    for axes in hatched:
        assert axes.images[0].get_clim() == pytest.approx((-0.1, 0.1))
    with pytest.raises(
        ShapeError, match=r"slices: expected unseen of 'change' \(z, y, x\) = .*; got \(2, 2\)"
    ):
        draw_slices(
            rows=rows,
            differences=differences,
            unseen={"change": torch.zeros(2, 2, dtype=torch.bool)},
            grid=GRID,
            unit="1/mm",
        )


def test_arrays_that_may_not_be_written_to_are_read() -> None:
    fixed = VOLUME.copy()
    fixed.flags.writeable = False
    figure = draw_slices(rows={"f": fixed}, grid=GRID, unit="1/mm")
    free = draw_slices(rows={"f": VOLUME}, grid=GRID, unit="1/mm")
    for axes, other in zip(figure.axes[:3], free.axes[:3], strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), other.images[0].get_array())


def test_wrong_inputs_are_refused() -> None:
    def refused(error: type[Exception], match: str, **changes: object) -> None:
        inputs: dict[str, object] = {"rows": {"f": VOLUME}, "grid": GRID, "unit": "1/mm"}
        with pytest.raises(error, match=match):
            draw_slices(**(inputs | changes))  # type: ignore[arg-type]

    refused(DuotomoError, "slices: expected at least one of rows; got none", rows={})
    refused(ShapeError, r"slices: expected f \(z, y, x\) = .*Axes reversed", rows={"f": VOLUME.T})
    refused(ShapeError, r"slices: expected d \(z, y, x\)", differences={"d": VOLUME[0]})
    refused(DtypeError, "slices: expected f as a torch.Tensor", rows={"f": [1.0]})
    refused(NonFiniteError, "slices: expected f to be finite", rows={"f": np.full(GRID.shape, np.nan)})
    refused(DuotomoError, r"slices: expected window \(low, high\).*got \(1.0, 0.0\)", window=(1.0, 0.0))
    refused(DuotomoError, r"slices: expected at_mm \(x, y, z\) inside.*got \(99.0,", at_mm=(99.0, 0.0, 0.0))
    refused(DuotomoError, r"slices, arrows: expected at_mm", arrows=[(99.0, 0.0, 0.0)])
    refused(
        DuotomoError,
        "slices: expected difference_limit above 0; got -1",
        differences={"d": VOLUME},
        difference_limit=-1.0,
    )


def test_displacement_errors_share_a_scale_from_zero_and_blank_what_is_outside() -> None:
    mask = np.zeros(GRID.shape, dtype=bool)
    mask[2:5, 2:6, 2:6] = True
    error = np.where(mask, 1.0, 50.0)
    figure = draw_displacement_errors(
        rows={"a": error, "b": 2 * error}, grid=GRID, mask=torch.from_numpy(mask)
    )
    pictures = [axes.images[0] for axes in figure.axes if axes.images]
    assert {image.get_clim() for image in pictures} == {(0.0, 2.0)}
    for image, view in zip(pictures, 2 * THREE, strict=True):
        hidden = np.ma.getmaskarray(np.ma.masked_invalid(image.get_array()))
        assert np.array_equal(~hidden, cut_volume(mask, view, (3, 3, 4)))
    assert figure.texts[1].get_text() == "b: mean 2.00 mm, 95 % below 2.00 mm"


def test_displacement_errors_refuse_what_is_no_magnitude() -> None:
    error = np.ones(GRID.shape)
    with pytest.raises(DuotomoError, match=r"expected a as magnitudes in mm; got -1\.0"):
        draw_displacement_errors(rows={"a": -error}, grid=GRID)
    with pytest.raises(ShapeError, match=r"expected mask \(z, y, x\) = \(6, 7, 8\); got \(2,\)"):
        draw_displacement_errors(rows={"a": error}, grid=GRID, mask=np.ones(2))
    with pytest.raises(DuotomoError, match="expected mask with true voxels; got none"):
        draw_displacement_errors(rows={"a": error}, grid=GRID, mask=0 * error)
    with pytest.raises(DuotomoError, match="expected limit_mm above 0; got 0"):
        draw_displacement_errors(rows={"a": error}, grid=GRID, limit_mm=0.0)
    with pytest.raises(DuotomoError, match="displacement_errors: expected at least one of rows"):
        draw_displacement_errors(rows={}, grid=GRID)
