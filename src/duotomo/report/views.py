"""Slices of a volume through one point, seen along the machine's axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES
from duotomo.report.figure import page_mm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class View:
    """A picture: the axis that it cuts, and those it shows upwards and to the right; numbers in (z, y, x).

    seen_from: where the eye is. Right, up and towards the eye are right-handed, as x, y and z are.
    """

    cut: int
    vertical: int
    horizontal: int
    seen_from: str

    def size_mm(self, grid: VolumeGrid) -> tuple[float, float]:
        """Width and height of the grid in this view."""
        return grid.size_mm[self.horizontal], grid.size_mm[self.vertical]

    def of(self, point_mm: Sequence[float]) -> tuple[float, float]:
        """Where a point xyz lies in the picture: (to the right, upwards)."""
        return point_mm[2 - self.horizontal], point_mm[2 - self.vertical]

    def depth_mm(self, point_mm: Sequence[float]) -> float:
        """A point's coordinate along the axis that is cut."""
        return point_mm[2 - self.cut]


ABOVE = View(cut=0, vertical=1, horizontal=2, seen_from="from above")
CHEST_WALL = View(cut=1, vertical=0, horizontal=2, seen_from="from the chest wall")
SIDE = View(cut=2, vertical=0, horizontal=1, seen_from="from the side")
THREE = (ABOVE, CHEST_WALL, SIDE)


def voxel_at(where: str, grid: VolumeGrid, at_mm: Sequence[float] | None) -> tuple[int, int, int]:
    """Return the voxel (z, y, x) that holds a point xyz; without a point, the one in the middle.

    >>> grid = VolumeGrid.on_detector((6, 8, 10), (1.0, 1.0, 1.0))
    >>> voxel_at("slices", grid, None), voxel_at("slices", grid, (-4.5, 0.5, 2.5))
    ((3, 4, 5), (2, 0, 0))
    """
    if at_mm is None:
        z, y, x = (n // 2 for n in grid.shape)
        return z, y, x
    point = tuple(float(value) for value in at_mm)
    inside = len(point) == 3 and all(
        low <= value <= high for value, low, high in zip(point[::-1], grid.low_mm, grid.high_mm, strict=True)
    )
    if not inside:
        raise DuotomoError(
            f"{where}: expected at_mm (x, y, z) inside the grid, from {grid.low_mm[::-1]} to "
            f"{grid.high_mm[::-1]}; got {point}. Give a point of the volume in millimetres."
        )
    z, y, x = (
        # The box's high faces belong to its last voxels.
        min(int((value - low) / spacing), n - 1)
        for value, low, spacing, n in zip(point[::-1], grid.low_mm, grid.spacing_mm, grid.shape, strict=True)
    )
    return z, y, x


def voxel_center_mm(grid: VolumeGrid, voxel: Sequence[int]) -> Point:
    """Return the centre xyz of a voxel (z, y, x)."""
    z, y, x = (
        low + (i + 0.5) * spacing for low, i, spacing in zip(grid.low_mm, voxel, grid.spacing_mm, strict=True)
    )
    return x, y, z


def cut_volume(volume: NDArray[Any], view: View, voxel: Sequence[int]) -> NDArray[Any]:
    """Return the slice through a voxel (z, y, x), (upwards, to the right)."""
    # Cutting one of (z, y, x) leaves the other two in order, so rows are `vertical`, columns `horizontal`.
    plane: NDArray[Any] = np.take(volume, voxel[view.cut], axis=view.cut)
    return plane


def draw_plane(
    axes: Axes,
    plane: NDArray[Any],
    view: View,
    grid: VolumeGrid,
    *,
    colours: str,
    window: tuple[float, float],
    labels: tuple[bool, bool] = (True, True),
) -> AxesImage:
    """Draw a slice in millimetres, true to scale.

    plane: (upwards, to the right); NaN, where nothing is known, is hatched. window: the values at the ends of
    `colours`. labels: whether the axis to the right, and the one upwards, have numbers and a name.
    """
    horizontal, vertical = view.horizontal, view.vertical
    if np.isnan(plane).any():
        _hatch(axes, view, grid)
    image = axes.imshow(
        plane,
        cmap=colours,
        vmin=window[0],
        vmax=window[1],
        origin="lower",
        aspect="equal",
        extent=(
            grid.low_mm[horizontal],
            grid.high_mm[horizontal],
            grid.low_mm[vertical],
            grid.high_mm[vertical],
        ),
    )
    few_ticks(axes)
    axes.tick_params(labelbottom=labels[0], labelleft=labels[1])
    if labels[0]:
        axes.set_xlabel(f"{AXES[horizontal]}, mm")
    if labels[1]:
        axes.set_ylabel(f"{AXES[vertical]}, mm")
    return image


def _hatch(axes: Axes, view: View, grid: VolumeGrid) -> None:
    """Draw lines behind a picture, which show where it is blank."""
    from matplotlib.patches import Rectangle

    across, up = view.size_mm(grid)
    corner = (grid.low_mm[view.horizontal], grid.low_mm[view.vertical])
    lines = Rectangle(corner, across, up, zorder=-0.5, linewidth=0.0, facecolor="0.9", edgecolor="0.5")
    lines.set(hatch="////", gid="no data")
    axes.add_patch(lines)


def few_ticks(axes: Axes, *, apart_mm: tuple[float, float] = (9.0, 7.0)) -> None:
    """Keep numbers at least that far apart on paper, to the right and upwards."""
    from matplotlib.ticker import MaxNLocator

    figure = cast("Figure", axes.figure)
    shares = axes.get_position()
    across_mm, up_mm = page_mm(figure)
    lengths_mm = (shares.width * across_mm, shares.height * up_mm)
    for axis, length_mm, step_mm in zip((axes.xaxis, axes.yaxis), lengths_mm, apart_mm, strict=True):
        axis.set_major_locator(MaxNLocator(nbins=max(1, int(length_mm / step_mm)), steps=[1, 2, 5, 10]))
