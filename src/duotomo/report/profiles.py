"""Values of volumes along lines through one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES, Array, some, volumes, window_of
from duotomo.report.figure import draw_legend, legend_mm, new_figure, place
from duotomo.report.style import COLOURS, GREY, LINES, WIDTH_MM, Floats, styled, written
from duotomo.report.views import (
    ABOVE,
    CHEST_WALL,
    SIDE,
    Point,
    View,
    cut_volume,
    draw_plane,
    few_ticks,
    voxel_at,
    voxel_center_mm,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# For the lines along x, y and z.
_VIEWS = (ABOVE, SIDE, CHEST_WALL)
_LINES = (2, 1, 0)
_COLUMN_MM, _BEFORE_MM, _AFTER_MM, _TALLEST_MM = 46.0, 13.0, 3.0, 55.0
_YELLOW = "#F0E442"
_VIEW_NAMES_MM, _NUMBERS_MM, _PROFILE_MM, _BELOW_MM = 8.0, 11.0, 44.0, 9.5


@styled
def draw_profiles(
    *,
    rows: Mapping[str, Array],
    grid: VolumeGrid,
    unit: str,
    at_mm: Sequence[float] | None = None,
    window: tuple[float, float] | None = None,
) -> Figure:
    """Draw values along x, y and z through one voxel, each under a slice of the first volume that it crosses.

    The first volume is black, the others have their own colours and dashes; all profiles share their values'
    axis.

    Parameters
    ----------
    rows : mapping of str to torch.Tensor or numpy.ndarray
        Title to volume, (z, y, x) on `grid`, the truth first.
    grid : VolumeGrid
        Of the volumes.
    unit : str
        Of the values, such as "1/mm".
    at_mm : sequence of float, optional
        Point xyz in the voxel that the lines cross; the grid's middle unless given.
    window : tuple of float, optional
        The values drawn black and white; the least and largest of the first volume unless given.

    Returns
    -------
    matplotlib.figure.Figure
        Three columns: a slice above the profile along one axis.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_profiles(rows={"truth": np.ones((4, 5, 6))}, grid=grid, unit="1/mm")
    >>> [axes.get_xlabel() for axes in figure.axes[1::2]]
    ['along x, mm', 'along y, mm', 'along z, mm']
    """
    where = "profiles"
    drawn = volumes(where, some(where, "rows", rows), grid)
    first = next(iter(drawn.values()))
    grey = window_of(where, window, first)
    voxel = voxel_at(where, grid, at_mm)
    sizes_mm = [view.size_mm(grid) for view in _VIEWS]
    tallest_mm = min(_TALLEST_MM, max(_COLUMN_MM * up / across for across, up in sizes_mm))
    above_mm = legend_mm(drawn) + _VIEW_NAMES_MM + tallest_mm
    figure = new_figure(above_mm + _NUMBERS_MM + _PROFILE_MM + _BELOW_MM)
    lines = {axis: {title: volume[_along(axis, voxel)] for title, volume in drawn.items()} for axis in _LINES}
    values = np.concatenate([line for along in lines.values() for line in along.values()])
    room = 0.05 * float(np.ptp(values) or 1.0)

    apart_mm = (WIDTH_MM - _BEFORE_MM - _COLUMN_MM - _AFTER_MM) / 2
    for column, (view, axis, (across, up)) in enumerate(zip(_VIEWS, _LINES, sizes_mm, strict=True)):
        left_mm = _BEFORE_MM + column * apart_mm
        width_mm = min(_COLUMN_MM, tallest_mm * across / up)
        height_mm = width_mm * up / across
        picture = place(figure, left_mm, above_mm - height_mm, width_mm, height_mm)
        draw_plane(picture, cut_volume(first, view, voxel), view, grid, colours=GREY, window=grey)
        _draw_line(picture, view, axis, voxel_center_mm(grid, voxel))

        axes = place(figure, left_mm, above_mm + _NUMBERS_MM, _COLUMN_MM, _PROFILE_MM)
        _draw_values(axes, lines[axis], grid, axis)
        axes.set_ylim(values.min() - room, values.max() + room)
        few_ticks(axes)
        axes.tick_params(labelleft=column == 0)
        if column == 0:
            axes.set_ylabel(f"attenuation, {unit}")
    draw_legend(figure, axes, place="upper left")
    return figure


def _along(axis: int, voxel: Sequence[int]) -> tuple[int | slice, ...]:
    """The index of the line through a voxel (z, y, x)."""
    return tuple(slice(None) if number == axis else index for number, index in enumerate(voxel))


def _draw_line(picture: Axes, view: View, axis: int, point_mm: Point) -> None:
    """Draw where a line along (z, y, x)[axis] through a point xyz crosses the picture."""
    picture.set_title(f"{view.seen_from}\n{AXES[view.cut]} = {view.depth_mm(point_mm):.1f} mm")
    right_mm, up_mm = view.of(point_mm)
    dashes = (0, (4, 2))
    if axis == view.horizontal:
        picture.axhline(up_mm, color=_YELLOW, linewidth=1.0, linestyle=dashes)
    else:
        picture.axvline(right_mm, color=_YELLOW, linewidth=1.0, linestyle=dashes)


def _draw_values(axes: Axes, lines: Mapping[str, Floats], grid: VolumeGrid, axis: int) -> None:
    low_mm, high_mm, spacing_mm = grid.low_mm[axis], grid.high_mm[axis], grid.spacing_mm[axis]
    middles_mm = low_mm + (np.arange(grid.shape[axis]) + 0.5) * spacing_mm
    for number, (title, line) in enumerate(lines.items()):
        # The truth lies under the others, and is thick enough to show where they agree.
        style: dict[str, Any] = {"color": "black", "linewidth": 2.2, "linestyle": "-"}
        if number > 0:
            style = {"color": COLOURS[(number - 1) % len(COLOURS)], "linewidth": 1.2}
            style["linestyle"] = LINES[(number - 1) % len(LINES)]
        axes.plot(middles_mm, line, label=title, **style)
    axes.set_xlim(low_mm, high_mm)
    axes.set_xlabel(f"along {AXES[axis]}, mm")
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)


profiles = written(draw_profiles)
