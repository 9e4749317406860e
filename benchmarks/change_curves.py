"""A picture of a trial of change detection: free-response curves, what is found, and what is expected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.change_judge import Curve, Row, by_change, n_above, redrawn
from duotomo.report.style import COLOURS

N_BOOTSTRAP = 200
PER_VOLUME = np.linspace(0.0, 3.0, 61)
TISSUES = ("fat", "gland")


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the curves of all methods with intervals of 95 % over anatomies, and two panels of ours."""
    usable = [row for row in rows if row["peaks"]]
    figure = Figure(figsize=(12.5, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_curves(left, usable)
    _draw_found(middle, usable)
    _draw_expected(right, usable)
    for axes in (left, middle, right):
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=130)


def _draw_curves(axes: Axes, rows: Sequence[Row]) -> None:
    drawn = list(redrawn(rows, N_BOOTSTRAP))
    for method, color in zip(rows[0]["peaks"], COLOURS, strict=False):
        axes.plot(PER_VOLUME, _sensitivities(rows, method), color=color, label=method)
        again = [_sensitivities(some, method) for some in drawn]
        low, high = np.quantile(again, (0.025, 0.975), axis=0)
        axes.fill_between(PER_VOLUME, low, high, color=color, alpha=0.15, lw=0)
    axes.set(
        title="Finding changes",
        xlabel="false positives per volume",
        ylabel="masses of 5 mm and more found",
        xlim=(0, 3),
        ylim=(0, 1.25),
        yticks=np.linspace(0, 1, 6),
    )
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)


def _sensitivities(rows: Sequence[Row], method: str) -> list[float]:
    curve = Curve(rows, method)
    return [curve.sensitivity_at(float(one)) for one in PER_VOLUME]


def _draw_found(axes: Axes, rows: Sequence[Row]) -> None:
    found = by_change(rows)
    kinds = list(dict.fromkeys(key.rsplit(" in ", 1)[0] for key in found))
    kinds.sort(key=lambda kind: (kind.split()[0], float(kind.split()[1])))
    for number, tissue in enumerate(TISSUES):
        pairs = [found.get(f"{kind} in {tissue}", (0, 0)) for kind in kinds]
        places = np.arange(len(kinds)) + 0.4 * (number - 0.5)
        bars = axes.barh(
            places, [n / max(of, 1) for n, of in pairs], 0.38, color=COLOURS[number], label=tissue
        )
        axes.bar_label(bars, [f"{n} of {of}" for n, of in pairs], fontsize=7, padding=2)
    axes.set(
        title="What is found at 0.5 false positives",
        xlabel="share found",
        yticks=range(len(kinds)),
        yticklabels=kinds,
        xlim=(0, 1.5),
        xticks=np.linspace(0, 1, 6),
    )
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, title="in place of", loc="center right")


def _draw_expected(axes: Axes, rows: Sequence[Row]) -> None:
    nominal = np.geomspace(0.03, 3, 25)
    without = [row for row in rows if row["kind"] == "none"]
    observed = [np.mean([n_above(row, float(one)) for row in without]) for one in nominal]
    axes.plot(nominal, nominal, color="0.6", lw=1, ls="--", label="as it should be")
    axes.plot(nominal, observed, color=COLOURS[0], label="observed")
    axes.set(
        title="Finding none where there is none",
        xscale="log",
        yscale="log",
        xlabel="false findings expected",
        ylabel="false findings observed",
    )
    axes.legend(frameon=False, fontsize=8)
