"""The volumes of a result, small enough for a page: one grid, 16 bits, gzip."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import check_finite
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import world_to_voxel
from duotomo.io import SavedResult, SavedUncertainty
from duotomo.io.libraries import nibabel
from duotomo.io.patient_frame import ras_affine
from duotomo.report.page_change import PageMaps, page_maps
from duotomo.transforms import Motion, Translation, invert_points

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

    grid: of them all. coarsened: by which factors (z, y, x) the result's own grid was. numbers: name ->
    stored numbers (z, y, x), int16; times `slope` they are attenuations. window: the values drawn black
    and white. spread: the difference of the reference and the prior drawn in the strongest colours. maps: of
    what changed, if known.
    """

    grid: VolumeGrid
    coarsened: Shape
    numbers: dict[str, NDArray[np.int16]]
    slope: float
    reference: str
    prior: str | None
    window: tuple[float, float]
    spread: float
    maps: PageMaps | None = None


UNDILUTED = "undiluted"
"""The name of the current visit's volume with its findings at their own contrast."""


def registered_name(visit: int) -> str:
    """Return the name of a moving visit's own volume in the reference frame; visits count from 1."""
    return f"visit_{visit}_registered"


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
    if name == UNDILUTED:
        return "Visit 1, undiluted"
    found = re.fullmatch(r"visit_(\d+)_registered", name)
    return f"Visit {found[1]}, registered" if found else name.replace("_", " ")


