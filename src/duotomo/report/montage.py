"""All slices of a volume that are parallel to the detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import AXES, Array, floats, window_of
from duotomo.report.figure import colour_bar, new_figure, place, scale_bar
from duotomo.report.style import DIVERGING, GREY, WIDTH_MM, styled, written
from duotomo.report.views import ABOVE, draw_plane

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE_MM, _BAR_MM, _GAP_MM, _EDGE_MM = 4.0, 20.0, 0.8, 1.0
# The colour bar's height: room for its name, even beside a single row of flat pictures.
_SHORTEST_MM, _LONGEST_MM = 32.0, 80.0


@styled
def draw_montage(
    *,
    volume: Array,
    grid: VolumeGrid,
    unit: str,
    every: int = 1,
    n_columns: int = 10,
    window: tuple[float, float] | None = None,
    difference: bool = False,
) -> Figure:
    """Draw the slices at fixed z from above, x to the right and y upwards, the lowest z first.

    Parameters
    ----------
    volume : torch.Tensor or numpy.ndarray
        (z, y, x) on `grid`.
    grid : VolumeGrid
        Of the volume.
    unit : str
        Of the values, such as "1/mm".
    every : int
        Draw slices 0, every, 2 every and so on.
    n_columns : int
        Slices beside each other.
    window : tuple of float, optional
        The values at the ends of the scale; the least and largest unless given.
    difference : bool
        Draw in colours centred on zero; the window is then symmetric unless given.

    Returns
    -------
    matplotlib.figure.Figure
        As many rows of slices as it takes.

    Examples
    --------
    >>> import numpy as np
    >>> volume, grid = np.ones((4, 5, 6)), VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_montage(volume=volume, grid=grid, unit="1/mm", every=2)
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['z = 0.5 mm', '2.5']
    """
    where = "montage"
    for name, value in (("every", every), ("n_columns", n_columns)):
        if value < 1:
            raise DuotomoError(f"{where}: expected {name} >= 1; got {value}. Give a whole number of slices.")
    array = floats(where, "volume", volume, shape=grid.shape, axes=AXES)
    if window is None and difference:
        most = float(abs(array).max()) or 1.0
        window = (-most, most)
    window = window_of(where, window, array)
    numbers = range(0, grid.shape[0], every)
    n_columns = min(n_columns, len(numbers))
    n_rows = -(-len(numbers) // n_columns)
    across, up = ABOVE.size_mm(grid)
    width_mm = (WIDTH_MM - 2 * _EDGE_MM - _BAR_MM - (n_columns - 1) * _GAP_MM) / n_columns
    row_mm = _TITLE_MM + width_mm * up / across
    bar_mm = min(max(n_rows * row_mm - _TITLE_MM, _SHORTEST_MM), _LONGEST_MM)
    figure = new_figure(max(n_rows * row_mm, _TITLE_MM + bar_mm) + 2 * _EDGE_MM)
    for place_number, z in enumerate(numbers):
        row, column = divmod(place_number, n_columns)
        axes = place(
            figure,
            _EDGE_MM + column * (width_mm + _GAP_MM),
            _EDGE_MM + row * row_mm + _TITLE_MM,
            width_mm,
            row_mm - _TITLE_MM,
        )
        colours = DIVERGING if difference else GREY
        image = draw_plane(axes, array[z], ABOVE, grid, colours=colours, window=window, labels=(False, False))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        height_mm = grid.low_mm[0] + (z + 0.5) * grid.spacing_mm[0]
        title = f"z = {height_mm:.1f} mm" if place_number == 0 else f"{height_mm:.1f}"
        axes.set_title(title, fontsize=7, pad=1.5)
        if place_number == 0:
            scale_bar(axes)
    colour_bar(
        figure,
        image,
        left_mm=WIDTH_MM - _BAR_MM + 2.0,
        top_mm=_EDGE_MM + _TITLE_MM,
        height_mm=bar_mm,
        label=f"{'difference' if difference else 'attenuation'}, {unit}",
        shown=[array],
    )
    return figure


montage = written(draw_montage)
