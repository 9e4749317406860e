"""The style of figures: their width, fonts, colours and files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.io.durable import durable
from duotomo.io.paths import make_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]
Drawing = ParamSpec("Drawing")

WIDTH_MM = 180.0
"""Width of every figure: a page's. Fonts are set for it."""
DPI = 150
GREY, DIVERGING, SEQUENTIAL = "gray", "PuOr_r", "cividis"
"""Colour maps that keep their order under the common colour-vision deficiencies."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which the common colour-vision deficiencies leave distinct."""
LINES: tuple[str | tuple[int, tuple[int, ...]], ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (2, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_STYLE: dict[str, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.labelpad": 2.0,
    "axes.linewidth": 0.6,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "axes.titlepad": 3.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "grid.color": "0.88",
    "grid.linewidth": 0.5,
    # Text stays text, and ids depend on the drawing alone, so that equal figures are equal files.
    "svg.fonttype": "none",
    "svg.hashsalt": "duotomo",
}


def styled(draw: Callable[Drawing, Figure]) -> Callable[Drawing, Figure]:
    """Return `draw` as it runs in the house style, whatever the style around it."""

    @functools.wraps(draw)
    def in_style(*args: Drawing.args, **kwargs: Drawing.kwargs) -> Figure:
        from matplotlib import style

        with style.context(["default", _STYLE]):
            return draw(*args, **kwargs)

    return in_style


def written(draw: Callable[Drawing, Figure]) -> Callable[Concatenate[Path, Drawing], tuple[Path, Path]]:
    """Return the function that draws and writes: `f(stem, ...)` makes stem.png and stem.svg.

    Its name is that of `draw` without "draw_"; what it takes is a stem, then what `draw` takes.
    """

    def write(stem: Path, /, *args: Drawing.args, **kwargs: Drawing.kwargs) -> tuple[Path, Path]:
        return save(stem, draw(*args, **kwargs))

    write.__name__ = write.__qualname__ = draw.__name__.removeprefix("draw_")
    write.__module__ = draw.__module__
    write.__doc__ = _written_doc(inspect.getdoc(draw) or "")
    taken = inspect.signature(draw).parameters.values()
    first = inspect.Parameter("stem", inspect.Parameter.POSITIONAL_ONLY, annotation="Path")
    signature = inspect.Signature([first, *taken], return_annotation="tuple[Path, Path]")
    write.__signature__ = signature  # type: ignore[attr-defined]
    return write


def _written_doc(drawn: str) -> str:
    """Return the docstring of a function that writes, from that of the one that draws."""
    head, _, rest = drawn.partition("Parameters\n----------\n")
    stem = "Parameters\n----------\nstem : Path\n    Of the files, without a suffix.\n"
    taken = f"{stem}{rest.partition('Returns')[0]}"
    returned = "Returns\n-------\ntuple of Path\n    stem.png and stem.svg.\n"
    return f"Write stem.png and stem.svg.\n\n{head}{taken}{returned}"


def save(stem: Path, figure: Figure) -> tuple[Path, Path]:
    """Write stem.png and stem.svg, making the folder where it is missing, and return both paths.

    Equal figures make equal files, byte for byte.
    """
    from matplotlib import style

    stem = Path(stem)
    if stem.suffix in (".png", ".svg"):
        raise DuotomoError(
            f"duotomo.report: expected a stem, to which .png and .svg are added; got {stem.name!r}. "
            f"Pass {stem.stem!r}."
        )
    # Not with_suffix, which would cut "noise_0.5" at its point.
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    make_folder("duotomo.report", stem.parent)
    # Ticks are made when drawn, so the style is needed once more.
    with (
        style.context(["default", _STYLE]),
        durable("duotomo.report", png) as fresh_png,
        durable("duotomo.report", svg) as fresh_svg,
    ):
        figure.savefig(fresh_png, format="png", dpi=DPI, metadata={"Software": None})
        figure.savefig(fresh_svg, format="svg", dpi=DPI, metadata={"Date": None})
    return png, svg
