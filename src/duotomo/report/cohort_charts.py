"""Histograms of a cohort as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from duotomo.report.page_charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, _frame, _scale, _svg
from duotomo.report.style import COLOURS

MOST_BINS = 16
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def histogram_svg(title: str, values: Sequence[float]) -> str:
    """Return how many values fall into bins of round width, with a line at the median; "" for one or none."""
    known = sorted(value for value in values if math.isfinite(value))
    if len(known) < 2:
        return ""
    start, width, n_bins = bins(known[0], known[-1])
    counts = [0] * n_bins
    for value in known:
        counts[min(n_bins - 1, int((value - start) / width))] += 1
    x = _scale(start, start + n_bins * width, LEFT, WIDTH - RIGHT)
    y = _scale(0, max(counts), HEIGHT - BOTTOM, TOP + 6)
    parts = [_frame()]
    for number, count in enumerate(counts):
        left, right, top = x(start + number * width), x(start + (number + 1) * width), y(count)
        if count:
            said = f"{start + number * width:g} to {start + (number + 1) * width:g}: {count}"
            parts.append(
                f'<rect x="{left + 0.5:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}" fill="{COLOURS[0]}"><title>{escape(said)}</title>'
                "</rect>"
            )
    middle = known[len(known) // 2] if len(known) % 2 else sum(known[len(known) // 2 - 1 :][:2]) / 2
    at, end = x(middle), x(middle) > 0.7 * WIDTH
    parts.append(
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{COLOURS[1]}" '
        f'stroke-width="1.6" stroke-dasharray="6 3"/><text x="{at + (-4 if end else 4):.1f}" y="{TOP + 4}" '
        f'text-anchor="{"end" if end else "start"}" paint-order="stroke" stroke="#fff" stroke-width="3">'
        f"median {middle:.3g}</text>"
    )
    ticks = range(0, n_bins + 1, max(1, math.ceil(n_bins / 5)))
    parts += [
        f'<text x="{x(start + tick * width):.1f}" y="{HEIGHT - BOTTOM + 15}" '
        f'text-anchor="{"end" if tick == n_bins else "middle"}">'
        f"{start + tick * width:.4g}</text>"
        for tick in ticks
    ]
    parts.append(f'<text x="{LEFT - 5}" y="{y(max(counts)) + 4:.1f}" text-anchor="end">{max(counts)}</text>')
    parts.append(f'<text x="{LEFT - 5}" y="{HEIGHT - BOTTOM}" text-anchor="end">0</text>')
    return _svg(title, parts)


def bins(low: float, high: float) -> tuple[float, float, int]:
    """Return where bins begin, their width, a round number, and how many hold all from low to high.

    >>> bins(0.13, 0.91)
    (0.1, 0.1, 9)
    >>> bins(2.0, 2.0)
    (2.0, 1.0, 1)
    """
    wide = (high - low) / MOST_BINS * 2
    if wide <= 0:
        return low, 1.0, 1
    power = 10.0 ** math.floor(math.log10(wide))
    width = next(step * power for step in _STEPS if step * power >= wide * (1 - 1e-9))
    first = math.floor(low / width + 1e-9)
    return first * width, width, max(1, math.ceil(high / width - first - 1e-9))
