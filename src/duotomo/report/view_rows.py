"""Rows of three views, in bands that share a colour bar: the layout of several figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES
from duotomo.report.figure import colour_bar, heading, new_figure, place, scale_bar
from duotomo.report.style import WIDTH_MM
from duotomo.report.views import THREE, cut_volume, draw_plane, voxel_at, voxel_center_mm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Left of the three pictures: room for numbers and a name, twice; the second and third share their axis.
_BEFORE_MM = (12.0, 12.0, 4.0)
_BAR_MM, _TALLEST_MM = 23.0, 62.0
_TITLE_MM, _VIEW_NAMES_MM, _GAP_MM, _BELOW_MM = 4.8, 7.0, 2.5, 9.5
_TOP_MM = 1.0
# An arrow is drawn where the slice passes this close to its point.
_REACH_MM = 5.0


@dataclass(frozen=True, kw_only=True)
class Band:
    """Volumes drawn in one colour scale.

    rows: title -> volume (z, y, x); NaN is left blank. window: the values at the scale's ends. label: of the
    colour bar. arrows: whether arrows are drawn in these rows.
    """

    rows: Mapping[str, NDArray[Any]]
    colours: str
    window: tuple[float, float]
    label: str
    arrows: bool = False


def draw_bands(
    where: str,
    bands: Sequence[Band],
    grid: VolumeGrid,
    at_mm: Sequence[float] | None,
    arrows: Sequence[Sequence[float]] = (),
) -> Figure:
    """Draw one row per volume: the slices at fixed z, y and x through the voxel that holds `at_mm`, xyz.

    All pictures have the same scale; the first has a bar of 10 mm, or less where it is small. Arrows
    point at places xyz.
    """
    voxel = voxel_at(where, grid, at_mm)
    point = voxel_center_mm(grid, voxel)
    sizes_mm = [view.size_mm(grid) for view in THREE]
    free_mm = WIDTH_MM - sum(_BEFORE_MM) - _BAR_MM
    tallest_mm = max(height for _, height in sizes_mm)
    scale = min(free_mm / sum(width for width, _ in sizes_mm), _TALLEST_MM / tallest_mm)
    row_mm = tallest_mm * scale
    n_rows = sum(len(band.rows) for band in bands)
    height_mm = _TOP_MM + _VIEW_NAMES_MM + n_rows * (_TITLE_MM + row_mm + _GAP_MM) - _GAP_MM + _BELOW_MM
    figure = new_figure(height_mm)

    top_mm, number = _TOP_MM, 0
    for band in bands:
        planes, band_top_mm = [], 0.0
        for title, volume in band.rows.items():
            number += 1
            heading(figure, _BEFORE_MM[0], top_mm, title)
            top_mm += _TITLE_MM + (_VIEW_NAMES_MM if number == 1 else 0.0)
            band_top_mm = band_top_mm or top_mm
            left_mm = 0.0
            for view, before_mm, (across, up) in zip(THREE, _BEFORE_MM, sizes_mm, strict=True):
                left_mm += before_mm
                axes = place(figure, left_mm, top_mm + row_mm - up * scale, across * scale, up * scale)
                planes.append(cut_volume(volume, view, voxel))
                image = draw_plane(
                    axes,
                    planes[-1],
                    view,
                    grid,
                    colours=band.colours,
                    window=band.window,
                    labels=(number == n_rows, view is not THREE[-1]),
                )
                axes.set_facecolor("0.85")
                if number == 1:
                    axes.set_title(f"{view.seen_from}\n{AXES[view.cut]} = {view.depth_mm(point):.1f} mm")
                    if view is THREE[0]:
                        scale_bar(axes, 10.0 if across >= 20.0 else None)
                for arrow in arrows if band.arrows else ():
                    if abs(view.depth_mm(arrow) - view.depth_mm(point)) <= _REACH_MM:
                        point_at(axes, view.of(arrow))
                left_mm += across * scale
            top_mm += row_mm + _GAP_MM
        colour_bar(
            figure,
            image,
            left_mm=left_mm + 3.0,
            top_mm=band_top_mm,
            height_mm=top_mm - _GAP_MM - band_top_mm,
            label=band.label,
            shown=planes,
        )
    return figure


def point_at(axes: Axes, place_mm: tuple[float, float]) -> None:
    """Draw an arrow whose tip is there, from the upper left."""
    axes.annotate(
        "",
        place_mm,
        (-11, 11),
        textcoords="offset points",
        arrowprops={
            "arrowstyle": "simple,head_length=0.5,head_width=0.5,tail_width=0.15",
            "facecolor": "#F0E442",
            "edgecolor": "black",
            "linewidth": 0.5,
            "shrinkA": 0,
            "shrinkB": 1,
        },
    )
