"""Volumes side by side, each above its difference to the first."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES, Array, some, volumes, window_of
from duotomo.report.figure import colour_bar, heading, new_figure, place, scale_bar
from duotomo.report.style import DIVERGING, GREY, WIDTH_MM, styled, written
from duotomo.report.views import THREE, Point, View, cut_volume, draw_plane, voxel_at, voxel_center_mm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

_EDGE_MM, _GAP_MM, _BAR_MM, _WIDEST_MM, _TALLEST_MM = 1.0, 1.2, 22.0, 36.0, 36.0
_LINE_MM, _VIEW_MM, _ABOVE_MM, _LETTER_MM, _SHORTEST_MM = 3.9, 5.5, 1.5, 1.6, 32.0
# A few extreme voxels, at edges, would leave the rest of a difference without colour.
_PERCENTILE = 99.8


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """Planes by view and column, (upwards, to the right), that share colours; `first`: their first column."""

    planes: tuple[list[NDArray[Any]], ...]
    first: int
    colours: str
    window: tuple[float, float]
    label: str


@styled
def draw_columns(
    *,
    columns: Mapping[str, Array],
    grid: VolumeGrid,
    unit: str,
    window: tuple[float, float] | None = None,
    at_mm: Sequence[float] | None = None,
) -> Figure:
    """Draw one column per volume, cut at fixed z, y and x, and below each cut its difference to the first.

    All volumes share one grey scale and all differences one colour scale. All pictures have the same scale in
    mm.

    Parameters
    ----------
    columns : mapping of str to torch.Tensor or numpy.ndarray
        Title to volume, (z, y, x) on `grid`, the truth first; a title may have several lines.
    grid : VolumeGrid
        Of the volumes.
    unit : str
        Of the values, such as "1/mm".
    window : tuple of float, optional
        The values drawn black and white; the least and largest of the first unless given.
    at_mm : sequence of float, optional
        Point xyz of the cuts; the grid's middle unless given.

    Returns
    -------
    matplotlib.figure.Figure
        Of three cuts through each volume, and below them three through its difference to the first.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_columns(
    ...     columns={"truth": np.ones((4, 5, 6)), "found": np.zeros((4, 5, 6))}, grid=grid, unit="1/mm")
    >>> [axes.get_title() for axes in figure.axes[:2]], sum(len(axes.images) for axes in figure.axes)
    (['truth', 'found'], 9)
    """
    where = "columns"
    drawn = volumes(where, some(where, "columns", columns), grid)
    voxel = voxel_at(where, grid, at_mm)
    grey = window_of(where, window, next(iter(drawn.values())))
    scales = _scales(drawn, voxel, grey, unit)
    sizes_mm = [view.size_mm(grid) for view in THREE]
    free_mm = WIDTH_MM - 2 * _EDGE_MM - _BAR_MM - (len(drawn) - 1) * _GAP_MM
    widest_mm, tallest_mm = (max(size[axis] for size in sizes_mm) for axis in (0, 1))
    scale = min(_WIDEST_MM / widest_mm, _TALLEST_MM / tallest_mm, free_mm / len(drawn) / widest_mm)
    column_mm = widest_mm * scale + _GAP_MM
    titles = [_wrapped(title, column_mm) for title in drawn]
    titles_mm = _LINE_MM * max(title.count("\n") + 1 for title in titles)
    pictures_mm = sum(_VIEW_MM + _ABOVE_MM + len(scales) * (up * scale + _GAP_MM) for _, up in sizes_mm)
    bars_mm = max(pictures_mm - _VIEW_MM - _ABOVE_MM, len(scales) * _SHORTEST_MM)
    figure = new_figure(2 * _EDGE_MM + titles_mm + _VIEW_MM + bars_mm)

    top_mm = _EDGE_MM
    for number, (view, (across, up)) in enumerate(zip(THREE, sizes_mm, strict=True)):
        heading(figure, _EDGE_MM, top_mm, _name(view, voxel_center_mm(grid, voxel)))
        top_mm += _VIEW_MM + (titles_mm if number == 0 else 0.0)
        for one in scales:
            for column, plane in enumerate(one.planes[number], start=one.first):
                # In the middle of its column.
                left_mm = _EDGE_MM + column * column_mm + (widest_mm - across) * scale / 2
                axes = place(figure, left_mm, top_mm, across * scale, up * scale)
                _draw_picture(axes, plane, view, grid, one)
                if number == 0 and one is scales[0]:
                    axes.set_title(titles[column])
                    if column == 0:
                        scale_bar(axes, 10.0 if across >= 40.0 else None)
            top_mm += up * scale + _GAP_MM
        top_mm += _ABOVE_MM
    for number, one in enumerate(scales):
        colour_bar(
            figure,
            _colours(one),
            left_mm=_EDGE_MM + len(drawn) * column_mm + 1.0,
            top_mm=_EDGE_MM + titles_mm + _VIEW_MM + number * bars_mm / len(scales),
            height_mm=bars_mm / len(scales) - 4.0,
            label=one.label,
            shown=[plane for planes in one.planes for plane in planes],
        )
    return figure


def _scales(
    drawn: Mapping[str, NDArray[Any]], voxel: Sequence[int], grey: tuple[float, float], unit: str
) -> list[_Scale]:
    planes = tuple([cut_volume(volume, view, voxel) for volume in drawn.values()] for view in THREE)
    scales = [_Scale(planes=planes, first=0, colours=GREY, window=grey, label=f"attenuation, {unit}")]
    if len(drawn) > 1:
        # Cuts of differences are differences of cuts, and these need no further volumes.
        changes = tuple([plane - of_view[0] for plane in of_view[1:]] for of_view in planes)
        sizes = [
            np.concatenate([np.abs(change).ravel() for change in one]) for one in zip(*changes, strict=True)
        ]
        # One volume that is far off would leave the others without colour: the middle one sets the scale.
        limit = float(np.median([np.percentile(one, _PERCENTILE) for one in sizes])) or 1.0
        label = f"difference to the {next(iter(drawn))}, {unit}"
        scales.append(_Scale(planes=changes, first=1, colours=DIVERGING, window=(-limit, limit), label=label))
    return scales


def _draw_picture(axes: Axes, plane: NDArray[Any], view: View, grid: VolumeGrid, scale: _Scale) -> None:
    draw_plane(axes, plane, view, grid, colours=scale.colours, window=scale.window, labels=(False, False))
    axes.set_xticks([])
    axes.set_yticks([])


def _colours(scale: _Scale) -> ScalarMappable:
    """Return what a colour bar takes its colours from."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(*scale.window), scale.colours)


def _name(view: View, point_mm: Point) -> str:
    right, up = AXES[view.horizontal], AXES[view.vertical]
    depth = f"{AXES[view.cut]} = {view.depth_mm(point_mm):.1f} mm"
    return f"{view.seen_from}, {depth}, {right} to the right, {up} upwards"


def _wrapped(title: str, width_mm: float) -> str:
    letters = max(1, int(width_mm / _LETTER_MM))
    return "\n".join(part for line in title.split("\n") for part in textwrap.wrap(line, letters))


columns = written(draw_columns)
