"""Three orthogonal slices of volumes, side by side, in millimetres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.methods.centroid import centroid
from duotomo.report.arrays import AXES, window_of
from duotomo.report.style import DIVERGING, GREY
from duotomo.report.views import THREE, View, cut_volume, draw_plane, voxel_at, voxel_center_mm

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MM_PER_INCH = 25.4
_GAP_MM = 2.0
# A column: room for numbers and a name, the picture, and air.
_BEFORE_MM, _BOX_MM, _AFTER_MM = 15.0, 68.0, 3.4
_TALLEST_MM = 68.0
_TOP_MM, _TITLE_MM, _BELOW_MM, _BAR_MM, _FOOT_MM = 6.0, 6.0, 11.0, 3.0, 12.0


def three_views(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, torch.Tensor],
    grid: VolumeGrid,
    unit: str,
    unseen: torch.Tensor | None = None,
    at_mm: Sequence[float] | None = None,
) -> None:
    """Write a PNG with slices at fixed z, y and x, one column per volume.

    All pictures have one scale and boxes of one size. All volumes share the grey window of the first. Where
    there is more than one, a last column shows `last - first`, in colours centred on zero.

    Parameters
    ----------
    path : str or path
        Of the PNG.
    columns : mapping of str to torch.Tensor
        Title to volume, (z, y, x) on `grid`.
    grid : VolumeGrid
        Of the volumes.
    unit : str
        Of the values, such as "1/mm".
    unseen : torch.Tensor, optional
        Where one of the volumes has no data, (z, y, x), bool: the difference is hatched there.
    at_mm : sequence of float, optional
        A point (x, y, z) that the slices go through. Unless given, the centroid of the first volume: a grid
        may be much larger than the breast.

    Raises
    ------
    DuotomoError
        If there is no volume, or one of another shape, or the point lies outside the grid.
    """
    figure = draw_three_views(columns=columns, grid=grid, unit=unit, unseen=unseen, at_mm=at_mm)
    figure.savefig(path, format="png")


def draw_three_views(
    *,
    columns: Mapping[str, torch.Tensor],
    grid: VolumeGrid,
    unit: str,
    unseen: torch.Tensor | None = None,
    at_mm: Sequence[float] | None = None,
) -> Figure:
    """Return the figure that `three_views` writes.

    >>> import torch
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_three_views(columns={"volume": torch.ones(4, 5, 6)}, grid=grid, unit="1/mm")
    >>> len({(round(box.width, 6), round(box.height, 6)) for box in map(
    ...     lambda axes: axes.get_position(original=True), figure.axes[:3])})
    1
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not columns:
        raise DuotomoError("three_views: expected at least one column; got none. Pass title -> volume.")
    for title, tensor in columns.items():
        check_tensor("three_views", title, tensor, shape=grid.shape, axes=AXES, batch_ok=False)
    panels = _panels(columns, grid, unseen)
    sizes_mm = [view.size_mm(grid) for view in THREE]
    widest_mm, tallest_mm = (max(lengths) for lengths in zip(*sizes_mm, strict=True))
    scale = min(_BOX_MM / widest_mm, _TALLEST_MM / tallest_mm)
    box_mm = (widest_mm * scale, tallest_mm * scale)
    row_mm = _TITLE_MM + box_mm[1] + _BELOW_MM
    page_mm = (
        len(panels) * (_BEFORE_MM + _BOX_MM + _AFTER_MM),
        _TOP_MM + 3 * row_mm + _GAP_MM + _BAR_MM + _FOOT_MM,
    )
    # No pyplot: it would keep the figure, and choose a back end, for the whole process.
    figure = Figure(figsize=(page_mm[0] / _MM_PER_INCH, page_mm[1] / _MM_PER_INCH), dpi=110)
    FigureCanvasAgg(figure)

    def place(column: int, top_mm: float, size_mm: tuple[float, float]) -> Axes:
        left_mm = column * page_mm[0] / len(panels) + _BEFORE_MM + (_BOX_MM - size_mm[0]) / 2
        low_mm = page_mm[1] - top_mm - size_mm[1]
        lengths_mm = (left_mm, low_mm, *size_mm)
        shares = [length / page_mm[i % 2] for i, length in enumerate(lengths_mm)]
        return figure.add_axes((shares[0], shares[1], shares[2], shares[3]))

    voxel = _centroid(next(iter(columns.values())), grid) if at_mm is None else None
    voxel = voxel or voxel_at("three_views", grid, at_mm)
    middle_mm = voxel_center_mm(grid, voxel)
    images: list[AxesImage] = []
    for column, (title, (volume, colours, window)) in enumerate(panels.items()):
        for row, view in enumerate(THREE):
            axes = place(column, _TOP_MM + row * row_mm + _TITLE_MM, box_mm)
            plane = cut_volume(volume, view, voxel)
            image = draw_plane(axes, plane, view, grid, colours=colours, window=window)
            _centre(axes, view, grid, (widest_mm, tallest_mm))
            head = f"{title}\n" if row == 0 else ""
            axes.set_title(f"{head}{AXES[view.cut]} = {view.depth_mm(middle_mm):.1f} mm", fontsize=9)
        images.append(image)
    n = len(columns)
    for column in sorted({0, n} & set(range(len(panels)))):
        bar = place(column, page_mm[1] - _FOOT_MM - _BAR_MM, (0.9 * _BOX_MM, _BAR_MM))
        what, extend = ("attenuation", "both") if column == 0 else ("difference", "neither")
        drawn = figure.colorbar(images[column], cax=bar, orientation="horizontal", extend=extend)
        drawn.set_label(f"{what}, {unit}", fontsize=9)
        bar.tick_params(labelsize=8)
    return figure