def in_reference_frame(saved: SavedResult) -> dict[str, torch.Tensor]:
    """Return the volumes that lie in the reference frame, the reference first, on the result's grid."""
    found = {name: volume for name, volume in saved.others.items() if name == "visit_1"}
    change = saved.change
    if change is not None and not change.reason:
        found[UNDILUTED] = _on(saved.grid, change.volume, change.grid)
    found["volume"] = saved.volume
    for number in range(2, len(saved.motions) + 2):
        name = registered_name(number)
        if name in saved.others:
            found[name] = saved.others[name]
    return {
        name: _on(saved.grid, volume, saved.grids.get(name, saved.grid)) for name, volume in found.items()
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
    volumes = in_reference_frame(saved)
    for name, volume in volumes.items():
        check_finite("page_volumes", f"the volume {name!r}", volume)
    factors = coarsening(saved.grid, min(MOST_VOXELS, MOST_TOGETHER // len(volumes)))
    values = {name: _pooled(volume, factors) for name, volume in volumes.items()}
    reference = next(iter(values))
    prior = next((name for name in values if name.endswith("_registered")), None)
    low, high = (float(q) for q in np.quantile(_sample(*values.values()), (0.001, 0.999)))
    slope = (high - low) / LEVELS or 1.0
    least, most = np.iinfo(np.int16).min, np.iinfo(np.int16).max
    numbers = {
        name: np.clip(np.rint(value / slope), least, most).astype(np.int16) for name, value in values.items()
    }
    window = _window(values[reference])
    spread = (window[1] - window[0]) / 2
    maps = None if saved.change is None else page_maps(saved.change, saved.grid, factors)
    if prior is not None:
        difference = values[reference] - values[prior]
        if maps is not None and (maps.silent == 0).any():
            difference = difference[maps.silent == 0]
        spread = float(np.quantile(np.abs(_sample(difference)), 0.998)) or spread
    return PageVolumes(
        grid=saved.grid.coarsen(factors),
        coarsened=factors,
        numbers=numbers,
        slope=slope,
        reference=reference,
        prior=prior,
        window=window,
        spread=spread,
        maps=maps,
    )


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


def _sample(*arrays: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return at most some million of the values, spread evenly: quantiles need no more."""
    flat = [array.reshape(-1) for array in arrays]
    return np.concatenate([one[:: max(1, one.size // 1_000_000)] for one in flat])


def _window(values: NDArray[np.float32]) -> tuple[float, float]:
    """Return a window for the breast: air is black, and its brightest thousandth is white."""
    sample = _sample(values)
    top = float(np.quantile(sample, 0.995))
    body = sample[sample > 0.25 * top]
    if body.size == 0 or top <= 0:
        low, high = float(sample.min()), float(sample.max())
    else:
        dark, bright = (float(q) for q in np.quantile(body, (0.05, 0.999)))
        low, high = max(float(sample.min()), dark - 0.4 * (bright - dark)), bright + 0.1 * (bright - dark)
    return (low, high) if low < high else (low, low + 1.0)


MOST_POINTS = 32
"""Of the lattice along an axis: deformations are smooth."""
TOLERANCE_MM = 0.01

Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class PageDeformation:
    """Numbers at the points of a lattice that spans the reference grid's box, faces included.

    shape, spacing_mm, first_mm: of the lattice, xyz. fields: (4, z, y, x), float32: `T^-1(r)` in mm, xyz,
    then log2 of the volume that tissue has in the reference, per volume in the prior. NaN where T has no
    inverse.
    """

    shape: tuple[int, int, int]
    spacing_mm: Point
    first_mm: Point
    fields: NDArray[np.float32] = field(repr=False)

    def packed(self) -> bytes:
        """Return the fields, little-endian, compressed."""
        return gzip.compress(self.fields.astype("<f4").tobytes(), mtime=0)


def page_deformation(motion: Motion, grid: VolumeGrid) -> PageDeformation:
    """Return T^-1 and the determinants of T in the reference frame, on a lattice over the grid.

    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0))
    >>> shift = Translation(grid)
    >>> found = page_deformation(Motion(shift, shift.params(translation_mm=(3.0, 0.0, 0.0))), grid)
    >>> found.first_mm, found.fields[:, 0, 0, 0].tolist()
    ((-2.0, 0.0, 0.0), [-5.0, 0.0, 0.0, 0.0])
    """
    counts = [max(2, min(MOST_POINTS, n + 1)) for n in grid.shape]
    along = [
        torch.linspace(low, high, n, dtype=torch.float64)
        for low, high, n in zip(grid.low_mm, grid.high_mm, counts, strict=True)
    ]
    z, y, x = torch.meshgrid(*along, indexing="ij")
    points = torch.stack([x, y, z], dim=-1).reshape(-1, 3)
    before = invert_points(motion, points, tolerance_mm=TOLERANCE_MM, max_steps=30)
    determinants = torch.linalg.det(motion.jacobian(before.xyz_mm).detach())
    log2 = torch.log2(determinants.clamp_min(1e-6))
    fields = torch.cat([before.xyz_mm.detach().T, log2[None]])
    lost = (before.residual_mm > 10 * TOLERANCE_MM) | (determinants <= 0)
    fields[:, lost] = math.nan
    steps = [(high - low) / (n - 1) for low, high, n in zip(grid.low_mm, grid.high_mm, counts, strict=True)]
    return PageDeformation(
        shape=(counts[2], counts[1], counts[0]),
        spacing_mm=(steps[2], steps[1], steps[0]),
        first_mm=(grid.low_mm[2], grid.low_mm[1], grid.low_mm[0]),
        fields=fields.reshape(4, *counts).float().numpy(),
    )


def page_deviations(known: SavedUncertainty, deformation: PageDeformation) -> bytes | None:
    """Return the standard deviations of a motion at the points of its deformation's lattice, compressed.

    (3, z, y, x), float32, little-endian: along x, y and z, in mm, where the point of the moving frame lies
    that is seen there. NaN where the motion is not determined or has no inverse; None without a map.
    """
    if known.map_mm is None or known.grid is None:
        return None
    before = deformation.fields[:3].reshape(3, -1).T
    index = np.rint(world_to_voxel(known.grid, np.nan_to_num(before.astype(np.float64))))
    # Beyond the map, what is nearest of it.
    z, y, x = np.clip(index, 0, np.array(known.grid.shape) - 1).astype(np.int64).T
    values = known.map_mm.numpy()[:, z, y, x].copy()
    values[:, np.isnan(before).any(axis=1)] = np.nan
    return gzip.compress(values.astype("<f4").tobytes(), mtime=0)
