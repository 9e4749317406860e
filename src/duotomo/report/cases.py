"""One value per case and method: paired, and as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import ShapeError
from duotomo.report.arrays import numbers, some
from duotomo.report.figure import draw_legend, legend_mm, log_axis, new_figure
from duotomo.report.style import COLOURS, MARKERS, Floats, styled, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT_MM = 78.0
_GOLDEN = (5**0.5 - 1) / 2


@styled
def draw_cases(
    *,
    values: Mapping[str, ArrayLike],
    y_label: str,
    log_y: bool = True,
    case_numbers: Sequence[int] | None = None,
) -> Figure:
    """Draw every case of every method, sorted by the first method, beside a box for each method.

    A box reaches from the first to the third quartile, its line is the median, its whiskers end at the least
    and largest value. Cases keep their numbers below the picture.

    Parameters
    ----------
    values : mapping of str to array_like
        Method to one value per case, in the same order for all.
    y_label : str
        What the values are, with their unit.
    log_y : bool
        Draw them on a logarithmic axis.
    case_numbers : sequence of int, optional
        Of the cases, in that order; counted from 1 unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One picture, its legend above.

    Examples
    --------
    >>> figure = draw_cases(
    ...     values={"sequential": [0.9, 0.8], "simultaneous": [0.2, 0.3]}, y_label="mean TRE, mm")
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['2', '1']
    """
    where = "cases"
    every = {
        title: numbers(where, title, column, n_axes=1, positive=log_y)
        for title, column in some(where, "values", values).items()
    }
    lengths = {title: len(column) for title, column in every.items()}
    if len(set(lengths.values())) > 1:
        raise ShapeError(
            f"{where}: expected as many cases for every method; got {lengths}. "
            f"Keep the cases that all methods ran."
        )
    n_cases = next(iter(lengths.values()))
    names = range(1, n_cases + 1) if case_numbers is None else case_numbers
    if len(names) != n_cases:
        raise ShapeError(
            f"{where}: expected case_numbers of {n_cases} cases; got {len(names)}. Give one for each value."
        )
    order = np.argsort(next(iter(every.values())), kind="stable")
    figure = new_figure(_HEIGHT_MM + legend_mm(every), layout="constrained")
    pairs, boxes = figure.subplots(1, 2, sharey=True, width_ratios=[3.0, max(1.0, 0.4 * len(every))])
    for number, (title, column) in enumerate(every.items()):
        pairs.plot(
            np.arange(len(order)),
            column[order],
            label=title,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle="none",
        )
        _draw_box(boxes, number, column)
    if log_y:
        log_axis(pairs)
    pairs.set(xlabel=f"case, in the order of {next(iter(every))}", ylabel=y_label)
    # Every number where they fit.
    step = -(-len(order) // 30)
    pairs.set_xticks(np.arange(len(order))[::step], [str(names[case]) for case in order[::step]])
    boxes.set_xlabel("all cases")
    boxes.set_xticks([])
    for axes in (pairs, boxes):
        axes.grid(visible=True, axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    draw_legend(figure, pairs, place="outside upper left")
    return figure


def _draw_box(axes: Axes, number: int, values: Floats) -> None:
    # By hand: matplotlib's own boxes would load pyplot, and choose a back end for the whole process.
    low, first, median, third, high = np.percentile(values, [0, 25, 50, 75, 100])
    colour = COLOURS[number % len(COLOURS)]
    axes.bar(number, third - first, 0.6, bottom=first, color=colour, alpha=0.45)
    axes.vlines([number, number], [low, third], [first, high], colors=colour, linewidth=1.4)
    axes.hlines([low, high], number - 0.15, number + 0.15, colors=colour, linewidth=1.0)
    axes.hlines(median, number - 0.3, number + 0.3, colors=colour, linewidth=1.6)
    # Multiples of the golden section spread neighbours well, and need no random numbers.
    spread = 0.4 * ((0.5 + _GOLDEN * np.arange(len(values))) % 1 - 0.5)
    marker = MARKERS[number % len(MARKERS)]
    axes.plot(
        number + spread, np.sort(values), color="black", linestyle="none", marker=marker, markersize=1.8
    )


cases = written(draw_cases)
