"""The projections of every visit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition
from duotomo.report.arrays import Array, floats, some, window_of
from duotomo.report.figure import colour_bar, heading, new_figure, place
from duotomo.report.style import GREY, WIDTH_MM, styled, written
from duotomo.report.views import few_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AXES = ("view", "v", "u")
_LEFT_MM, _BAR_MM, _GAP_MM, _EDGE_MM = 12.0, 19.0, 1.2, 1.0
_TITLE_MM, _ANGLE_MM, _BELOW_MM = 3.8, 4.5, 9.0


@styled
def draw_projections(
    *,
    visits: Mapping[str, tuple[Array, Acquisition]],
    n_columns: int = 6,
    window: tuple[float, float] | None = None,
) -> Figure:
    """Draw the line integrals of every view, one block per visit, the angle above each, in one grey scale.

    u runs to the right and v upwards, in mm from the detector's middle.

    Parameters
    ----------
    visits : mapping of str to tuple
        Title to (projections, their acquisition); projections are (view, v, u).
    n_columns : int
        Views beside each other.
    window : tuple of float, optional
        The values drawn black and white; the least and largest of all visits unless given.

    Returns
    -------
    matplotlib.figure.Figure
        In the style of all figures.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> scan = paper(detector_shape=(4, 5))
    >>> figure = draw_projections(visits={"reference": (np.ones(scan.shape), scan)})
    >>> figure.axes[5].get_title(), figure.axes[10].get_title()
    ('0°', '25°')
    """
    where = "projections"
    if n_columns < 1:
        raise DuotomoError(f"{where}: expected n_columns >= 1; got {n_columns}. Give the views in a row.")
    data = {
        title: floats(where, title, values, shape=scan.shape, axes=_AXES)
        for title, (values, scan) in some(where, "visits", visits).items()
    }
    ends = np.array([end(values) for values in data.values() for end in (np.min, np.max)])
    grey = window_of(where, window, ends)
    n_columns = min(n_columns, max(scan.n_views for _, scan in visits.values()))
    width_mm = (WIDTH_MM - _LEFT_MM - _BAR_MM - (n_columns - 1) * _GAP_MM) / n_columns
    blocks = [_size_mm(scan) for _, scan in visits.values()]
    rows_mm = [_ANGLE_MM + width_mm * up / across for across, up in blocks]
    n_rows = [-(-scan.n_views // n_columns) for _, scan in visits.values()]
    heights_mm = [_TITLE_MM + n * row_mm + _BELOW_MM for n, row_mm in zip(n_rows, rows_mm, strict=True)]
    figure = new_figure(sum(heights_mm) + 2 * _EDGE_MM)

    top_mm = _EDGE_MM
    for block, (title, (_, scan)) in enumerate(visits.items()):
        heading(figure, _LEFT_MM, top_mm, title)
        across, up = blocks[block]
        for view, (plane, angle_rad) in enumerate(zip(data[title], scan.angles_rad, strict=True)):
            row, column = divmod(view, n_columns)
            axes = place(
                figure,
                _LEFT_MM + column * (width_mm + _GAP_MM),
                top_mm + _TITLE_MM + row * rows_mm[block] + _ANGLE_MM,
                width_mm,
                rows_mm[block] - _ANGLE_MM,
            )
            extent = (-across / 2, across / 2, -up / 2, up / 2)
            image = axes.imshow(plane, cmap=GREY, vmin=grey[0], vmax=grey[1], origin="lower", extent=extent)
            few_ticks(axes)
            axes.set_title(_degrees(angle_rad), pad=2)
            # Where no picture stands below: the last row, and above the gap that it may leave.
            lowest, leftmost = view + n_columns >= scan.n_views, column == 0
            axes.tick_params(labelbottom=lowest, labelleft=leftmost)
            if leftmost:
                axes.set_ylabel("v, mm")
            if lowest and leftmost:
                axes.set_xlabel("u, mm")
        top_mm += heights_mm[block]
    colour_bar(
        figure,
        image,
        left_mm=WIDTH_MM - _BAR_MM + 3.0,
        top_mm=_EDGE_MM + _TITLE_MM + _ANGLE_MM,
        height_mm=heights_mm[0] - _TITLE_MM - _ANGLE_MM - _BELOW_MM,
        label="line integral",
        shown=data.values(),
    )
    return figure


def _size_mm(scan: Acquisition) -> tuple[float, float]:
    (n_v, n_u), (d_v, d_u) = scan.detector_shape, scan.pixel_spacing_mm
    return n_u * d_u, n_v * d_v


def _degrees(angle_rad: float) -> str:
    # Adding zero turns -0 into 0; the minus is the one of the axes.
    return f"{round(math.degrees(angle_rad), 1) + 0.0:g}°".replace("-", "\N{MINUS SIGN}")


projections = written(draw_projections)
