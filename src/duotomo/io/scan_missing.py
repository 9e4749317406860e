"""What a scan needs before it is a visit, and what nobody has said of it: without PyTorch, if it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.field_of_view import grid_in_view
from duotomo.io.scan_arrays import ScanArrays
from duotomo.io.scan_options import ScanOptions, Values

if TYPE_CHECKING:
    from duotomo.io.scan import Scan

_WHERE = "read_visits"


def missing_of(scan: ScanArrays, options: ScanOptions, *, number: int = 1, n_visits: int = 1) -> list[str]:
    """Return what `read_visits` would still ask for, or find wrong, once it has read a scan.

    number, n_visits: which visit of how many it is.
    """
    found: list[str] = []
    try:
        if not _is_plain(scan, options):
            _try(scan, options)
    except DuotomoError as error:
        found.append(str(error))
    try:
        grid_of_visit(scan, options, number, n_visits, spacing_mm(scan, options))
    except DuotomoError as error:
        found.append(str(error).removeprefix(f"{_WHERE}: "))
    return found


def _is_plain(scan: ScanArrays, options: ScanOptions) -> bool:
    """Return whether its numbers are without doubt those of a visit."""
    numbers = scan.projections
    if scan.values is Values.LINE_INTEGRALS:
        return bool((numbers > 0).any())
    # Counts below one that is given for air: every pixel has a logarithm, and some are positive.
    air = options.flat_field
    return (
        air is not None
        and 0 < air < np.inf
        and options.saturation is None
        and bool(np.isfinite(numbers).all() and (numbers > 0).all() and (numbers < air).any())
    )


def _try(scan: ScanArrays, options: ScanOptions) -> None:
    """Raise unless a visit can be made of it: that takes PyTorch, a second of it."""
    import torch

    from duotomo.io.line_integrals import log_settings, to_line_integrals
    from duotomo.methods.study import Visit

    made, _ = to_line_integrals(scan.scan(), log_settings(options))
    Visit(projections=made.projections.to(torch.float32), acquisition=made.acquisition)


def spacing_mm(scan: ScanArrays | Scan, options: ScanOptions) -> tuple[float, float, float]:
    """Return the edges (z, y, x) of the voxels."""
    d_v, d_u = scan.acquisition.pixel_spacing_mm
    return options.voxel_mm or (max(1.0, d_v, d_u), d_v, d_u)


def thickness_missing(number: int) -> str:
    """Return what to say where nobody knows how thick the breast of a visit was."""
    return (
        f"expected the thickness of the compressed breast; got none in the file of visit {number}. Pass it "
        f"in mm: `thickness_mm=50`."
    )


def thickness_of(scan: ScanArrays | Scan, options: ScanOptions, number: int, n_visits: int) -> float:
    """Return the thickness of the compressed breast of a visit, in mm, as a person or its file says."""
    thickness_mm = options.thickness_of_visit(number, n_visits) or scan.thickness_mm
    if thickness_mm is None:
        raise DuotomoError(f"{_WHERE}: {thickness_missing(number)}")
    return thickness_mm


def grid_of_visit(
    scan: ScanArrays | Scan,
    options: ScanOptions,
    number: int,
    n_visits: int,
    spacing_mm: tuple[float, float, float],
) -> VolumeGrid:
    """Return the grid of a visit: what its views see of a breast of its thickness."""
    thickness_mm = thickness_of(scan, options, number, n_visits)
    try:
        return grid_in_view(
            scan.acquisition, thickness_mm=thickness_mm, gap_mm=options.gap_mm, spacing_mm=spacing_mm
        )
    except DuotomoError as error:
        raise DuotomoError(f"{_WHERE}: visit {number}: {error}") from error
