"""Small charts as inline SVG: the course of a run, and the residual of each view."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from duotomo.report.style import COLOURS
from duotomo.solvers import Step

WIDTH, HEIGHT = 336, 168
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 34


def course_svg(history: Sequence[Step]) -> str:
    """Return the objective by step on a logarithmic scale, one line for each stage; "" without steps."""
    points = [(s.number, s.objective, s.stage, s.what) for s in history if 0 < s.objective < math.inf]
    if len(points) < 2:
        return ""
    steps = [step for step, *_ in points]
    logs = [math.log10(value) for _, value, *_ in points]
    low, high = _widened(min(logs), max(logs))
    x = _scale(min(steps), max(max(steps), min(steps) + 1), LEFT, WIDTH - RIGHT)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = [_frame()]
    for tick in _log_ticks(low, high):
        at = y(math.log10(tick))
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e3e7ea"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{at + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for step in sorted({min(steps), max(steps)}):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{step}</text>')
    for number, stage in enumerate(sorted({stage for *_, stage, _ in points})):
        chosen = [(x(s), y(math.log10(v))) for s, v, of, _ in points if of == stage]
        what = next(what for *_, of, what in points if of == stage)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in chosen)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<g><title>{escape(what)}</title><polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="1.8"/><circle cx="{chosen[0][0]:.1f}" cy="{chosen[0][1]:.1f}" r="2.4" '
            f'fill="{colour}"/></g>'
        )
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">step</text>')
    return _svg("Objective by step", parts)


def residual_svg(rms: Sequence[float | None], sigma: float | None) -> str:
    """Return bars of the residual of each view, with a line at the noise; "" if a view has none."""
    values = [value for value in rms if value is not None]
    if not values or len(values) != len(rms):
        return ""
    step = _round_up(max([*values, sigma or 0.0]) / 3)
    most = step * max(1, math.ceil(1.05 * max([*values, sigma or 0.0]) / step))
    y = _scale(0, most, HEIGHT - BOTTOM, TOP)
    room = (WIDTH - RIGHT - LEFT) / len(values)
    parts = [_frame()]
    for number in range(round(most / step) + 1):
        tick = number * step
        parts.append(f'<text x="{LEFT - 4}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for number, value in enumerate(values):
        left, top = LEFT + (number + 0.15) * room, y(value)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{0.7 * room:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}" fill="{COLOURS[0]}"><title>view {number + 1}: {value:.4g}'
            f"</title></rect>"
        )
    if sigma:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(sigma):.1f}" y2="{y(sigma):.1f}" '
            f'stroke="{COLOURS[1]}" stroke-width="1.6" stroke-dasharray="6 3"/>'
            f'<text x="{WIDTH - RIGHT - 2}" y="{y(sigma) - 4:.1f}" text-anchor="end" class="value" '
            'paint-order="stroke" stroke="#fff" stroke-width="3">noise</text>'
        )
    for number in sorted({1, len(values)}):
        at = LEFT + (number - 0.5) * room
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{number}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">view</text>')
    return _svg("Residual by view", parts)


def _svg(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _frame() -> str:
    return f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#8a949d"/>'


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten; 1 for 0.

    >>> [_round_up(value) for value in (0.0, 0.003, 0.4, 7.0)]
    [1.0, 0.005, 0.5, 10.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(d * power for d in (1, 2, 5, 10) if d * power >= value * (1 - 1e-9))


def _widened(low: float, high: float) -> tuple[float, float]:
    gap = 0.05 * (high - low) or 0.1
    return low - gap, high + gap


def _log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two powers of ten: decades, or 1, 2, 5 of each where there are few.

    >>> _log_ticks(0.0, 2.0)
    [1.0, 10.0, 100.0]
    >>> _log_ticks(0.1, 0.9)
    [2.0, 5.0]
    """
    digits = (1.0,) if high - low > 1.9 else (1.0, 2.0, 5.0)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [d * 10.0**p for p in decades for d in digits if low <= math.log10(d * 10.0**p) <= high]
    return ticks[:: max(1, len(ticks) // 5)] or [10 ** ((low + high) / 2)]
