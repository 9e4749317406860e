"""Curves of an objective, or of an error, against steps, projector applications or seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import ShapeError
from duotomo.report.arrays import numbers, some
from duotomo.report.figure import draw_legend, legend_mm, log_axis, new_figure
from duotomo.report.style import COLOURS, LINES, MARKERS, styled, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT_MM, _N_MARKERS = 78.0, 9


@styled
def draw_objective_curves(
    *,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    x_label: str,
    y_label: str,
    log_y: bool = True,
    pieces: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """Draw curves that differ in colour, dashes and markers, named above the picture.

    Parameters
    ----------
    curves : mapping of str to tuple of array_like
        Title to (x, y), equally long.
    x_label, y_label : str
        What x and y are.
    log_y : bool
        Draw y on a logarithmic axis.
    pieces : mapping of str to sequence of int, optional
        Title to where, counted from 0, the curve begins anew: no line leads there from the point before.

    Returns
    -------
    matplotlib.figure.Figure
        One picture, named curves in it.

    Examples
    --------
    >>> figure = draw_objective_curves(
    ...     curves={"sequential": ([0, 1, 2], [9.0, 3.0, 2.0])}, x_label="step", y_label="objective")
    >>> figure.axes[0].get_yscale()
    'log'
    """
    where = "objective_curves"
    some(where, "curves", curves)
    figure = new_figure(_HEIGHT_MM + legend_mm(curves), layout="constrained")
    axes = figure.subplots()
    for number, (title, (x, y)) in enumerate(curves.items()):
        along = numbers(where, f"x of {title}", x, n_axes=1)
        values = numbers(where, f"y of {title}", y, n_axes=1, positive=log_y)
        if len(along) != len(values):
            raise ShapeError(
                f"{where}: expected x and y of {title} equally long; got {len(along)} and {len(values)}. "
                f"Give one y for every x."
            )
        new = list((pieces or {}).get(title, ()))
        along, values = np.insert(along, new, np.nan), np.insert(values, new, np.nan)
        # Shifted from curve to curve, so that markers of curves that coincide do not.
        every = max(1, len(values) // _N_MARKERS)
        axes.plot(
            along,
            values,
            label=title,
            color=COLOURS[number % len(COLOURS)],
            # Past the last colour, an old colour has new dashes and another marker.
            linestyle=LINES[(number + number // len(COLOURS)) % len(LINES)],
            marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            markevery=(number * every // 3 % max(1, every), every),
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if log_y:
        log_axis(axes)
    axes.margins(x=0.02)
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)
    draw_legend(figure, axes, place="outside upper left")
    return figure


objective_curves = written(draw_objective_curves)
