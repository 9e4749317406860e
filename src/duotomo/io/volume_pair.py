"""Two volumes that are to be registered, and whom they are of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from duotomo.geometry import VolumeGrid
from duotomo.io.agreement import Agreement, Allowed, compare_visits
from duotomo.io.dicom.header import is_dicom
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.identity_file import read_identity
from duotomo.io.paths import AnyPath, FileError
from duotomo.io.volume_file import read_volume

_WHERE = "read_volume_pair"


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumePair:
    """A reference volume and a moving one, in this order.

    Parameters
    ----------
    volumes : tuple of torch.Tensor
        (z, y, x), finite.
    grids : tuple of VolumeGrid
        Where their voxels are.
    identities : tuple of Identity or None
        Whom they are of, where their files say so.
    agreement : Agreement
        What was compared between them.
    """

    volumes: tuple[torch.Tensor, torch.Tensor] = field(repr=False)
    grids: tuple[VolumeGrid, VolumeGrid]
    identities: tuple[Identity | None, ...] = field(repr=False)
    agreement: Agreement


def read_volume_pair(
    reference: AnyPath,
    moving: AnyPath,
    *,
    voxel_mm: tuple[float, float, float] | None = None,
    allowed: Allowed | None = None,
) -> VolumePair:
    """Return two volumes of one breast; raise if they are not, as far as their files tell.

    Parameters
    ----------
    reference, moving : str or path
        Of volumes that `read_volume` reads.
    voxel_mm : tuple of float, optional
        As for `read_volume`.
    allowed : Allowed, optional
        In what they may differ nevertheless; in nothing, unless given.

    Returns
    -------
    VolumePair
        On the CPU.

    Raises
    ------
    FileError
        If a file cannot be read, or has voxels that are not finite.
    DuotomoError
        If the volumes do not belong together.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.io import write_volume
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> with TemporaryDirectory() as folder:
    ...     write_volume(f"{folder}/a.nii.gz", torch.ones(2, 3, 4), grid)
    ...     write_volume(f"{folder}/b.nii.gz", torch.zeros(2, 3, 4), grid)
    ...     pair = read_volume_pair(f"{folder}/a.nii.gz", f"{folder}/b.nii.gz")
    >>> pair.grids[0] == grid, pair.agreement.compared
    (True, ('PixelData',))
    """
    paths = Path(reference), Path(moving)
    (one, grid), (two, other_grid) = (_finite(path, voxel_mm) for path in paths)
    known = [read_identity(_WHERE, path) if is_dicom(path) else None for path in paths]
    agreement = compare_visits(_WHERE, known, (one, two), allowed)
    return VolumePair(
        volumes=(one, two),
        grids=(grid, other_grid),
        identities=agreement.identities(known),
        agreement=agreement,
    )


def _finite(path: Path, voxel_mm: tuple[float, float, float] | None) -> tuple[torch.Tensor, VolumeGrid]:
    volume, grid = read_volume(path, voxel_mm)
    if not bool(torch.isfinite(volume).all()):
        raise FileError(
            f"{_WHERE}: {path}: expected finite voxels; got NaN or infinity among them. Fill them first."
        )
    return volume, grid
