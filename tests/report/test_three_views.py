"""Laws of the picture: a real PNG, the right slices the right way up, and no state left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report import three_views
from duotomo.report.three_views import draw_three_views

GRID = VolumeGrid.on_detector((6, 10, 14), (2.0, 1.0, 1.0))


MIDDLE_MM = GRID.center_mm[::-1]


def picture(path: Path, volume: torch.Tensor, *others: torch.Tensor) -> np.ndarray:
    columns = {"first": volume} | {f"other {n}": other for n, other in enumerate(others)}
    three_views(path, columns=columns, grid=GRID, unit="1/mm", at_mm=MIDDLE_MM)
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"), dtype=float)


def test_more_volumes_make_a_wider_picture(tmp_path: Path) -> None:
    volume = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0))
    widths = [picture(tmp_path / "a.png", *[volume] * n).shape[1] for n in (1, 2, 3)]
    # One column; two and their difference; three and one difference.
    assert widths[1] == pytest.approx(3 * widths[0], abs=3)
    assert widths[2] == pytest.approx(4 * widths[0], abs=4)


def test_bright_voxel_is_where_the_axes_say(tmp_path: Path) -> None:
    # Only the slice at fixed y, the second row, cuts either voxel; x runs to the right and z upwards.
    middle = GRID.shape[1] // 2
    high, low = torch.zeros(GRID.shape), torch.zeros(GRID.shape)
    high[-1, middle, -1] = 1.0
    low[0, middle, 0] = 1.0
    gain = (picture(tmp_path / "high.png", high) - picture(tmp_path / "low.png", low)).sum(axis=2)
    size = np.array(gain.shape)
    (high_row, high_column), (low_row, low_column) = (
        np.argwhere(sign * gain > 300).mean(axis=0) / size for sign in (1, -1)
    )
    assert 0.25 < high_row < low_row < 0.65
    assert high_column > low_column + 0.3


def test_all_pictures_have_boxes_of_one_size_and_one_scale() -> None:
    volume = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(1))
    figure = draw_three_views(columns={"a": volume, "b": 2 * volume}, grid=GRID, unit="1/mm")
    across, up = figure.get_size_inches()
    boxes = [axes.get_position() for axes in figure.axes[:9]]
    sizes = {(round(box.width * across, 6), round(box.height * up, 6)) for box in boxes}
    assert len(sizes) == 1
    assert len({round(box.x0, 6) for box in boxes}) == 3
    assert len({round(box.y0, 6) for box in boxes}) == 3
    assert len({round(float(np.ptp(axes.get_xlim())), 6) for axes in figure.axes[:9]}) == 1


def test_where_there_are_no_data_the_difference_is_hatched() -> None:
    volume = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(2))
    unseen = torch.zeros(GRID.shape, dtype=torch.bool)
    unseen[:, :, :3] = True
    other = torch.where(unseen, 100.0, volume + 0.1)
    figure = draw_three_views(columns={"a": volume, "b": other}, grid=GRID, unit="1/mm", unseen=unseen)
    above = figure.axes[6]
    assert [patch.get_gid() for patch in above.patches] == ["no data"]
    image = above.images[0]
    assert np.ma.getmaskarray(image.get_array())[:, :3].all()
    # And the colours are those of the rest.
    assert image.get_clim()[1] == pytest.approx(0.1, abs=1e-6)
    assert not any(axes.patches for axes in figure.axes[:6])


def test_equal_volumes_draw(tmp_path: Path) -> None:
    volume = torch.zeros(GRID.shape, dtype=torch.float64)
    drawn = picture(tmp_path / "a.png", volume, volume.clone())
    # Two columns and their difference, which has no limits of its own.
    assert drawn.shape[1] > 2.9 * picture(tmp_path / "b.png", volume).shape[1]


def test_no_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DuotomoError, match="three_views: expected at least one column; got none"):
        three_views(tmp_path / "a.png", columns={}, grid=GRID, unit="1/mm")


def test_reversed_axes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"three_views: expected truth \(z, y, x\) = .*Axes reversed\?"):
        three_views(tmp_path / "a.png", columns={"truth": torch.zeros(14, 10, 6)}, grid=GRID, unit="1/mm")


def test_slices_go_through_the_body_wherever_it_lies_in_the_grid() -> None:
    volume = torch.zeros(GRID.shape)
    volume[1:3, 0:2, 10:13] = 1.0
    figure = draw_three_views(columns={"a": volume}, grid=GRID, unit="1/mm")
    assert [float(axes.images[0].get_array().max()) for axes in figure.axes[:3]] == [1.0] * 3
    assert [axes.get_title().split("\n")[-1] for axes in figure.axes[:3]] == [
        "z = 5.0 mm",
        "y = 1.5 mm",
        "x = 4.5 mm",
    ]
    with pytest.raises(DuotomoError, match="three_views: expected at_mm"):
        draw_three_views(columns={"a": volume}, grid=GRID, unit="1/mm", at_mm=(0.0, 0.0, 99.0))
