"""Displacements of voxels, as images of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.durable import durable
from duotomo.io.file_error import FileError, reason
from duotomo.io.libraries import nibabel, simpleitk
from duotomo.io.nifti_bytes import nifti_bytes
from duotomo.io.paths import AnyPath, source, target
from duotomo.io.patient_frame import itk_image, lps, ras_affine
from duotomo.io.placement import Placement, from_itk, place
from duotomo.io.volume_itk import read_itk_image
from duotomo.transforms import DisplacementField, Motion

SUFFIXES = (".nii.gz", ".nii", ".mha")

RAS_VECTORS, LPS_VECTORS = 1006, 1007
"""NIfTI's intents "displacement vector" and "vector", which tell ITK along which axes vectors are given."""

FARTHEST_MM = 1e6
"""Nothing in an image is moved by a kilometre."""

FLOAT32 = 1e-6
"""What NIfTI's header leaves of a direction is right to this."""


def write_displacement(path: AnyPath, motion: Motion, grid: VolumeGrid) -> None:
    """Write `T(x) - x` at the voxel centres of the moving grid, in mm, float64.

    ITK reads `.nii`, `.nii.gz` and `.mha` alike: `sitk.DisplacementFieldTransform(sitk.ReadImage(path,
    sitk.sitkVectorFloat64))` takes voxel centres where T takes them, and points between them to linear
    interpolations of that. Beyond the outermost centres ITK keeps the displacement for half a voxel and then
    moves nothing; a `DisplacementField` fades to zero within one voxel.

    A NIfTI file is (x, y, z, 1, component). ITK takes the components of NIfTI's intent 1007, "vector", as
    they are: along L, P, S. Those of intent 1006, "displacement vector", it takes to be along R, A, S, and
    turns them, but only since version 5.4. So 1007 is written, with components along L, P, S, as ITK and ANTs
    write them: -x, -y, z. NIfTI's header keeps places in float32: the grid moves by less than 1e-7 of its
    distance from the origin.

    An older file is replaced once the new one is complete; if that fails, it stays.

    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> shift = Translation(grid)
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/shift.nii.gz"
    ...     write_displacement(path, Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0))), grid)
    ...     motion = read_displacement(path)
    >>> motion.displacement()[:, 0, 0, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    where = "write_displacement"
    path = target(where, path, SUFFIXES)
    write = _write_mha if path.suffix == ".mha" else _write_nifti
    displacement_mm = motion.transform.displacement(motion.params.detach().cpu(), grid)
    vectors = displacement_mm.movedim(0, -1).numpy()
    with durable(where, path) as fresh:
        write(fresh, vectors, grid)


def read_displacement(path: AnyPath) -> Motion:
    """Return the displacements in an image of vectors, as the motion of a `DisplacementField`.

    The field lies on the file's own grid. Its axes may be in any order and direction, but lie along the
    machine's. In NIfTI files, vectors are along L, P, S if the intent is 1007, "vector", and along R, A, S if
    it is 1006, "displacement vector", as ITK 5.4 takes them. Decimals that float32 has cut from NIfTI's
    spacings and origin are restored: 0.1 is 0.1.
    """
    where = "read_displacement"
    path = source(where, path, SUFFIXES)
    read = _read_mha if path.suffix == ".mha" else _read_nifti
    try:
        placement = read(path)
        if placement.turn is not None:
            raise FileError(
                f"expected axes along the machine's; got the directions {placement.turn.round(4).tolist()}. "
                f"Resample it, or write it as a DisplacementFieldTransform to a .h5 file for read_transform, "
                f"which takes any direction."
            )
        if (np.abs(placement.vectors) > FARTHEST_MM).any():
            raise FileError(
                f"expected displacements of at most {FARTHEST_MM:g} mm; got more. Check the file."
            )
        field = DisplacementField(placement.grid)
        return Motion(field, field.params(displacement_mm=torch.from_numpy(placement.vectors)))
    except DuotomoError as error:
        raise FileError(f"{where}: {path}: {error}") from error


def _write_mha(path: Path, vectors: NDArray[np.float64], grid: VolumeGrid) -> None:
    simpleitk().WriteImage(itk_image(grid, vectors, vectors=True), str(path))


def _write_nifti(path: Path, vectors: NDArray[np.float64], grid: VolumeGrid) -> None:
    affine = ras_affine(grid)
    values = lps(vectors).transpose(2, 1, 0, 3)[:, :, :, None, :]
    image = nibabel().Nifti1Image(values, affine)
    image.set_sform(affine, code="scanner")
    image.set_qform(affine, code="scanner")
    image.header.set_intent(LPS_VECTORS)
    image.header.set_xyzt_units("mm")
    image.to_filename(str(path))


def _read_mha(path: Path) -> Placement:
    image = read_itk_image(path, n_components=3)
    return from_itk(image, simpleitk().GetArrayFromImage(image))


def _read_nifti(path: Path) -> Placement:
    nib = nibabel()
    try:
        image = nib.Nifti1Image.from_bytes(nifti_bytes(path))
        header = image.header
        shape, intent = image.shape, int(header["intent_code"])
        has_place = bool(header["sform_code"] > 0 or header["qform_code"] > 0)
        values = np.asarray(image.dataobj, dtype=np.float64)
    except FileError:
        raise
    except Exception as error:  # zlib, struct and nibabel each have their own
        raise _damaged(error) from error
    if len(shape) != 5 or shape[3:] != (1, 3) or intent not in (RAS_VECTORS, LPS_VECTORS):
        raise FileError(
            f"expected (x, y, z, 1, 3) values with intent {RAS_VECTORS} or {LPS_VECTORS}; got {shape} with "
            f"intent {intent}. Choose an image of displacements."
        )
    if not has_place:
        raise FileError("expected an sform or a qform; got neither. Set one: it says where the voxels are.")
    vectors = values[:, :, :, 0].transpose(2, 1, 0, 3)
    vectors = lps(vectors) if intent == LPS_VECTORS else vectors
    affine = image.affine
    spacing_mm = np.linalg.norm(affine[:3, :3], axis=0)
    if not (np.isfinite(affine).all() and spacing_mm.all()):
        raise FileError(f"expected finite voxels of some size; got the affine {affine.tolist()}. Correct it.")
    return place(
        vectors=np.moveaxis(vectors, -1, 0),
        direction=affine[:3, :3] / spacing_mm,
        first_mm=_decimals(affine[:3, 3]),
        spacing_mm=_decimals(spacing_mm),
        rounding=FLOAT32,
    )


def _decimals(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the shortest decimals that float32 rounds to these values."""
    return np.array([float(str(value)) for value in values.astype(np.float32)])


def _damaged(error: Exception) -> FileError:
    return FileError(
        f"expected an image that can be read; got: {reason(error)}. Check that the file is complete."
    )
