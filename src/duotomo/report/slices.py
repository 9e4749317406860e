"""Slices of several volumes and of their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import Array, in_memory, some, volumes, window_of
from duotomo.report.style import DIVERGING, GREY, Floats, styled, written
from duotomo.report.view_rows import Band, draw_bands
from duotomo.report.views import THREE, cut_volume, voxel_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A few extreme voxels, at edges, would leave the rest of a difference without colour.
_PERCENTILE = 99.8


@styled
def draw_slices(
    *,
    rows: Mapping[str, Array],
    differences: Mapping[str, Array] | None = None,
    unseen: Mapping[str, Array] | None = None,
    grid: VolumeGrid,
    unit: str,
    window: tuple[float, float] | None = None,
    difference_limit: float | None = None,
    at_mm: Sequence[float] | None = None,
    arrows: Sequence[Sequence[float]] | None = None,
) -> Figure:
    """Draw one row per volume, cut at fixed z (parallel to the detector), y and x.

    Rows share one grey scale, differences one colour scale from `-limit` to `limit`. A scale whose end is
    pointed has values beyond it.

    Parameters
    ----------
    rows : mapping of str to torch.Tensor or numpy.ndarray
        Title to volume, (z, y, x) on `grid`.
    differences : mapping of str to torch.Tensor or numpy.ndarray, optional
        Title to difference, (z, y, x) on `grid`.
    unseen : mapping of str to torch.Tensor or numpy.ndarray, optional
        Title of a difference to where a visit has no data, (z, y, x), bool: it is hatched there.
    grid : VolumeGrid
        Of the volumes.
    unit : str
        Of the values, such as "1/mm".
    window : tuple of float, optional
        The values drawn black and white; the least and largest of the first row unless given.
    difference_limit : float, optional
        Of the colours; unless given, reached by 2 in 1000 of the pixels shown.
    at_mm : sequence of float, optional
        Point xyz of the cuts; the grid's middle unless given.
    arrows : sequence of sequence of float, optional
        Points xyz to point at in `rows`, where a cut passes within 5 mm.

    Returns
    -------
    matplotlib.figure.Figure
        One row of three pictures for each volume and each difference.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_slices(rows={"truth": np.eye(6)[None, :5] * np.ones((4, 1, 1))}, grid=grid, unit="1/mm")
    >>> [axes.get_title().split(chr(10))[0] for axes in figure.axes[:3]]
    ['from above', 'from the chest wall', 'from the side']
    """
    where = "slices"
    drawn = volumes(where, some(where, "rows", rows), grid)
    grey = window_of(where, window, next(iter(drawn.values())))
    bands = [Band(rows=drawn, colours=GREY, window=grey, label=f"attenuation, {unit}", arrows=True)]
    if differences:
        changes = {
            title: _blanked(where, title, change, unseen, grid)
            for title, change in volumes(where, differences, grid).items()
        }
        if difference_limit is None:
            voxel = voxel_at(where, grid, at_mm)
            shown = [cut_volume(change, view, voxel).ravel() for change in changes.values() for view in THREE]
            known = np.abs(np.concatenate(shown))
            known = known[~np.isnan(known)]
            difference_limit = (float(np.percentile(known, _PERCENTILE)) if known.size else 0.0) or 1.0
        elif not 0 < difference_limit < np.inf:
            raise DuotomoError(
                f"{where}: expected difference_limit above 0; got {difference_limit}. "
                f"Give the difference at the end of the colours."
            )
        both = (-difference_limit, difference_limit)
        bands.append(Band(rows=changes, colours=DIVERGING, window=both, label=f"difference, {unit}"))
    for arrow in arrows or ():
        voxel_at(f"{where}, arrows", grid, arrow)
    return draw_bands(where, bands, grid, at_mm, arrows or ())


def _blanked(
    where: str, title: str, change: Floats, unseen: Mapping[str, Array] | None, grid: VolumeGrid
) -> Floats:
    """Return a difference, NaN where a visit has no data."""
    if unseen is None or title not in unseen:
        return change
    mask = in_memory(unseen[title]).astype(bool)
    if mask.shape != grid.shape:
        raise ShapeError(
            f"{where}: expected unseen of {title!r} (z, y, x) = {grid.shape}; got {mask.shape}. "
            f"Give one value for each voxel of the grid."
        )
    return np.where(mask, np.nan, change)


slices = written(draw_slices)
