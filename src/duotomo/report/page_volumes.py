"""The volumes of a result, small enough for a page: one grid, 16 bits, gzip."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import check_finite
from duotomo.geometry import VolumeGrid
from duotomo.io import SavedResult
from duotomo.io.libraries import nibabel
from duotomo.io.patient_frame import ras_affine
from duotomo.methods.fused import FUSED
from duotomo.report.page_change import PageMaps, page_maps
from duotomo.report.page_deformation import PageDeformation, page_deformation
from duotomo.report.page_own_frame import PageOwnFrame, page_own_frame
from duotomo.report.page_seen import Mask, unseen_after_motion, unseen_in_place
from duotomo.report.page_window import inside_breast, sample, tissue_window, widest_difference
from duotomo.transforms import Translation

MOST_VOXELS = 8_000_000
"""Of one volume in a page."""
MOST_TOGETHER = 24_000_000
"""Of all volumes in a page: with 16 bits, gzip and base64 it stays below 60 MB."""
LEVELS = 4095
"""Steps between the first and the 999th thousandth of the values; the rest goes on in the same steps."""

Shape = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class PageVolumes:
    """Volumes as a page shows them.

    grid: of all in the reference frame. own: name -> grid of those in the frame of a moving visit;
    own_inside: the breast in them. coarsened: by which factors (z, y, x) the result's own grids were.
    numbers: name -> stored numbers (z, y, x), int16; times `slope` they are attenuations. window: the values
    drawn black and white. spread: the difference of the reference and the prior drawn in the strongest
    colours. inside: (z, y, x), the breast without its skin. unseen: name -> where that visit has no data;
    without those that have it everywhere. deformations, own_frames: of the moving visits. maps: of what
    changed, if known.
    """

    grid: VolumeGrid
    coarsened: Shape
    numbers: dict[str, NDArray[np.int16]]
    slope: float
    reference: str
    prior: str | None
    window: tuple[float, float]
    spread: float
    inside: Mask = field(repr=False)
    unseen: dict[str, Mask] = field(repr=False)
    deformations: tuple[PageDeformation, ...]
    own: dict[str, VolumeGrid]
    own_inside: dict[str, Mask] = field(repr=False)
    own_frames: tuple[PageOwnFrame, ...]
    maps: PageMaps | None = None


UNDILUTED = "undiluted"
"""The name of the current visit's volume with its findings at their own contrast."""


def registered_name(visit: int) -> str:
    """Return the name of a moving visit's own volume in the reference frame; visits count from 1."""
    return f"visit_{visit}_registered"


def own_name(visit: int) -> str:
    """Return the name of a moving visit's volume in its own frame; visits count from 1."""
    return f"visit_{visit}"


def visit_of(name: str) -> int:
    """Return of which visit a volume is, counted from 1; of all visits together, the first.

    >>> visit_of("visit_2_registered"), visit_of("volume")
    (2, 1)
    """
    found = re.fullmatch(r"visit_(\d+)(_registered)?", name)
    return int(found[1]) if found else 1


def is_registered(name: str) -> bool:
    """Return whether a volume of a page lies in the reference frame."""
    return re.fullmatch(r"visit_(?!1$)\d+", name) is None


def title_of(name: str, names: Mapping[str, object]) -> str:
    """Return what a page calls a volume.

    >>> title_of("visit_2_registered", {})
    'Visit 2, registered'
    >>> title_of("volume", {"volume": 1}), title_of("volume", {"volume": 1, "visit_1": 2})
    ('Reconstruction', 'All visits together')
    """
    if name == "volume":
        if "visit_1" in names or UNDILUTED in names:
            return "All visits together"
        return "Reference (visit 1)" if len(names) > 1 else "Reconstruction"
    if name == "visit_1":
        return "Visit 1 (reference)"
    if name == FUSED:
        return "Both views where sure"
    if name == UNDILUTED:
        return "Visit 1, undiluted"
    found = re.fullmatch(r"visit_(\d+)(_registered)?", name)
    if not found:
        return name.replace("_", " ")
    return f"Visit {found[1]}, {'registered' if found[2] else 'not registered'}"


def shown_volumes(saved: SavedResult) -> dict[str, torch.Tensor]:
    """Return the volumes of a page: in the reference frame, on the result's grid, the reference first, ...

    ... and last those of the moving visits in their own frames, on their own grids.
    """
    found = {name: volume for name, volume in saved.others.items() if name == "visit_1"}
    change = saved.change
    if change is not None and not change.reason:
        found[UNDILUTED] = _on(saved.grid, change.volume, change.grid)
    found["volume"] = saved.volume
    if FUSED in saved.others:
        found[FUSED] = saved.others[FUSED]
    for number in range(2, len(saved.motions) + 2):
        name = registered_name(number)
        if name in saved.others:
            found[name] = saved.others[name]
    for name in (own_name(number) for number in range(2, len(saved.motions) + 2)):
        if name in saved.others:
            found[name] = saved.others[name]
    return {
        name: _on(saved.grid, volume, saved.grids.get(name, saved.grid)) if is_registered(name) else volume
        for name, volume in found.items()
    }


