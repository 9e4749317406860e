"""Projections that others simulated, by every algorithm: where the lesion comes out, and how bright."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io import write_volume
from duotomo.io.durable import held
from duotomo.io.run_fingerprint import settings_key
from duotomo.io.versions import library_versions
from duotomo.phantoms import Ellipsoid, Tissue
from duotomo.phantoms.attenuation import JOHNS_YAFFE_20_KEV_PER_MM
from duotomo.reconstruct import (
    BackProjection,
    FilteredBackProjection,
    LeastSquares,
    MlConvex,
    Sart,
    TvLeastSquares,
    reconstruct,
)
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.reproduction.table import TABLE, WHERE, Row, read_row, write_json, write_row
from duotomo.reproduction.third_party.fda import FdaScan, fda_projections
from duotomo.reproduction.third_party.files import scipy_part

FDA_NAME = "fda-projections"
"""Of the folder, and on the command line; no experiment of the paper."""

FDA_TITLE = "Projections simulated by the FDA: one lesion, six algorithms"
"""In tables and on the page."""

THICKNESS_MM, WIDTH_MM = 50.0, 220.0
"""Of the grid, from the detector up and along x. The data do not say how thick the breast is."""

PATCH_CENTER_MM, PATCH_MM = (-50.4, 6.8), 8.0
"""x and y of a square of the lesion's slice, where noise is measured, and its edge. It is where SART, CGLS,
ML-convex and total variation together are calmest, away from the skin."""

PEAK_MM, NEAR_MM, RING_MM = 5.0, 10.0, (6.0, 10.0)
"""From the lesion's centre: the peak is sought within the first; the spot, and what surrounds it, lie within
the second; the surroundings of the lesion in its slice lie between the last two."""

Floats = NDArray[np.float64]


_VERSION_1 = {"LeastSquares": "Cgls", "MlConvex": "Mlem", "TvLeastSquares": "TotalVariation"}
"""Names of algorithms in rows of version 1."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """An algorithm with its name in files and its label in tables."""

    name: str
    label: str
    algorithm: Algorithm

    @property
    def settings(self) -> str:
        """The algorithm as Python, without places in memory."""
        return re.sub(r"<function (\w+) at \w+>", r"\1", repr(self.algorithm))


def algorithms(scan: FdaScan, *, quick: bool) -> tuple[Named, ...]:
    """Return the algorithms that are compared, with settings for this scan."""
    part = 4 if quick else 1
    named: tuple[tuple[str, str, Algorithm], ...] = (
        ("back-projection", "back projection", BackProjection()),
        ("filtered-back-projection", "filtered back projection", FilteredBackProjection()),
        ("sart", "SART", Sart(n_sweeps=8 // part, relaxation=0.5)),
        ("cgls", "CGLS", LeastSquares(n_steps=12 // part)),
        ("ml-convex", "ML-convex", MlConvex(n_steps=60 // part, photons=scan.photons)),
        ("total-variation", "total variation", TvLeastSquares(n_steps=1500 // part)),
    )
    return tuple(Named(name=name, label=label, algorithm=algorithm) for name, label, algorithm in named)


def grid_of(scan: FdaScan, *, quick: bool) -> VolumeGrid:
    """Return a grid as wide as the breast and as deep as the detector."""
    height_mm, edge_mm = (2.5, 1.6) if quick else (1.5, 0.8)
    depth_mm = scan.acquisition.detector_shape[0] * scan.acquisition.pixel_spacing_mm[0]
    shape = round(THICKNESS_MM / height_mm), round(depth_mm / edge_mm), round(WIDTH_MM / edge_mm)
    return VolumeGrid.on_detector(shape, (height_mm, edge_mm, edge_mm))


def reproduce_fda(plan: Plan, folder: Path, *, on_row: Callable[[Row, bool], None]) -> dict[str, Any]:
    """Reconstruct with every algorithm that is not finished yet, and write the table.

    Every algorithm leaves its volume and its row in files of its own when it ends.

    Parameters
    ----------
    plan : Plan
        Size, device and data.
    folder : Path
        To write to.
    on_row : callable
        Called with each row, and whether it was finished in an earlier run.

    Returns
    -------
    dict
        The table, as `table.json` has it.

    Raises
    ------
    DuotomoError
        If data are missing, or the folder holds rows of other settings.
    """
    scan = fda_projections(plan.data_folder(FDA_NAME))
    grid = grid_of(scan, quick=plan.quick)
    rows = []
    with held(WHERE, folder):
        for named in algorithms(scan, quick=plan.quick):
            keys = _keys(plan, grid, named)
            row = read_row(folder / f"{named.name}.json", keys)
            before = row is not None
            row = row or _run(named, scan, grid, plan.device, folder, keys[0])
            on_row(row, before)
            rows.append(row)
        table = _table(plan, scan, grid, rows)
        write_json(folder / TABLE, table)
    return table


def _keys(plan: Plan, grid: VolumeGrid, named: Named) -> tuple[str, str]:
    """Return what a finished row must have been made with to be taken as it is: of this version, and of 1."""
    name, options = named.settings.split("(", 1)
    older = f"{_VERSION_1.get(name, name)}({options}"
    place = f"{plan.device} {grid!r}"
    return f"{place} {settings_key(named.algorithm)}", f"{place} {older}"


def measures(volume: Floats, grid: VolumeGrid, scan: FdaScan) -> dict[str, Any]:
    """Return where the lesion of a volume (z, y, x) is, how bright, and how noisy a calm place of the breast.

    offset_mm: from the true centre, xyz, of the centroid of what exceeds half of the peak's height over the
    surroundings. lesion_per_mm: the mean over the true ellipsoid. surroundings_per_mm: the median of the ring
    about it, in its slices. noise_per_mm: the standard deviation in a square of the lesion's slice.
    """
    z, y, x = (
        low + (np.arange(n) + 0.5) * edge
        for low, n, edge in zip(grid.low_mm, grid.shape, grid.spacing_mm, strict=True)
    )
    at_x, at_y, at_z = scan.lesion_center_mm
    apart = np.stack(np.meshgrid(z - at_z, y - at_y, x - at_x, indexing="ij"))
    lesion = Ellipsoid(center_mm=scan.lesion_center_mm, radii_mm=scan.lesion_radii_mm, value=1.0)
    share = lesion.voxels(grid, dtype=np.float64)
    radius = np.hypot(apart[1], apart[2])
    slices = np.abs(apart[0]) <= max(scan.lesion_radii_mm[2], grid.spacing_mm[0] / 2)
    ring = slices & (radius > RING_MM[0]) & (radius < RING_MM[1])
    layer = volume[np.abs(z - at_z).argmin()]
    patch_x, patch_y = PATCH_CENTER_MM
    rows, columns = np.abs(y - patch_y) <= PATCH_MM / 2, np.abs(x - patch_x) <= PATCH_MM / 2
    inside, around = float((volume * share).sum() / share.sum()), float(np.median(volume[ring]))
    noise = float(layer[np.ix_(rows, columns)].std())
    return {
        "offset_mm": _spot(volume, np.abs(apart).max(axis=0), apart),
        "lesion_per_mm": inside,
        "surroundings_per_mm": around,
        "contrast_per_mm": inside - around,
        "noise_per_mm": noise,
    }


def _spot(volume: Floats, far_mm: Floats, apart: Floats) -> list[float]:
    """Return the centroid xyz of the bright spot, from the lesion's centre.

    apart: of each voxel from that centre, in mm, (zyx, z, y, x). far_mm: the largest of the three.
    """
    near = far_mm <= NEAR_MM
    excess = np.where(near, volume - np.median(volume[near]), 0.0)
    peak = np.unravel_index(np.where(far_mm <= PEAK_MM, excess, -np.inf).argmax(), excess.shape)
    labels, _ = scipy_part("ndimage").label(excess > excess[peak] / 2)
    weights = np.where(labels == labels[peak], excess, 0.0)
    return [float((apart[axis] * weights).sum() / weights.sum()) for axis in (2, 1, 0)]


def _run(named: Named, scan: FdaScan, grid: VolumeGrid, device: str, folder: Path, key: str) -> Row:
    data = torch.from_numpy(scan.projections).to(device=device, dtype=torch.float32)
    began = time.perf_counter()
    solution = reconstruct(data, grid=grid, acquisition=scan.acquisition, algorithm=named.algorithm)
    volume = solution.value.cpu()
    seconds = time.perf_counter() - began
    write_volume(folder / f"{named.name}.nii.gz", volume, grid)
    row = {
        "name": named.name,
        "label": named.label,
        "settings": named.settings,
        **measures(volume.double().numpy(), grid, scan),
        "status": solution.status.value,
        "reason": solution.reason,
        "seconds": seconds,
    }
    write_row(folder / f"{named.name}.json", key, row)
    return row


def _table(plan: Plan, scan: FdaScan, grid: VolumeGrid, rows: list[Row]) -> dict[str, Any]:
    # Of 20 keV, and of what the breast is made of.
    low, high = (JOHNS_YAFFE_20_KEV_PER_MM[tissue] for tissue in (Tissue.ADIPOSE, Tissue.GLANDULAR))
    return {
        "experiment": FDA_NAME,
        "title": FDA_TITLE,
        "level": DataLevel.REAL.value,
        "quick": plan.quick,
        "device": plan.device,
        "about": {
            "data": "7 noisy views over 30 degrees, pixels of 0.4 mm: github.com/DIDSR/ReconDBT",
            "projector": "Image Reconstruction Toolbox, which shares no code with duotomo",
            "grid": repr(grid),
            "lesion": f"ellipsoid of radii {scan.lesion_radii_mm} mm about {scan.lesion_center_mm} mm",
            "thickness": f"not in the data; {THICKNESS_MM:g} mm is assumed",
        },
        "lesion_center_mm": list(scan.lesion_center_mm),
        "true_contrast_per_mm": [scan.lesion_per_mm - high, scan.lesion_per_mm - low],
        "versions": library_versions(),
        "rows": rows,
    }
