"""Volumes as images of any format."""

from __future__ import annotations

from pathlib import Path

import torch

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.header import is_dicom
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.dicom.tomosynthesis_reader import read_tomosynthesis
from duotomo.io.durable import durable
from duotomo.io.images import read_image
from duotomo.io.images.image import check_components
from duotomo.io.images.nifti import write_nifti
from duotomo.io.libraries import nibabel, simpleitk
from duotomo.io.paths import AnyPath, naming, source, target
from duotomo.io.patient_frame import aligned, from_image, itk_image, ras_affine

ITK_SUFFIXES = (".mha", ".nrrd")
SUFFIXES = (".nii.gz", ".nii", *ITK_SUFFIXES)


def write_volume(
    path: AnyPath,
    volume: torch.Tensor,
    grid: VolumeGrid,
    *,
    identity: Identity | None = None,
    note: str = "",
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
    note : str
        What the header says of the volume to people: NIfTI's description, a comment in `.mha` and `.nrrd`.

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
    # A missing library is named first, whatever else is wrong.
    simpleitk() if is_itk else nibabel()
    check_tensor(where, "volume", volume, shape=grid.shape, axes=("z", "y", "x"), batch_ok=False)
    values = volume.detach().cpu().numpy()
    with durable(where, path) as fresh:
        if is_itk:
            image = itk_image(grid, values)
            if note:
                image.SetMetaData("Comment", note)
            simpleitk().WriteImage(image, str(fresh))
        else:
            write_nifti(fresh, values.transpose(2, 1, 0), ras_affine(grid), description=note)


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
    with naming(where, path):
        image = read_image(path, in_one_file=True)
        check_components(image, 1, "one volume")
        placement = aligned(from_image(image, image.floats()[None]), "Resample the image.")
    return torch.from_numpy(placement.vectors[0]), placement.grid
