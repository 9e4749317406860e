"""Displacements of voxels, as images of vectors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.durable import durable
from duotomo.io.images import StoredImage, read_image
from duotomo.io.images.image import check_components
from duotomo.io.images.nifti import write_nifti
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import AnyPath, FileError, naming, source, target
from duotomo.io.patient_frame import aligned, from_image, itk_image, lps, ras_affine
from duotomo.transforms import DisplacementField, Motion

SUFFIXES = (".nii.gz", ".nii", ".mha")

RAS_VECTORS, LPS_VECTORS = 1006, 1007
"""NIfTI's intents "displacement vector" and "vector", which tell ITK along which axes vectors are given."""

FARTHEST_MM = 1e6
"""Nothing in an image is moved by a kilometre."""


MOST_VECTORS = 2_000_000
"""A displacement image has at most about so many voxels; the transform beside it is exact everywhere."""

FINE, SMOOTH_MM = 16, 25.0
"""Vectors from one control point to the next, with which linear interpolation is as good as exact; and the
distance of control points where a motion has none."""


def vector_grid(motion: Motion, grid: VolumeGrid) -> VolumeGrid:
    """Return a grid on which to give the vectors of a motion: the same box, with fewer voxels if it has many.

    A deformation is as smooth as its control points are far apart. Voxels are united along each axis until
    16 of them reach from one control point to the next, and then along all axes until few enough are left.

    Parameters
    ----------
    motion : Motion
        Whose control points count.
    grid : VolumeGrid
        Of a volume.

    Returns
    -------
    VolumeGrid
        The grid itself, if it has at most 2 million voxels.
    """
    if grid.n_voxels <= MOST_VECTORS:
        return grid
    edge_mm = min(motion.transform.control_spacing_mm or (SMOOTH_MM,)) / FINE
    z, y, x = (max(1, int(edge_mm / spacing_mm)) for spacing_mm in grid.spacing_mm)
    return grid.coarsen((z, y, x)).coarsened_to(MOST_VECTORS)


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

    Parameters
    ----------
    path : str or path
        Ends in `.nii.gz`, `.nii` or `.mha`.
    motion
        As for `write_transform`.
    grid : VolumeGrid
        Of the moving frame.

    Raises
    ------
    FileError
        As for `write_volume`.

    Examples
    --------
    >>> from duotomo.transforms import Translation
    >>> from tempfile import TemporaryDirectory
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
    displacement_mm = motion.transform.displacement(motion.params.detach().cpu(), grid)
    vectors = displacement_mm.movedim(0, -1).numpy()
    with durable(where, path) as fresh:
        if path.suffix == ".mha":
            simpleitk().WriteImage(itk_image(grid, vectors, vectors=True), str(fresh))
        else:
            values = lps(vectors).transpose(2, 1, 0, 3)[:, :, :, None, :]
            write_nifti(fresh, values, ras_affine(grid), intent=LPS_VECTORS)


def read_displacement(path: AnyPath) -> Motion:
    """Return the displacements in an image of vectors, as the motion of a `DisplacementField`.

    The field lies on the file's own grid. Its axes may be in any order and direction, but lie along the
    machine's. In NIfTI files, vectors are along L, P, S if the intent is 1007, "vector", and along R, A, S if
    it is 1006, "displacement vector", as ITK 5.4 takes them. Decimals that float32 has cut from NIfTI's
    spacings and origin are restored: 0.1 is 0.1.

    Parameters
    ----------
    path
        As for `write_displacement`.

    Returns
    -------
    Motion
        Of a `DisplacementField`.

    Raises
    ------
    FileError
        If the file is missing, damaged, oblique, or of another kind.
    """
    where = "read_displacement"
    path = source(where, path, SUFFIXES)
    with naming(where, path):
        image = read_image(path, in_one_file=True)
        vectors = _from_nifti(image) if image.header is not None else _from_itk(image)
        placement = aligned(
            from_image(image, vectors),
            "Resample it, or write it as a DisplacementFieldTransform to a .h5 file for read_transform, "
            "which takes any direction.",
        )
        if (np.abs(placement.vectors) > FARTHEST_MM).any():
            raise FileError(
                f"expected displacements of at most {FARTHEST_MM:g} mm; got more. Check the file."
            )
        field = DisplacementField(placement.grid)
        return Motion(field, field.params(displacement_mm=torch.from_numpy(placement.vectors)))


def _from_itk(image: StoredImage) -> NDArray[np.float64]:
    """Return (xyz, z, y, x) along the machine's axes."""
    check_components(image, 3, "displacements")
    return np.moveaxis(lps(image.array), -1, 0)


def _from_nifti(image: StoredImage) -> NDArray[np.float64]:
    shape, intent = image.array.shape[::-1], int(image.header["intent_code"])
    if len(shape) != 5 or shape[3:] != (1, 3) or intent not in (RAS_VECTORS, LPS_VECTORS):
        raise FileError(
            f"expected (x, y, z, 1, 3) values with intent {RAS_VECTORS} or {LPS_VECTORS}; got {shape} with "
            f"intent {intent}. Choose an image of displacements."
        )
    vectors = image.array[:, 0].astype(np.float64)
    return np.moveaxis(lps(np.moveaxis(vectors, 0, -1)), -1, 0) if intent == LPS_VECTORS else vectors
