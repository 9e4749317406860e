"""Volumes in any format that duotomo reads or writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import VolumeGrid
    from duotomo.io.dicom.identity import Identity


def read_any_volume(path: Path) -> tuple[torch.Tensor, VolumeGrid]:
    """Return a volume, (z, y, x), and its grid, from an image or from DICOM Breast Tomosynthesis."""
    from duotomo.io import read_volume
    from duotomo.io.dicom.header import is_dicom

    if path.is_file() and is_dicom(path):
        from duotomo.io.dicom.tomosynthesis import read_tomosynthesis

        return read_tomosynthesis(path)
    return read_volume(path)


def write_any_volume(path: Path, volume: torch.Tensor, grid: VolumeGrid, identity: Identity | None) -> None:
    """Write a volume in the format that the suffix names; the identity goes to DICOM only."""
    if path.suffix.lower() == ".dcm":
        from duotomo.io.dicom.tomosynthesis import write_tomosynthesis

        write_tomosynthesis(path, volume, grid, identity=identity)
        return
    from duotomo.io import write_volume

    write_volume(path, volume, grid)
