"""Three orthogonal slices of volumes, side by side, in millimetres."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES, window_of
from duotomo.report.style import DIVERGING, GREY
from duotomo.report.views import THREE, cut_volume, draw_plane, voxel_at, voxel_center_mm

if TYPE_CHECKING:
    import torch


def three_views(
    path: str | PathLike[str], *, columns: Mapping[str, torch.Tensor], grid: VolumeGrid, unit: str
) -> None:
    """Write a PNG with the slices through the grid's middle at fixed z, y and x, one column per volume.

    All volumes share the grey window of the first. Where there is more than one, a last column shows `last -
    first`, in colours centred on zero.

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

    Raises
    ------
    DuotomoError
        If there is no volume, or one of another shape.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not columns:
        raise DuotomoError("three_views: expected at least one column; got none. Pass title -> volume.")
    for title, tensor in columns.items():
        check_tensor("three_views", title, tensor, shape=grid.shape, axes=AXES, batch_ok=False)
    volumes = {title: tensor.detach().cpu().double().numpy() for title, tensor in columns.items()}
    first, last = next(iter(volumes)), next(reversed(volumes))
    low, high = window_of("three_views", None, volumes[first])
    panels = {title: (volume, GREY, low, high) for title, volume in volumes.items()}
    if len(volumes) > 1:
        difference = volumes[last] - volumes[first]
        most = float(np.abs(difference).max()) or 1.0
        panels[f"{last} - {first}"] = (difference, DIVERGING, -most, most)

    voxel = voxel_at("three_views", grid, None)
    middle_mm = voxel_center_mm(grid, voxel)
    # No pyplot: it would keep the figure, and choose a back end, for the whole process.
    figure = Figure(figsize=(3.4 * len(panels), 9.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, len(panels), squeeze=False)
    images = []
    for column, (title, (volume, colours, lowest, highest)) in enumerate(panels.items()):
        for axis, view in zip(axes[:, column], THREE, strict=True):
            plane = cut_volume(volume, view, voxel)
            image = draw_plane(axis, plane, view, grid, colours=colours, window=(lowest, highest))
            axis.set_title(f"{AXES[view.cut]} = {view.depth_mm(middle_mm):.1f} mm")
        axes[0, column].set_title(f"{title}\n{axes[0, column].get_title()}")
        images.append(image)
    n = len(volumes)
    bar = partial(figure.colorbar, location="bottom", shrink=0.8, aspect=40)
    bar(images[0], ax=axes[:, :n], label=f"attenuation, {unit}", extend="both")
    if n > 1:
        bar(images[n], ax=axes[:, n:], label=f"difference, {unit}")
    figure.savefig(path, format="png")
