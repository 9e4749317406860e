"""The FDA's VICTRE phantom: a compressed breast, before and after a mass was put into it."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.images import read_image
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.sampled import Sampled
from duotomo.reproduction.plan import Plan
from duotomo.reproduction.third_party.files import GAP_MM, Origin, find, standing

ORIGIN = Origin(
    source="github.com/DIDSR/VICTRE_PIPELINE, phantoms/ and lesions/spiculated/ (Badano et al. 2018)",
    licence="CC0 1.0; say that what is derived from it was modified",
    making="Unpack the .raw.gz beside its .mhd, and write it as .mha with SimpleITK.",
)

VOXEL_MM, QUICK_VOXEL_MM = 1.0, 3.0
"""Of the grid around a breast in air."""

ABOUT = {
    "body": "the FDA's VICTRE phantom, compressed by its makers, without the plates, in air",
    "energy": "20 keV",
    "acquisition": "11 views over 50 degrees, source to detector 660 mm, pixels as wide as voxels",
}

BEFORE, AFTER = "victre_phantom/pc_1_crop.mha", "victre_phantom/pcl_1.mha"

_AIR, _PADDLE, _MASS = 0, 50, 200
_TISSUES = {
    1: Tissue.ADIPOSE,
    2: Tissue.SKIN,
    29: Tissue.GLANDULAR,
    33: Tissue.NIPPLE,
    40: Tissue.MUSCLE,
    88: Tissue.LIGAMENT,
    95: Tissue.LOBULE,
    125: Tissue.DUCT,
    150: Tissue.BLOOD,
    _MASS: Tissue.MASS,
    225: Tissue.BLOOD,
    250: Tissue.CALCIFICATION,
}

Labels = NDArray[np.uint8]


def victre(folder: str | os.PathLike[str], *, lesion: bool = False, energy_kev: float = 20.0) -> Sampled:
    """Return the attenuation of a breast that was compressed with finite elements, in voxels of 0.2 mm.

    Each label of the phantom becomes the attenuation of its tissue. The paddles are taken away: they are
    air, and the voxels end where the breast does.

    folder: holds victre_phantom/. lesion: with the spiculated mass; nothing else differs.
    """
    labels, spacing_mm = _labels(folder, AFTER if lesion else BEFORE)
    per_mm = np.zeros(256, dtype=np.float32)
    for label, tissue in _TISSUES.items():
        per_mm[label] = attenuation_per_mm(tissue, energy_kev=energy_kev)
    return standing(per_mm[labels], spacing_mm)


def breast_in_air(
    plan: Plan, experiment: str, *, room_mm: float, voxel_mm: float = VOXEL_MM
) -> tuple[Sampled, VolumeGrid]:
    """Return the FDA's compressed VICTRE phantom without its plates, and a grid with `room_mm` all around it.

    The grid stands above the detector from its chest-wall edge on, so that no motion within the room leaves
    the views. voxel_mm: its voxels, unless the size is reduced.
    """
    found = victre(plan.data_folder(experiment))
    spacing_mm = QUICK_VOXEL_MM if plan.quick else voxel_mm
    n_z, n_y, n_x = (math.ceil((size + 2 * room_mm) / spacing_mm) for size in found.grid.size_mm)
    grid = VolumeGrid.on_detector((n_z, n_y, n_x), (spacing_mm,) * 3, gap_mm=GAP_MM)
    return Sampled(volume=found.volume, grid=replace(found.grid, center_mm=grid.center_mm)), grid


def _labels(folder: str | os.PathLike[str], relative: str) -> tuple[Labels, tuple[float, float, float]]:
    """Return the labels, (z, y, x) in the machine frame, with paddles as air, and their spacing."""
    path = find(folder, relative, how_to_get=ORIGIN)
    image = read_image(path)
    d_y, d_x, d_z = image.spacing_mm.tolist()
    # The file's axes are (compression, lateral, chest wall to nipple). Reversing the lateral one keeps the
    # frame right-handed, and the breast unmirrored.
    labels: Labels = image.array.transpose(0, 2, 1)[:, :, ::-1]
    known = {_AIR, _PADDLE, *_TISSUES}
    unknown = sorted(set(np.flatnonzero(np.bincount(labels.ravel(), minlength=256)).tolist()) - known)
    if unknown:
        raise DuotomoError(f"victre: {path}: expected labels {sorted(known)}; got also {unknown}. {ORIGIN}")
    labels = np.where(labels == _PADDLE, _AIR, labels).astype(np.uint8)
    return labels[_inside(labels != _AIR)], (d_z, d_y, d_x)


def _inside(breast: NDArray[np.bool_]) -> tuple[slice, ...]:
    """Return the box around the breast."""
    ranges = (np.flatnonzero(breast.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1)))
    return tuple(slice(int(index[0]), int(index[-1]) + 1) for index in ranges)
