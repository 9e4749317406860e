"""Lattices of points moved by transforms, laid over each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from duotomo.errors import ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES, Array, floats, numbers, some, window_of
from duotomo.report.figure import draw_legend, legend_mm, new_figure, place
from duotomo.report.style import COLOURS, GREY, LINES, WIDTH_MM, Floats, styled, written
from duotomo.report.views import ABOVE, View, cut_volume, draw_plane, few_ticks, voxel_at, voxel_center_mm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT_MM, _TITLE_MM, _BELOW_MM, _RIGHT_MM, _TALLEST_MM = 12.0, 3.5, 9.5, 3.0, 110.0
# The first is what the others are deformed from: it steps back.
_FIRST: dict[str, Any] = {"color": "0.72", "linewidth": 0.8, "linestyle": "-"}


@styled
def draw_control_grids(
    *,
    lattices: Mapping[str, ArrayLike],
    grid: VolumeGrid,
    view: View = ABOVE,
    volume: Array | None = None,
    at_mm: Sequence[float] | None = None,
    window: tuple[float, float] | None = None,
) -> Figure:
    """Draw lattices over each other, beside the slice they lie in where a volume is given.

    A lattice is drawn as the lines that join neighbours along its rows and along its columns.

    Parameters
    ----------
    lattices : mapping of str to array_like
        Title to points, (row, column, xyz), in mm; the regular one first.
    grid : VolumeGrid
        That they lie in.
    view : View
        The plane they are seen in.
    volume : torch.Tensor or numpy.ndarray, optional
        (z, y, x) on `grid`.
    at_mm : sequence of float, optional
        Point xyz that the volume is cut through; the grid's middle unless given.
    window : tuple of float, optional
        The values drawn black and white.

    Returns
    -------
    matplotlib.figure.Figure
        One picture, or two where a volume is given.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> points = np.stack(np.meshgrid([-2.0, 2.0], [1.0, 4.0], [2.0], indexing="ij"), axis=-1)[:, :, 0]
    >>> figure = draw_control_grids(lattices={"regular": points}, grid=grid)
    >>> len(figure.axes), len(figure.axes[0].lines)
    (1, 4)
    """
    where = "control_grids"
    some(where, "lattices", lattices)
    placed = {title: _points(where, title, values, view) for title, values in lattices.items()}
    low, high = _limits(placed.values(), grid, view)
    across, up = high - low
    n_pictures = 1 if volume is None else 2
    free_mm = (WIDTH_MM - n_pictures * (_LEFT_MM + _RIGHT_MM)) / n_pictures
    scale = min(free_mm / across, _TALLEST_MM / up)
    top_mm = _TITLE_MM + legend_mm(placed)
    figure = new_figure(top_mm + up * scale + _BELOW_MM)
    # Alone, the picture stands in the middle.
    left_mm = _LEFT_MM + (free_mm - across * scale) / 2
    pictures = []
    for _ in range(n_pictures):
        pictures.append(place(figure, left_mm, top_mm, across * scale, up * scale))
        left_mm += across * scale + _RIGHT_MM + _LEFT_MM

    if volume is not None:
        array = floats(where, "volume", volume, shape=grid.shape, axes=AXES)
        voxel = voxel_at(where, grid, at_mm)
        grey = window_of(where, window, array)
        draw_plane(pictures[0], cut_volume(array, view, voxel), view, grid, colours=GREY, window=grey)
        depth_mm = view.depth_mm(voxel_center_mm(grid, voxel))
        pictures[0].set_title(f"{view.seen_from}, {AXES[view.cut]} = {depth_mm:.1f} mm")
    axes = pictures[-1]
    for number, (title, points) in enumerate(placed.items()):
        _draw_lattice(axes, number, title, points)
    for picture in pictures:
        picture.set_aspect("equal")
        picture.set_xlim(low[0], high[0])
        picture.set_ylim(low[1], high[1])
        few_ticks(picture)
        picture.set_xlabel(f"{AXES[view.horizontal]}, mm")
        picture.set_ylabel(f"{AXES[view.vertical]}, mm")
    draw_legend(figure, axes, place="upper right")
    return figure


def _points(where: str, title: str, values: ArrayLike, view: View) -> Floats:
    """Points as seen in the view, (row, column, (right, up))."""
    points = numbers(where, title, values, n_axes=3)
    if points.shape[2] != 3 or min(points.shape[:2]) < 2:
        raise ShapeError(
            f"{where}: expected {title} (row, column, xyz) of at least 2 x 2 points; got {points.shape}. "
            f"Reshape the points that the transform returns."
        )
    return points[:, :, [2 - view.horizontal, 2 - view.vertical]]


def _limits(lattices: Iterable[Floats], grid: VolumeGrid, view: View) -> tuple[Floats, Floats]:
    """The corners of a picture that holds the grid and all points, (right, up)."""
    shown = (view.horizontal, view.vertical)
    corners = [np.array([[face[axis] for axis in shown]]) for face in (grid.low_mm, grid.high_mm)]
    points = np.concatenate([*corners, *(lattice.reshape(-1, 2) for lattice in lattices)])
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.02 * (high - low)
    return low - room, high + room


def _draw_lattice(axes: Axes, number: int, title: str, points: Floats) -> None:
    """Draw (row, column, (right, up)), the rows and then the columns."""
    style = dict(_FIRST)
    if number > 0:
        # Black lies under the colours, and thicker, so that both show where they agree.
        style = {
            "color": "black" if number == 1 else COLOURS[(number - 1) % len(COLOURS)],
            "linewidth": 1.9 if number == 1 else 1.1,
            "linestyle": LINES[(number - 1) % len(LINES)],
        }
    lines = [*points, *points.transpose(1, 0, 2)]
    for line_number, line in enumerate(lines):
        label = title if line_number == 0 else "_"
        axes.plot(line[:, 0], line[:, 1], label=label, zorder=2 + 0.1 * number, **style)


control_grids = written(draw_control_grids)
