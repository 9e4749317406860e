"""Masks as NIfTI images of 0 and 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io.durable import durable
from duotomo.io.images.nifti import write_nifti
from duotomo.io.paths import FileError
from duotomo.io.patient_frame import ras_affine
from duotomo.io.volume_file import read_volume


def write_mask(path: Path, mask: torch.Tensor, grid: VolumeGrid) -> None:
    """Write a mask, (z, y, x), as NIfTI of 0 and 1, uint8."""
    values = mask.detach().cpu().numpy().astype(np.uint8)
    with durable("write_result", path) as fresh:
        write_nifti(fresh, values.transpose(2, 1, 0), ras_affine(grid))


def read_mask(path: Path, grid: VolumeGrid) -> torch.Tensor:
    """Return what `write_mask` wrote for a grid, (z, y, x), bool."""
    values, placed = read_volume(path)
    if placed.shape != grid.shape or not bool(((values == 0) | (values == 1)).all()):
        raise FileError(f"{path.name}: expected 0 and 1 on the grid of the volume; got others. Restore it.")
    return values == 1
