"""Parts of a figure, placed in millimetres: axes, headings, colour bars, scale bars and legends."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from duotomo.report.style import DPI, WIDTH_MM

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

_MM_PER_INCH = 25.4
# Letters on a line of the page, and those that a sample of the line takes.
_ON_A_LINE, _SAMPLE = 90, 9
_LINE_MM, _AROUND_MM = 4.6, 2.9


def new_figure(height_mm: float, *, layout: Literal["constrained"] | None = None) -> Figure:
    """Return an empty figure, `WIDTH_MM` wide.

    layout: "constrained", or None where `place` puts every part at its millimetre.

    >>> [round(float(inches) * 25.4) for inches in new_figure(80).get_size_inches()]
    [180, 80]
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: it would keep the figure, and choose a back end, for the whole process.
    figure = Figure(figsize=(WIDTH_MM / _MM_PER_INCH, height_mm / _MM_PER_INCH), dpi=DPI, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def page_mm(figure: Figure) -> tuple[float, float]:
    """Return the width and height of a figure."""
    across, up = (float(inches) * _MM_PER_INCH for inches in figure.get_size_inches())
    return across, up


def place(figure: Figure, left_mm: float, top_mm: float, width_mm: float, height_mm: float) -> Axes:
    """Return new axes, `left_mm` from the figure's left edge and `top_mm` below its top edge."""
    across, up = page_mm(figure)
    low_mm = up - top_mm - height_mm
    return figure.add_axes((left_mm / across, low_mm / up, width_mm / across, height_mm / up))


def heading(figure: Figure, left_mm: float, top_mm: float, text: str) -> None:
    """Write a line in bold whose top left corner lies there."""
    across, up = page_mm(figure)
    place = (left_mm / across, 1 - top_mm / up)
    figure.text(*place, text, ha="left", va="top", fontsize=9, fontweight="bold")


def colour_bar(
    figure: Figure,
    image: ScalarMappable,
    *,
    left_mm: float,
    top_mm: float,
    height_mm: float,
    label: str,
    shown: Collection[ArrayLike],
) -> Colorbar:
    """Draw a vertical colour bar 3 mm wide, pointed at an end that values of `shown` lie beyond."""
    from matplotlib.ticker import MaxNLocator

    low, high = image.get_clim()
    # Comparisons, unlike the least and the largest, pass over NaN, which is drawn blank.
    below = any(bool(np.any(np.asarray(values) < low)) for values in shown)
    above = any(bool(np.any(np.asarray(values) > high)) for values in shown)
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get((below, above), "neither")
    bar = figure.colorbar(image, cax=place(figure, left_mm, top_mm, 3.0, height_mm), extend=extend)
    bar.set_label(label)
    bar.locator = MaxNLocator(nbins=min(8, max(3, int(height_mm / 9))), steps=[1, 2, 5, 10])
    bar.update_ticks()
    bar.outline.set_linewidth(0.6)
    return bar


def log_axis(axes: Axes) -> None:
    """Make the axis upwards logarithmic; over less than two decades, number 1, 2 and 5 of each."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def scale_bar(axes: Axes, length_mm: float | None = None) -> None:
    """Draw a bar of `length_mm`, named, in the lower left corner of a picture whose axes are millimetres.

    Without a length it is the 1, 2, 5 or 10... mm nearest to a quarter of the picture's width.
    """
    from matplotlib.patheffects import withStroke

    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    if length_mm is None:
        nice = [digit * 10.0**power for power in range(-2, 4) for digit in (1, 2, 5)]
        length_mm = min(nice, key=lambda length: abs(length - (right - left) / 4))
    start, height = left + 0.05 * (right - left), low + 0.06 * (high - low)
    axes.plot(
        [start, start + length_mm],
        [height, height],
        color="white",
        linewidth=1.6,
        solid_capstyle="butt",
        path_effects=[withStroke(linewidth=2.5, foreground="black")],
        scalex=False,
        scaley=False,
        gid="scale bar",
    )
    axes.annotate(
        f"{length_mm:g} mm",
        (start, height),
        (0, 2),
        textcoords="offset points",
        ha="left",
        va="bottom",
        color="white",
        fontsize=8,
        path_effects=[withStroke(linewidth=1.2, foreground="black")],
    )


def columns(names: Collection[str]) -> int:
    """Return how many names stand side by side on a page.

    >>> columns(["sequential", "iterative", "simultaneous"]), columns(["a" * 60, "b"])
    (3, 1)
    """
    return max(1, min(len(names), _ON_A_LINE // (max(map(len, names)) + _SAMPLE)))


def legend_mm(names: Collection[str]) -> float:
    """Return the room that a legend takes."""
    return _AROUND_MM + _LINE_MM * -(-len(names) // columns(names))


def draw_legend(
    figure: Figure, axes: Axes, *, place: Literal["upper left", "upper right", "outside upper left"]
) -> None:
    """Name the curves of `axes`; "outside" makes room in a constrained layout."""
    samples, names = axes.get_legend_handles_labels()
    # Long enough to tell dashes apart.
    figure.legend(samples, names, loc=place, ncols=columns(names), handlelength=3.0)
