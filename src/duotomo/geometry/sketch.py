"""Scans and grids as small drawings, for notebooks: SVG text, which needs no library."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from duotomo.geometry.acquisition import Acquisition
    from duotomo.geometry.grid import VolumeGrid

WIDTH, HEIGHT, MARGIN = 360.0, 260.0, 24.0
TUBE, DETECTOR, RAY, INK = "#D55E00", "#0072B2", "#888888", "#333333"


def acquisition_html(acquisition: Acquisition) -> str:
    """Return a drawing of a scan as seen from the chest wall, x to the right and z up, and its numbers.

    >>> from duotomo.geometry import paper
    >>> acquisition_html(paper()).count("<circle")
    11
    """
    u_mm = acquisition.detector_shape[1] * acquisition.pixel_spacing_mm[1] / 2 * acquisition.u_axes
    ends_mm = np.stack([acquisition.detector_centers_mm - u_mm, acquisition.detector_centers_mm + u_mm])
    sources_mm = acquisition.sources_mm
    at = _Plane(np.concatenate([ends_mm.reshape(-1, 3), sources_mm])[:, [0, 2]])
    rays = [
        at.line(sources_mm[view], end, RAY, 0.6)
        for view in sorted({0, acquisition.n_views // 2, acquisition.n_views - 1})
        for end in ends_mm[:, view]
    ]
    plates = [at.line(low, high, DETECTOR, 2.5) for low, high in ends_mm.swapaxes(0, 1)]
    tubes = [at.dot(source, TUBE) for source in sources_mm]
    angles_deg = np.degrees(acquisition.angles_rad)
    d_v, d_u = acquisition.pixel_spacing_mm
    n_v, n_u = acquisition.detector_shape
    heights_mm = sources_mm[:, 2]
    return _page(
        "Acquisition",
        {
            "views": f"{acquisition.n_views}, from {angles_deg.min():.1f} to {angles_deg.max():.1f} degrees",
            "detector (v, u)": f"{n_v} x {n_u} pixels of {d_v:g} x {d_u:g} mm",
            "size (v, u)": f"{n_v * d_v:.1f} x {n_u * d_u:.1f} mm",
            "source height": f"{heights_mm.min():.1f} to {heights_mm.max():.1f} mm",
        },
        [*rays, *plates, *tubes, at.note("x, along the tube's travel", "z, up to the source")],
    )


def grid_html(grid: VolumeGrid) -> str:
    """Return a drawing of a grid as seen from above, x to the right and y up, and its numbers.

    >>> from duotomo.geometry import VolumeGrid
    >>> "4 x 5 x 6" in grid_html(VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0)))
    True
    """
    low, high = np.array(grid.low_mm[::-1]), np.array(grid.high_mm[::-1])
    at = _Plane(np.array([low[:2], high[:2]]))
    corners = [low[:2], (high[0], low[1]), high[:2], (low[0], high[1])]
    edges = [at.flat(corners[i], corners[(i + 1) % 4], DETECTOR, 2.0) for i in range(4)]
    per_line = 16
    lines = []
    for axis, other in ((0, 1), (1, 0)):
        n = grid.shape[2 - axis]
        # Every so many voxels a line, or the drawing turns grey.
        for index in range(0, n, max(1, -(-n // per_line))):
            start, end = np.empty(2), np.empty(2)
            start[axis] = end[axis] = low[axis] + index * grid.spacing_mm[2 - axis]
            start[other], end[other] = low[other], high[other]
            lines.append(at.flat(start, end, RAY, 0.4))
    reach = zip("zyx", grid.low_mm, grid.high_mm, strict=True)
    return _page(
        "VolumeGrid",
        {
            "voxels (z, y, x)": " x ".join(str(n) for n in grid.shape),
            "voxel (z, y, x)": " x ".join(f"{d:g}" for d in grid.spacing_mm) + " mm",
            "from, to": ", ".join(
                f"{axis} {round(low_mm, 6):g} to {round(high_mm, 6):g} mm" for axis, low_mm, high_mm in reach
            ),
            "memory": f"{4 * grid.n_voxels / 1e6:.1f} MB in float32",
        },
        [*lines, *edges, at.note("x", "y, to the nipple")],
    )


def table_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a title and a table of two columns; every text is escaped.

    >>> table_html("Result", {"status": "a < b"}).count("&lt;")
    1
    """
    rows = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"


class _Plane:
    """Millimetres to places in the drawing, the same scale along both axes."""

    def __init__(self, points_mm: NDArray[np.float64]) -> None:
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
