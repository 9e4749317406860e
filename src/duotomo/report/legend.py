"""The names of curves, above the picture."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Letters on a line of the page, and those that a sample of the line takes.
_ON_A_LINE, _SAMPLE = 90, 9
_LINE_MM, _AROUND_MM = 4.6, 2.9


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
