"""Errors of the twelve entries of an affine matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import ShapeError
from duotomo.report.arrays import numbers, some
from duotomo.report.figure import draw_legend, legend_mm, new_figure
from duotomo.report.style import COLOURS, Floats, styled, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_N_ENTRIES = 12
_MATRIX = (1, 2, 3, 5, 6, 7, 9, 10, 11)
_TRANSLATION = (4, 8, 12)
_HEIGHT_MM = 73.0
_HATCHES = ("", "///", "\\\\\\", "xxx")


@styled
def draw_parameter_errors(*, errors: Mapping[str, ArrayLike]) -> Figure:
    """Draw the mean and standard deviation over cases of the absolute errors of `[A | t]`.

    Entries count row by row: `a11 a12 a13 t1 a21 ... t3`. Entries 4, 8 and 12 are millimetres and the others
    have no unit, so they stand in two pictures. A line reaches one standard deviation (divided by n - 1) up
    and down, but not below zero.

    Parameters
    ----------
    errors : mapping of str to array_like
        Method to recovered minus true entries, (case, 12).

    Returns
    -------
    matplotlib.figure.Figure
        One picture for each kind of parameter.

    Examples
    --------
    >>> figure = draw_parameter_errors(errors={"sequential": np.ones((3, 12))})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['absolute error', 'absolute error, mm']
    """
    where = "parameter_errors"
    size = {title: _absolute(where, title, values) for title, values in some(where, "errors", errors).items()}
    figure = new_figure(_HEIGHT_MM + legend_mm(size), layout="constrained")
    widths = [len(_MATRIX), len(_TRANSLATION) + 1]
    pictures = figure.subplots(1, 2, width_ratios=widths)
    width = 0.8 / len(size)
    for axes, entries in zip(pictures, (_MATRIX, _TRANSLATION), strict=True):
        places, columns = np.arange(len(entries)), np.array(entries) - 1
        for number, (title, values) in enumerate(size.items()):
            mean = values[:, columns].mean(axis=0)
            spread = values[:, columns].std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(entries))
            axes.bar(
                places + (number + 0.5) * width - 0.4,
                mean,
                width,
                yerr=(np.minimum(spread, mean), spread),
                label=title,
                color=COLOURS[number % len(COLOURS)],
                hatch=_HATCHES[number % len(_HATCHES)],
                edgecolor="white",
                linewidth=0.0,
                error_kw={"elinewidth": 0.8, "capsize": 1.5, "capthick": 0.8},
            )
        axes.set_xticks(places, [f"{entry}\n{_name(entry)}" for entry in entries])
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, axis="y")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    pictures[0].set(xlabel="entry of the matrix", ylabel="absolute error")
    pictures[1].set(xlabel="translation", ylabel="absolute error, mm")
    draw_legend(figure, pictures[0], place="outside upper left")
    return figure


def _absolute(where: str, title: str, values: ArrayLike) -> Floats:
    absolute: Floats = np.abs(numbers(where, title, values, n_axes=2))
    if absolute.shape[1] != _N_ENTRIES:
        raise ShapeError(
            f"{where}: expected {title} (case, entry) with 12 entries; got {absolute.shape}. "
            f"Give the rows of [A | t] one after the other."
        )
    return absolute


def _name(entry: int) -> str:
    row, column = divmod(entry - 1, 4)
    return f"$t_{row + 1}$" if column == 3 else f"$a_{{{row + 1}{column + 1}}}$"


parameter_errors = written(draw_parameter_errors)
