"""Volumes in any format that duotomo reads or writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotomo.cli._inputs import numbers

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import VolumeGrid
    from duotomo.io.dicom.identity import Identity

VolumeVoxelOption = Annotated[
    str | None,
    typer.Option(help="FRAMES,ROWS,COLUMNS in mm, of a DICOM volume that does not say them."),
]


def read_any_volume(path: Path, voxel: str | None = None) -> tuple[torch.Tensor, VolumeGrid]:
    """Return a volume, (z, y, x), and its grid, from an image or from DICOM Breast Tomosynthesis.

    voxel: of a DICOM image that does not say it, as `VolumeVoxelOption` has it.
    """
    from duotomo.io import read_volume
    from duotomo.io.dicom.header import is_dicom

    if path.is_file() and is_dicom(path):
        from duotomo.io.dicom.tomosynthesis import read_tomosynthesis

        if voxel is None:
            return read_tomosynthesis(path)
        frames_mm, rows_mm, columns_mm = numbers("duotomo", "--voxel", voxel, n=3)
        return read_tomosynthesis(path, voxel_mm=(frames_mm, rows_mm, columns_mm))
    return read_volume(path)


def write_any_volume(path: Path, volume: torch.Tensor, grid: VolumeGrid, identity: Identity | None) -> None:
    """Write a volume in the format that the suffix names; the identity goes to DICOM only."""
    if path.suffix.lower() == ".dcm":
        from duotomo.io.dicom.tomosynthesis import write_tomosynthesis

        write_tomosynthesis(path, volume, grid, identity=identity)
        return
    from duotomo.io import write_volume

    write_volume(path, volume, grid)
