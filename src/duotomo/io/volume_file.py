"""Volumes as images of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.header import is_dicom
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.dicom.tomosynthesis_reader import read_tomosynthesis
from duotomo.io.displacement import FLOAT32
from duotomo.io.durable import durable
from duotomo.io.file_error import FileError, reason
from duotomo.io.libraries import nibabel, simpleitk
from duotomo.io.nifti_bytes import nifti_bytes
from duotomo.io.paths import AnyPath, source, target
from duotomo.io.patient_frame import ras_affine
from duotomo.io.placement import Placement, place
from duotomo.io.stacks.stack import check_numbers
from duotomo.io.volume_itk import SUFFIXES as ITK_SUFFIXES
from duotomo.io.volume_itk import read_itk_volume, write_itk_volume

SUFFIXES = (".nii.gz", ".nii", *ITK_SUFFIXES)

_AXES = ("z", "y", "x")


def write_volume(
    path: AnyPath, volume: torch.Tensor, grid: VolumeGrid, *, identity: Identity | None = None
) -> None:
    """Write a volume as an image (x, y, z), in the format that the suffix names.

    `.nii` and `.nii.gz`: of its own precision, bit for bit; the machine's x, y, z are NIfTI's Right,
    Anterior, Superior. NIfTI's header keeps places in float32: the grid moves by less than 1e-7 of its
    distance from the origin. `.mha` and `.nrrd` are in LPS, as ITK writes them, and keep places in float64.
    `.dcm` is what `write_tomosynthesis` writes. An older file is replaced once the new one is complete.

    Parameters
    ----------
    path : str or path
        Ends in `.nii.gz`, `.nii`, `.mha`, `.nrrd` or `.dcm`.
    volume : torch.Tensor
        (z, y, x) on `grid`, 1/mm.
    grid : VolumeGrid
        Where its voxels are.
    identity : Identity, optional
        Whom a DICOM file is of; other formats name nobody.

    Raises
    ------
    FileError
        If the suffix is another, or the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> with TemporaryDirectory() as folder:
    ...     write_volume(f"{folder}/ones.nii.gz", torch.ones(2, 3, 4), grid)
    ...     volume, found = read_volume(f"{folder}/ones.nii.gz")
    >>> bool((volume == 1).all()), found == grid
    (True, True)
    """
    where = "write_volume"
    path = target(where, path, (*SUFFIXES, ".dcm"))
    if path.suffix == ".dcm":
        write_tomosynthesis(path, volume, grid, identity=identity)
        return
    is_itk = path.suffix in ITK_SUFFIXES
    write, library = (write_itk_volume, simpleitk) if is_itk else (_write_nifti, nibabel)
    # A missing library is named first, whatever else is wrong.
    library()
    check_tensor(where, "volume", volume, shape=grid.shape, axes=_AXES, batch_ok=False)
    with durable(where, path) as fresh:
        write(fresh, volume.detach().cpu().numpy(), grid)


def read_volume(
    path: AnyPath, voxel_mm: tuple[float, float, float] | None = None
) -> tuple[torch.Tensor, VolumeGrid]:
    """Return the volume in a NIfTI, MetaImage, NRRD or DICOM Breast Tomosynthesis image.

    Axes may be in any order and direction, but lie along the machine's. float32 and float64 stay as they are;
    other numbers become float32. Decimals that float32 has cut from NIfTI's header are restored: 0.1 is 0.1.

    Parameters
    ----------
    path : str or path
        DICOM is recognised by its content, the others by their suffix.
    voxel_mm : tuple of float, optional
        (frames, rows, columns) in mm, of a DICOM image that does not say them.

    Returns
    -------
    volume : torch.Tensor
        (z, y, x), float32 or float64, on the CPU.
    grid : VolumeGrid
        Where its voxels are.

    Raises
    ------
    FileError
        If the file is missing, damaged, oblique, or of another kind.
    """
    where, path = "read_volume", Path(path)
    if path.is_file() and is_dicom(path):
        return read_tomosynthesis(path, voxel_mm=voxel_mm)
    path = source(where, path, SUFFIXES)
    try:
        placement = read_itk_volume(path) if path.suffix in ITK_SUFFIXES else _read_nifti(path)
        if placement.turn is not None:
            raise FileError(
                f"expected axes along the machine's; got the directions {placement.turn.round(4).tolist()}. "
                f"Resample the image."
            )
    except DuotomoError as error:
        raise FileError(f"{where}: {path}: {error}") from error
    return torch.from_numpy(placement.vectors[0]), placement.grid


def _write_nifti(path: Path, values: NDArray[Any], grid: VolumeGrid) -> None:
    affine = ras_affine(grid)
    image = nibabel().Nifti1Image(values.transpose(2, 1, 0), affine)
    image.set_sform(affine, code="scanner")
    image.set_qform(affine, code="scanner")
    image.header.set_xyzt_units("mm")
    image.to_filename(str(path))


def _read_nifti(path: Path) -> Placement:
    values, affine = _contents(path)
    spacing_mm = np.linalg.norm(affine[:3, :3], axis=0)
    if values.ndim != 3 or not (np.isfinite(affine).all() and spacing_mm.all()):
        raise FileError(
            f"expected (x, y, z) values on voxels of some size; got {values.shape} and the affine "
            f"{affine.tolist()}. Choose an image of one volume."
        )
    return place(
        vectors=values.transpose(2, 1, 0)[None],
        direction=affine[:3, :3] / spacing_mm,
        first_mm=_decimals(affine[:3, 3]),
        spacing_mm=_decimals(spacing_mm),
        rounding=FLOAT32,
    )


def _contents(path: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the values of an image, (x, y, z), and its matrix from index to RAS."""
    nib = nibabel()
    try:
        image = nib.Nifti1Image.from_bytes(nifti_bytes(path))
        has_place = bool(image.header["sform_code"] > 0 or image.header["qform_code"] > 0)
        values = np.asarray(image.dataobj)
    except FileError:
        raise
    except Exception as error:  # zlib, struct and nibabel each have their own
        raise FileError(
            f"expected an image that can be read; got: {reason(error)}. Check that the file is complete."
        ) from error
    check_numbers(values.dtype, path.name)
    if not has_place:
        raise FileError("expected an sform or a qform; got neither. Set one: it says where the voxels are.")
    precise = values.dtype.kind == "f" and values.dtype.itemsize == 8
    return values.astype(np.float64 if precise else np.float32), image.affine


def _decimals(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the shortest decimals that float32 rounds to these values."""
    return np.array([float(str(value)) for value in values.astype(np.float32)])
