"""Volumes as NIfTI, MetaImage and NRRD images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, check_tensor
from duotomo.geometry import VolumeGrid
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


def write_volume(path: AnyPath, volume: torch.Tensor, grid: VolumeGrid) -> None:
    """Write a volume, (z, y, x), as an image (x, y, z) of its own precision, bit for bit.

    `.nii` and `.nii.gz`: the machine's x, y, z are NIfTI's Right, Anterior, Superior. NIfTI's header keeps
    places in float32: the grid moves by less than 1e-7 of its distance from the origin. `.mha` and `.nrrd`
    are in LPS, as ITK writes them, and keep places in float64. An older file is replaced once the new one is
    complete.

    >>> from tempfile import TemporaryDirectory
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> with TemporaryDirectory() as folder:
    ...     write_volume(f"{folder}/ones.nii.gz", torch.ones(2, 3, 4), grid)
    ...     volume, found = read_volume(f"{folder}/ones.nii.gz")
    >>> bool((volume == 1).all()), found == grid
    (True, True)
    """
    where = "write_volume"
    path = target(where, path, SUFFIXES)
    is_itk = path.suffix in ITK_SUFFIXES
    write, library = (write_itk_volume, simpleitk) if is_itk else (_write_nifti, nibabel)
    # A missing library is named first, whatever else is wrong.
    library()
    check_tensor(where, "volume", volume, shape=grid.shape, axes=_AXES, batch_ok=False)
    with durable(where, path) as fresh:
        write(fresh, volume.detach().cpu().numpy(), grid)


def read_volume(path: AnyPath) -> tuple[torch.Tensor, VolumeGrid]:
    """Return the volume in a NIfTI, MetaImage or NRRD image, (z, y, x), and its grid.

    Axes may be in any order and direction, but lie along the machine's. float32 and float64 stay as they are;
    other numbers become float32. Decimals that float32 has cut from NIfTI's header are restored: 0.1 is 0.1.
    """
    where = "read_volume"
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