def _centroid(volume: torch.Tensor, grid: VolumeGrid) -> tuple[int, int, int] | None:
    """Return the voxel (z, y, x) in the middle of what attenuates, None where nothing does."""
    found = centroid(volume)
    if found is None:
        return None
    z, y, x = (min(int(at), n - 1) for at, n in zip(found, grid.shape, strict=True))
    return z, y, x


def _panels(
    columns: Mapping[str, torch.Tensor], grid: VolumeGrid, unseen: torch.Tensor | None
) -> dict[str, tuple[NDArray[Any], str, tuple[float, float]]]:
    """Return title -> volume, colours and the values at their ends; the difference is the last."""
    volumes = {title: tensor.detach().cpu().double().numpy() for title, tensor in columns.items()}
    first, last = next(iter(volumes)), next(reversed(volumes))
    grey = window_of("three_views", None, volumes[first])
    panels = {title: (volume, GREY, grey) for title, volume in volumes.items()}
    if len(volumes) > 1:
        difference = volumes[last] - volumes[first]
        if unseen is not None:
            check_tensor("three_views", "unseen", unseen.float(), shape=grid.shape, axes=AXES, batch_ok=False)
            difference = np.where(unseen.detach().cpu().numpy(), np.nan, difference)
        known = np.abs(difference[~np.isnan(difference)])
        most = (float(known.max()) if known.size else 0.0) or 1.0
        panels[f"{last} - {first}"] = (difference, DIVERGING, (-most, most))
    return panels


def _centre(axes: Axes, view: View, grid: VolumeGrid, box_mm: tuple[float, float]) -> None:
    """Put a picture into the middle of its box, which is as large as the largest."""
    limits = []
    for axis, length_mm in zip((view.horizontal, view.vertical), box_mm, strict=True):
        middle_mm = (grid.low_mm[axis] + grid.high_mm[axis]) / 2
        limits.append((middle_mm - length_mm / 2, middle_mm + length_mm / 2))
    axes.set(xlim=limits[0], ylim=limits[1], facecolor="0.85")
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)
    axes.yaxis.labelpad = 3.0
