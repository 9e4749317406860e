"""Laws of figures of many small pictures, and of lattices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid, paper
from duotomo.report.control_grids import draw_control_grids
from duotomo.report.montage import draw_montage
from duotomo.report.projections import draw_projections
from duotomo.report.views import CHEST_WALL

RNG = np.random.default_rng(3)
GRID = VolumeGrid.on_detector((6, 7, 8), (2.0, 1.0, 1.0))
VOLUME = RNG.random(GRID.shape)
SCAN = paper(detector_shape=(4, 5), pixel_mm=2.0)
Y, X = np.meshgrid([1.0, 3.0, 6.0], [-3.0, 0.0, 2.0, 4.0], indexing="ij")
POINTS = np.stack([X, Y, np.full_like(X, 5.0)], axis=-1)


def test_montage_shows_every_slice_in_order_in_one_scale() -> None:
    figure = draw_montage(volume=torch.from_numpy(VOLUME), grid=GRID, unit="1/mm", every=2, n_columns=2)
    pictures = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in pictures] == ["z = 1.0 mm", "5.0", "9.0"]
    for axes, z in zip(pictures, (0, 2, 4), strict=True):
        assert np.array_equal(np.asarray(axes.images[0].get_array()), VOLUME[z])
        assert axes.images[0].get_clim() == (VOLUME.min(), VOLUME.max())
    # One bar for all.
    assert [len(axes.lines) for axes in pictures] == [1, 0, 0]
    tops = [axes.get_position().y1 for axes in pictures]
    assert tops[0] == tops[1] > tops[2]


def test_montage_of_differences_is_symmetric() -> None:
    figure = draw_montage(volume=VOLUME - 0.9, grid=GRID, unit="1/mm", difference=True)
    low, high = figure.axes[0].images[0].get_clim()
    assert low == -high == (VOLUME - 0.9).min()
    assert figure.axes[-1].get_ylabel() == "difference, 1/mm"


@pytest.mark.parametrize("name", ["every", "n_columns"])
def test_montage_refuses_counts_below_one(name: str) -> None:
    with pytest.raises(DuotomoError, match=f"montage: expected {name} >= 1; got 0"):
        draw_montage(volume=VOLUME, grid=GRID, unit="1/mm", **{name: 0})  # type: ignore[arg-type]


def test_montage_refuses_another_grid() -> None:
    with pytest.raises(ShapeError, match=r"montage: expected volume \(z, y, x\)"):
        draw_montage(volume=VOLUME[:-1], grid=GRID, unit="1/mm")


def test_projections_share_a_window_and_carry_their_angles() -> None:
    first, second = RNG.random(SCAN.shape), 3 * RNG.random(SCAN.shape) - 1
    few = SCAN[:3]
    figure = draw_projections(visits={"reference": (first, SCAN), "second": (second[:3], few)})
    pictures = [axes for axes in figure.axes if axes.images]
    assert len(pictures) == 14
    windows = {axes.images[0].get_clim() for axes in pictures}
    assert windows == {(second[:3].min(), max(first.max(), second[:3].max()))}
    angles = [float(axes.get_title().rstrip("°").replace("\N{MINUS SIGN}", "-")) for axes in pictures[:11]]
    assert np.allclose(angles, np.arange(-25, 26, 5))
    assert pictures[0].get_xlim() == (-5.0, 5.0)
    assert pictures[0].get_ylim() == (-4.0, 4.0)
    assert np.array_equal(np.asarray(pictures[12].images[0].get_array()), second[1])
    assert [text.get_text() for text in figure.texts] == ["reference", "second"]
    assert {axes.get_ylabel() for axes in pictures} == {"v, mm", ""}
    assert {axes.get_xlabel() for axes in pictures} == {"u, mm", ""}


def test_wrong_projections_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"projections: expected a \(view, v, u\) = .*; got \(2, 4, 5\)"):
        draw_projections(visits={"a": (np.ones((2, 4, 5)), SCAN)})
    with pytest.raises(DuotomoError, match="projections: expected at least one of visits"):
        draw_projections(visits={})
    with pytest.raises(DuotomoError, match="projections: expected n_columns >= 1; got 0"):
        draw_projections(visits={"a": (np.ones(SCAN.shape), SCAN)}, n_columns=0)


def test_lattices_are_drawn_as_their_rows_and_columns() -> None:
    figure = draw_control_grids(lattices={"regular": POINTS, "true": POINTS + 1.0}, grid=GRID)
    (axes,) = figure.axes
    assert len(axes.lines) == 2 * (3 + 4)
    assert np.array_equal(axes.lines[1].get_xydata(), POINTS[1, :, :2])
    assert np.array_equal(axes.lines[4].get_xydata(), POINTS[:, 1, :2])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["regular", "true"]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < -4.0 < 5.0 < right
    assert low < 0.0 < 7.0 < high


def test_lattices_lie_beside_the_slice_in_the_same_frame() -> None:
    figure = draw_control_grids(
        lattices={"regular": POINTS}, grid=GRID, view=CHEST_WALL, volume=VOLUME, at_mm=(0.5, 2.5, 5.0)
    )
    picture, axes = figure.axes
    assert np.array_equal(np.asarray(picture.images[0].get_array()), VOLUME[:, 2, :])
    assert picture.get_title() == "from the chest wall, y = 2.5 mm"
    assert (picture.get_xlim(), picture.get_ylim()) == (axes.get_xlim(), axes.get_ylim())
    assert np.array_equal(axes.lines[0].get_xydata(), POINTS[0][:, [0, 2]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x, mm", "z, mm")


@pytest.mark.parametrize("points", [POINTS[:, :, :2], POINTS[:1]])
def test_wrong_lattices_are_refused(points: np.ndarray) -> None:
    with pytest.raises(ShapeError, match=r"control_grids: expected a \(row, column, xyz\) of at least 2 x 2"):
        draw_control_grids(lattices={"a": points}, grid=GRID)


def test_no_lattices_are_refused() -> None:
    with pytest.raises(DuotomoError, match="control_grids: expected at least one of lattices"):
        draw_control_grids(lattices={}, grid=GRID)
