"""Scans and grids as small drawings, for notebooks: SVG text, which needs no library."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def table_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a title and a table of two columns; every text is escaped."""
    rows = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"


WIDTH, HEIGHT, MARGIN = 360.0, 260.0, 24.0
TUBE, DETECTOR, RAY, INK = "#D55E00", "#0072B2", "#888888", "#333333"


Floats = NDArray[np.float64]


def acquisition_html(
    sources_mm: Floats,
    detector_centers_mm: Floats,
    u_axes: Floats,
    angles_rad: Floats,
    detector_shape: tuple[int, int],
    pixel_spacing_mm: tuple[float, float],
) -> str:
    """Return a drawing of a scan as seen from the chest wall, x to the right and z up, and its numbers."""
    n_views, (n_v, n_u), (d_v, d_u) = len(sources_mm), detector_shape, pixel_spacing_mm
    half_mm = n_u * d_u / 2 * u_axes
    ends_mm = np.stack([detector_centers_mm - half_mm, detector_centers_mm + half_mm])
    at = _Plane(np.concatenate([ends_mm.reshape(-1, 3), sources_mm])[:, [0, 2]])
    rays = [
        at.line(sources_mm[view], end, RAY, 0.6)
        for view in sorted({0, n_views // 2, n_views - 1})
        for end in ends_mm[:, view]
    ]
    plates = [at.line(low, high, DETECTOR, 2.5) for low, high in ends_mm.swapaxes(0, 1)]
    tubes = [at.dot(source, TUBE) for source in sources_mm]
    angles_deg, heights_mm = np.degrees(angles_rad), sources_mm[:, 2]
    return _page(
        "Acquisition",
        {
            "views": f"{n_views}, from {angles_deg.min():.1f} to {angles_deg.max():.1f} degrees",
            "detector (v, u)": f"{n_v} x {n_u} pixels of {d_v:g} x {d_u:g} mm",
            "size (v, u)": f"{n_v * d_v:.1f} x {n_u * d_u:.1f} mm",
            "source height": f"{heights_mm.min():.1f} to {heights_mm.max():.1f} mm",
        },
        [*rays, *plates, *tubes, at.note("x, along the tube's travel", "z, up to the source")],
    )


def grid_html(*, shape: Sequence[int], spacing_mm: Sequence[float], low_mm: Sequence[float]) -> str:
    """Return a drawing of a grid as seen from above, x to the right and y up, and its numbers."""
    high_mm = [low + n * d for low, n, d in zip(low_mm, shape, spacing_mm, strict=True)]
    low, high = np.array(low_mm[::-1]), np.array(high_mm[::-1])
    at = _Plane(np.array([low[:2], high[:2]]))
    corners = [low[:2], (high[0], low[1]), high[:2], (low[0], high[1])]
    edges = [at.flat(corners[i], corners[(i + 1) % 4], DETECTOR, 2.0) for i in range(4)]
    per_line = 16
    lines = []
    for axis, other in ((0, 1), (1, 0)):
        n = shape[2 - axis]
        # Every so many voxels a line, or the drawing turns grey.
        for index in range(0, n, max(1, -(-n // per_line))):
            start, end = np.empty(2), np.empty(2)
            start[axis] = end[axis] = low[axis] + index * spacing_mm[2 - axis]
            start[other], end[other] = low[other], high[other]
            lines.append(at.flat(start, end, RAY, 0.4))
    reach = zip("zyx", low_mm, high_mm, strict=True)
    return _page(
        "VolumeGrid",
        {
            "voxels (z, y, x)": " x ".join(str(n) for n in shape),
            "voxel (z, y, x)": " x ".join(f"{d:g}" for d in spacing_mm) + " mm",
            "from, to": ", ".join(
                f"{axis} {round(first, 6):g} to {round(last, 6):g} mm" for axis, first, last in reach
            ),
            "memory": f"{4 * math.prod(shape) / 1e6:.1f} MB in float32",
        },
        [*lines, *edges, at.note("x", "y, to the nipple")],
    )


class _Plane:
    """Millimetres to places in the drawing, the same scale along both axes."""

    def __init__(self, points_mm: Floats) -> None:
        self._low, high = points_mm.min(axis=0), points_mm.max(axis=0)
        room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
        self._scale = float((room / np.maximum(high - self._low, 1e-9)).min())
        self._start = MARGIN + (room - self._scale * (high - self._low)) / 2

    def line(self, start_mm: object, end_mm: object, colour: str, width: float) -> str:
        """Return a line between two points xyz, drawn by x and z."""
        return self.flat(np.asarray(start_mm)[[0, 2]], np.asarray(end_mm)[[0, 2]], colour, width)

    def flat(self, start_mm: object, end_mm: object, colour: str, width: float) -> str:
        """Return a line between two points of the plane."""
        (x1, y1), (x2, y2) = self._at(start_mm), self._at(end_mm)
        return (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>'
        )

    def dot(self, point_mm: object, colour: str) -> str:
        """Return a dot at a point xyz."""
        x, y = self._at(np.asarray(point_mm)[[0, 2]])
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'

    def note(self, right: str, up: str) -> str:
        """Return what the axes are, in words."""
        style = f'font-size="10" fill="{INK}" font-family="sans-serif"'
        return (
            f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle" {style}>{right}</text>'
            f'<text x="12" y="{HEIGHT / 2}" text-anchor="middle" {style} '
            f'transform="rotate(-90 12 {HEIGHT / 2})">{up}</text>'
        )

    def _at(self, point_mm: object) -> tuple[float, float]:
        x, y = self._start + self._scale * (np.asarray(point_mm, dtype=np.float64) - self._low)
        return float(x), HEIGHT - float(y)


def _page(title: str, facts: Mapping[str, str], marks: list[str]) -> str:
    return (
        f'<div style="display:flex;align-items:center;gap:1em"><div>{table_html(title, facts)}</div>'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" style="background:white">{"".join(marks)}</svg></div>'
    )
