"""How precisely a motion is determined, against the range of angles and the number of views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import DuotomoError, ShapeError
from duotomo.report.arrays import numbers, some
from duotomo.report.figure import draw_legend, legend_mm, log_axis, new_figure
from duotomo.report.style import COLOURS, LINES, MARKERS, styled, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT_MM = 84.0

Curves = Mapping[str, ArrayLike]


@styled
def draw_observability_curves(
    *,
    ranges_deg: Sequence[float],
    by_range: Curves,
    n_views: Sequence[int],
    by_views: Curves,
    given: tuple[float, int | None],
    titles: tuple[str, str] = ("other ranges", "other numbers of views"),
) -> Figure:
    """Draw standard deviations against the range of angles, and against the number of views.

    Parameters
    ----------
    ranges_deg : sequence of float
        Ranges of the tube's angle.
    by_range : mapping of str to array_like
        Title to a standard deviation in mm for each range; NaN, not determined, is left out.
    n_views : sequence of int
        Numbers of views.
    by_views : mapping of str to array_like
        The same titles to one for each number of views.
    given : tuple
        The range in degrees and the number of views of the protocol, which are marked; no number is marked
        if it is None.
    titles : tuple of str
        Above the pictures.

    Returns
    -------
    matplotlib.figure.Figure
        Two pictures with one scale, logarithmic upwards.

    Examples
    --------
    >>> curves = {"depth": [4.0, 1.0]}
    >>> figure = draw_observability_curves(
    ...     ranges_deg=[15, 50], by_range=curves, n_views=[9, 25], by_views=curves, given=(15.0, 9))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['range of angles (degrees)', 'number of views']
    """
    where = "observability_curves"
    some(where, "by_range", by_range)
    if list(by_range) != list(by_views):
        raise DuotomoError(
            f"{where}: expected the same titles in by_range and by_views; got {list(by_range)} and "
            f"{list(by_views)}. Draw the same against both."
        )
    figure = new_figure(_HEIGHT_MM + legend_mm(by_range), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _draw(where, left, "ranges_deg", ranges_deg, by_range)
    _draw(where, right, "n_views", n_views, by_views)
    left.set_xlabel("range of angles (degrees)")
    left.set_ylabel("standard deviation (mm)")
    right.set_xlabel("number of views")
    left.set_title(titles[0])
    right.set_title(titles[1])
    right.set_xticks(sorted(set(n_views)))
    log_axis(left)
    for axes, at in ((left, given[0]), (right, given[1])):
        axes.grid(visible=True)
        axes.spines[["top", "right"]].set_visible(False)
        if at is not None:
            axes.axvline(at, color="0.35", linewidth=1.0, linestyle=(0, (1, 1.5)), zorder=0)
            axes.annotate(
                "given",
                (at, 1.0),
                (3, -2),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="left",
                va="top",
                color="0.25",
                fontsize=8,
            )
    draw_legend(figure, left, place="outside upper left")
    return figure


observability_curves = written(draw_observability_curves)


def _draw(where: str, axes: Axes, name: str, x: Sequence[float], curves: Curves) -> None:
    along = numbers(where, name, x, n_axes=1)
    for number, (title, y) in enumerate(curves.items()):
        values = np.asarray(y, dtype=np.float64)
        if values.shape != along.shape:
            raise ShapeError(
                f"{where}: expected a value of {title} for each of {len(along)} {name}; got shape "
                f"{values.shape}. Give NaN where there is none."
            )
        axes.plot(
            along,
            np.where(values > 0, values, np.nan),
            label=title,
            color=COLOURS[number % len(COLOURS)],
            linestyle=LINES[number % len(LINES)],
            marker=MARKERS[number % len(MARKERS)],
        )
