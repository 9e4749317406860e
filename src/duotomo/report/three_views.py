"""Three orthogonal slices of volumes, side by side, in millimetres."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, check_tensor
from duotomo.geometry import VolumeGrid

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes

_AXES = ("z", "y", "x")
# The axis that a row of pictures cuts, and the axes it shows: (cut, vertical, horizontal).
_ROWS = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
# Grey and purple-orange keep their order under the common colour-vision deficiencies.
_GREY, _DIVERGING = "gray", "PuOr_r"


def three_views(
    path: str | PathLike[str], *, columns: Mapping[str, torch.Tensor], grid: VolumeGrid, unit: str
) -> None:
    """Write a PNG with the slices through the grid's middle at fixed z, y and x, one column per volume.

    All volumes share the grey window of the first. Where there is more than one, a last column shows
    `last - first`, in colours centred on zero.

    columns: title -> volume (z, y, x) on `grid`. unit: of the values, "1/mm".
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not columns:
        raise DuotomoError("three_views: expected at least one column; got none. Pass title -> volume.")
    for title, tensor in columns.items():
        check_tensor("three_views", title, tensor, shape=grid.shape, axes=_AXES, batch_ok=False)
    volumes = {title: tensor.detach().cpu().double().numpy() for title, tensor in columns.items()}
    first, last = next(iter(volumes)), next(reversed(volumes))
    low, high = float(volumes[first].min()), float(volumes[first].max())
    panels = {title: (volume, _GREY, low, high) for title, volume in volumes.items()}
    if len(volumes) > 1:
        difference = volumes[last] - volumes[first]
        most = float(np.abs(difference).max()) or 1.0
        panels[f"{last} - {first}"] = (difference, _DIVERGING, -most, most)

    # No pyplot: it would keep the figure, and choose a back end, for the whole process.
    figure = Figure(figsize=(3.4 * len(panels), 9.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(3, len(panels), squeeze=False)
    images = []
    for column, (title, (volume, colours, lowest, highest)) in enumerate(panels.items()):
        for axis, (cut, vertical, horizontal) in zip(axes[:, column], _ROWS, strict=True):
            image = _draw(axis, volume, grid, cut, vertical, horizontal, colours, (lowest, highest))
        axes[0, column].set_title(f"{title}\n{axes[0, column].get_title()}")
        images.append(image)
    n = len(volumes)
    bar = partial(figure.colorbar, location="bottom", shrink=0.8, aspect=40)
    bar(images[0], ax=axes[:, :n], label=f"attenuation, {unit}", extend="both")
    if n > 1:
        bar(images[n], ax=axes[:, n:], label=f"difference, {unit}")
    figure.savefig(path, format="png")


def _draw(
    axis: Axes,
    volume: NDArray[np.float64],
    grid: VolumeGrid,
    cut: int,
    vertical: int,
    horizontal: int,
    colours: str,
    window: tuple[float, float],
) -> Any:
    index = grid.shape[cut] // 2
    at_mm = grid.low_mm[cut] + (index + 0.5) * grid.spacing_mm[cut]
    # Cutting one of (z, y, x) leaves the other two in order, so rows are `vertical`, columns `horizontal`.
    image = axis.imshow(
        np.take(volume, index, axis=cut),
        cmap=colours,
        vmin=window[0],
        vmax=window[1],
        origin="lower",
        aspect="equal",
        interpolation="nearest",
        extent=(
            grid.low_mm[horizontal],
            grid.high_mm[horizontal],
            grid.low_mm[vertical],
            grid.high_mm[vertical],
        ),
    )
    axis.set_title(f"{_AXES[cut]} = {at_mm:.1f} mm", fontsize="medium")
    axis.set_xlabel(f"{_AXES[horizontal]}, mm")
    axis.set_ylabel(f"{_AXES[vertical]}, mm")
    return image