def coarsening(grid: VolumeGrid, most: int) -> Shape:
    """Return the factors (z, y, x) that leave at most so many voxels; the shortest edges grow first.

    Within slices both edges grow alike.

    >>> coarsening(VolumeGrid.on_detector((60, 1400, 1200), (1.0, 0.1, 0.1)), 8_000_000)
    (1, 4, 4)
    """
    across, within = 1, 1
    while grid.coarsen((across, within, within)).n_voxels > most:
        d_z, d_y, d_x = grid.spacing_mm
        if grid.shape[0] > across and d_z * across < min(d_y, d_x) * within:
            across += 1
        else:
            within += 1
    return across, within, within


def page_volumes(saved: SavedResult) -> PageVolumes:
    """Return the volumes of a result in one grid and one scale, coarsened where they are too large.

    The maps of what changed, if that is known, come along.
    """
    volumes = shown_volumes(saved)
    for name, volume in volumes.items():
        check_finite("page_volumes", f"the volume {name!r}", volume)
    factors = coarsening(saved.grid, min(MOST_VOXELS, MOST_TOGETHER // len(volumes)))
    values = {name: _pooled(volume, factors) for name, volume in volumes.items()}
    reference = next(iter(values))
    prior = next((name for name in values if name.endswith("_registered")), None)
    low, high = (float(q) for q in np.quantile(sample(*values.values()), (0.001, 0.999)))
    slope = (high - low) / LEVELS or 1.0
    least, most = np.iinfo(np.int16).min, np.iinfo(np.int16).max
    numbers = {
        name: np.clip(np.rint(value / slope), least, most).astype(np.int16) for name, value in values.items()
    }
    grid = saved.grid.coarsen(factors)
    deformations = tuple(page_deformation(motion, saved.grid) for motion in saved.motions)
    unseen = _unseen(saved, grid, deformations, values)
    inside = inside_breast(values[reference], grid)
    window = tissue_window(values[reference], inside)
    spread = (window[1] - window[0]) / 2
    # Neither grid nor values of another frame have a part in what follows.
    own = {
        name: saved.grids.get(name, saved.grid).coarsen(factors) for name in values if not is_registered(name)
    }
    maps = None if saved.change is None else page_maps(saved.change, saved.grid, factors)
    if prior is not None:
        counts = inside & ~unseen[prior] if prior in unseen else inside
        if maps is not None and (maps.silent == 0).any():
            counts = maps.silent == 0
        spread = widest_difference(values[reference] - values[prior], counts) or spread
    return PageVolumes(
        grid=grid,
        coarsened=factors,
        numbers=numbers,
        slope=slope,
        reference=reference,
        prior=prior,
        window=window,
        spread=spread,
        inside=inside,
        unseen=unseen,
        deformations=deformations,
        own=own,
        own_inside={name: inside_breast(values[name], placed) for name, placed in own.items()},
        own_frames=_own_frames(saved, deformations),
        maps=maps,
    )


def _own_frames(saved: SavedResult, deformations: tuple[PageDeformation, ...]) -> tuple[PageOwnFrame, ...]:
    """Return the frames of the moving visits, each over the grid of the visit's own volume."""
    known = saved.saved_uncertainties or (None,) * len(deformations)
    return tuple(
        page_own_frame(motion, saved.grids.get(own_name(number), saved.grid), deformation, sure)
        for number, (motion, deformation, sure) in enumerate(
            zip(saved.motions, deformations, known, strict=True), start=2
        )
    )


def _unseen(
    saved: SavedResult, grid: VolumeGrid, deformations: tuple[PageDeformation, ...], names: Collection[str]
) -> dict[str, Mask]:
    """Return name -> where the visit has no data; only of those whose own grid is known, and too small."""
    found: dict[str, Mask] = {}
    for number, deformation in enumerate(deformations, start=2):
        own, moved = own_name(number), registered_name(number)
        if own not in saved.others:
            continue
        own_grid = saved.grids.get(own, saved.grid)
        if moved in names:
            found[moved] = unseen_after_motion(own_grid, deformation, grid)
        found[own] = unseen_in_place(own_grid, grid)
    return {name: mask for name, mask in found.items() if mask.any()}


def nifti_gzip(numbers: NDArray[np.int16], grid: VolumeGrid, slope: float) -> bytes:
    """Return a NIfTI file (x, y, z) of stored numbers (z, y, x), compressed; the same bytes every time."""
    image = nibabel().Nifti1Image(numbers.transpose(2, 1, 0), ras_affine(grid))
    image.header.set_slope_inter(slope, 0.0)
    image.header.set_xyzt_units("mm")
    return gzip.compress(image.to_bytes(), compresslevel=6, mtime=0)


def _on(grid: VolumeGrid, volume: torch.Tensor, own: VolumeGrid) -> torch.Tensor:
    if own == grid:
        return volume
    still = Translation(own)
    return still.warp(still.identity(), own, grid)(volume)


def _pooled(volume: torch.Tensor, factors: Shape) -> NDArray[np.float32]:
    """Return the means over blocks of voxels; the last ones of an axis may hold fewer."""
    pooled = torch.nn.functional.avg_pool3d(
        volume.float()[None], factors, stride=factors, ceil_mode=True, count_include_pad=False
    )[0]
    array: NDArray[np.float32] = pooled.numpy()
    return array
