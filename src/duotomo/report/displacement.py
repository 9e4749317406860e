"""How far registered points lie from where they should, in three views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.report.arrays import Array, in_memory, some, volumes
from duotomo.report.style import SEQUENTIAL, styled, written
from duotomo.report.view_rows import Band, draw_bands

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def draw_displacement_errors(
    *,
    rows: Mapping[str, Array],
    grid: VolumeGrid,
    mask: Array | None = None,
    limit_mm: float | None = None,
    at_mm: Sequence[float] | None = None,
) -> Figure:
    """Draw `|T(x) - T_true(x)|` on the slices at fixed z, y and x, one row per method, in one colour scale.

    Each title gains the mean and the 95th percentile over the object, all of it and not the slices only.

    Parameters
    ----------
    rows : mapping of str to torch.Tensor or numpy.ndarray
        Title to magnitudes, (z, y, x) on `grid`, in mm.
    grid : VolumeGrid
        Of the moving visit.
    mask : torch.Tensor or numpy.ndarray, optional
        True inside the object, (z, y, x); the rest is grey.
    limit_mm : float, optional
        At the end of the colours; the 99th percentile of the worst row unless given.
    at_mm : sequence of float, optional
        Point xyz of the cuts; the grid's middle unless given.

    Returns
    -------
    matplotlib.figure.Figure
        One row of three pictures for each method.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((4, 5, 6), (1.0, 1.0, 1.0))
    >>> figure = draw_displacement_errors(rows={"affine": np.ones((4, 5, 6))}, grid=grid)
    >>> figure.texts[0].get_text()
    'affine: mean 1.00 mm, 95 % below 1.00 mm'
    """
    where = "displacement_errors"
    errors = volumes(where, some(where, "rows", rows), grid)
    inside = np.ones(grid.shape, dtype=bool) if mask is None else in_memory(mask).astype(bool)
    if inside.shape != grid.shape:
        raise ShapeError(
            f"{where}: expected mask (z, y, x) = {grid.shape}; got {inside.shape}. Make it on the same grid."
        )
    if not inside.any():
        raise DuotomoError(f"{where}: expected mask with true voxels; got none. Pass mask=None to draw all.")
    for title, error in errors.items():
        if float(error.min()) < 0:
            raise DuotomoError(
                f"{where}: expected {title} as magnitudes in mm; got {float(error.min())}. "
                f"Take the norm of the displacement over xyz."
            )
    within = {title: error[inside] for title, error in errors.items()}
    if limit_mm is None:
        limit_mm = max(float(np.percentile(values, 99)) for values in within.values()) or 1.0
    elif not 0 < limit_mm < np.inf:
        raise DuotomoError(
            f"{where}: expected limit_mm above 0; got {limit_mm}. Give the error at the end of the colours."
        )
    drawn = {
        f"{title}: mean {values.mean():.2f} mm, 95 % below {np.percentile(values, 95):.2f} mm": np.where(
            inside, errors[title], np.nan
        )
        for title, values in within.items()
    }
    band = Band(rows=drawn, colours=SEQUENTIAL, window=(0.0, limit_mm), label="displacement error, mm")
    return draw_bands(where, [band], grid, at_mm)


displacement_errors = written(draw_displacement_errors)
