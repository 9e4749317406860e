"""Transforms to DICOM's Spatial Registration and Deformable Spatial Registration.

DICOM speaks of a Registered frame, that of the file, and of Source frames, whose images are brought into it.
Here the registered frame is the reference visit's and the source is the moving visit's: a viewer shows the
moving visit's images on the reference's. The two kinds of file go opposite ways:

    Spatial Registration:             registered = M source        T itself, moving to reference
    Deformable Spatial Registration:  source = x + u(x)            T^-1, at points x of the reference frame
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.dicom.header import decimals, item
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.instance import MOST_BYTES, SUFFIXES, check_description, new_dataset, save
from duotomo.io.dicom.sop_classes import DEFORMABLE, SPATIAL
from duotomo.io.paths import AnyPath, FileError, target
from duotomo.io.patient_frame import lps, lps_matrix
from duotomo.transforms import Motion, folding, invert_points
from duotomo.transforms.inversion import inverse_displacement
from duotomo.transforms.maps import MatrixMap

"""SOP classes of the two kinds of file."""

ORTHONORMAL = 1e-9
"""A matrix this close to a rotation is one."""

SURE = 0.1
"""Where no voxel centre has a smaller change of volume, a motion folds nowhere between them either."""

MOST_SEEN = 100_000
"""At so many voxels, at most, that is looked at."""

FOUND_MM = 1e-4
"""Where T comes no closer than this to a point, the point has no inverse."""

Floats = NDArray[np.float64]


def write_spatial_registration(
    path: AnyPath,
    motion: Motion,
    *,
    fixed: Identity | None = None,
    moving: Identity | None = None,
    description: str = "duotomo",
) -> None:
    """Write a translation, rigid or affine T as a Spatial Registration: registered = M source.

    M is `moving_to_reference` in patient coordinates, (4, 4), of type RIGID if it is a rotation and a shift,
    and AFFINE otherwise. It is in decimal strings: a point 1 m from the origin is right to 1e-6 mm. The file
    has an item for the reference frame, with the identity, and one for the moving frame, with M. The volumes
    that `write_tomosynthesis` writes with the same identities are in these frames. An older file is replaced
    once the new one is complete.

    Parameters
    ----------
    path : str or path
        Ends in `.dcm`.
    motion : Motion
        moving_to_reference.
    fixed : Identity, optional
        The reference visit, whose frame is the registered one, and whose patient and study the file belongs
        to; nobody's if left out.
    moving : Identity, optional
        The other visit, whose frame is the source.
    description : str
        Of the series, at most 64 characters.

    Raises
    ------
    GeometryError
        If the motion bends, or both visits are the same.
    FileError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.io.libraries import pydicom
    >>> from duotomo.transforms import Translation
    >>> shift = Translation(VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5)))
    >>> motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    >>> with TemporaryDirectory() as folder:
    ...     write_spatial_registration(f"{folder}/shift.dcm", motion)
    ...     found = pydicom().dcmread(f"{folder}/shift.dcm")
    >>> matrix = found.RegistrationSequence[1].MatrixRegistrationSequence[0].MatrixSequence[0]
    >>> np.reshape(matrix.FrameOfReferenceTransformationMatrix, (4, 4))[:3, 3].astype(float).tolist()
    [-1.0, -2.0, 3.0]
    """
    where = "write_spatial_registration"
    path = target(where, path, SUFFIXES)
    check_description(where, description)
    matrix = _matrix(where, motion)
    fixed, moving = _visits(where, fixed, moving)
    dataset = _registration(SPATIAL, fixed, description)
    # The registered frame itself comes first, as many readers expect it.
    dataset.RegistrationSequence = [
        _registered(fixed.frame_of_reference_uid, np.eye(4)),
        _registered(moving.frame_of_reference_uid, matrix),
    ]
    save(where, path, dataset, fixed)


def write_deformable_registration(
    path: AnyPath,
    motion: Motion,
    grid: VolumeGrid,
    *,
    fixed: Identity | None = None,
    moving: Identity | None = None,
    description: str = "duotomo",
) -> None:
    """Write any T as a Deformable Spatial Registration: source = x + u(x), a vector for each voxel of a grid.

    `u(x) = T^-1(x) - x` at the voxel centres x of `grid`, a grid of the reference frame, in mm, float32, in
    patient coordinates; viewers interpolate between. Where T folds, or takes no point to x, the vector is
    NaN, which is DICOM's word for "not defined". An older file is replaced once the new one is complete.

    Parameters
    ----------
    path, motion
        As for `write_spatial_registration`.
    grid : VolumeGrid
        Of the reference frame, on which the vectors are given.
    fixed, moving, description
        As for `write_spatial_registration`.

    Raises
    ------
    GeometryError
        If the motion has no inverse anywhere on the grid, or both visits are the same.
    FileError
        If the grid has more voxels than DICOM can count, or the file cannot be written.

    Examples
    --------
    >>> from duotomo.io.libraries import pydicom
    >>> from duotomo.transforms import Translation
    >>> from tempfile import TemporaryDirectory
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5))
    >>> shift = Translation(grid)
    >>> motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    >>> with TemporaryDirectory() as folder:
    ...     write_deformable_registration(f"{folder}/shift.dcm", motion, grid)
    ...     found = pydicom().dcmread(f"{folder}/shift.dcm")
    >>> vectors = found.DeformableRegistrationSequence[0].DeformableRegistrationGridSequence[0].VectorGridData
    >>> np.frombuffer(vectors, dtype="<f4")[:3].tolist()
    [1.0, 2.0, -3.0]
    """
    where = "write_deformable_registration"
    path = target(where, path, SUFFIXES)
    check_description(where, description)
    if 12 * grid.n_voxels > MOST_BYTES:
        raise FileError(
            f"{where}: expected a grid of at most {MOST_BYTES // 12} voxels, for DICOM counts no further; "
            f"got {grid.n_voxels}. Coarsen it: the deformation is smooth."
        )
    vectors = _back(where, motion, grid)
    fixed, moving = _visits(where, fixed, moving)
    along_row, along_column = lps([1, 0, 0]), lps([0, 1, 0])
    lattice = item(
        {
            "ImageOrientationPatient": decimals([*along_row, *along_column]),
            "ImagePositionPatient": decimals(lps(voxel_to_world(grid, (0, 0, 0)))),
            "GridDimensions": list(grid.shape[::-1]),
            "GridResolution": list(grid.spacing_mm[::-1]),
            "VectorGridData": vectors.tobytes(),
        }
    )
    dataset = _registration(DEFORMABLE, fixed, description)
    dataset.DeformableRegistrationSequence = [
        item(
            {
                "SourceFrameOfReferenceUID": moving.frame_of_reference_uid,
                "RegistrationTypeCodeSequence": [],
                "PreDeformationMatrixRegistrationSequence": [_matrix_item(np.eye(4))],
                "PostDeformationMatrixRegistrationSequence": [_matrix_item(np.eye(4))],
                "DeformableRegistrationGridSequence": [lattice],
            }
        )
    ]
    save(where, path, dataset, fixed)


def write_registration(
    path: AnyPath,
    motion: Motion,
    grid: VolumeGrid | None = None,
    *,
    fixed: Identity | None = None,
    moving: Identity | None = None,
) -> None:
    """Write a motion as a Spatial Registration if it is a matrix, and as a deformable one otherwise.

    Parameters
    ----------
    path, motion
        As for `write_spatial_registration`.
    grid : VolumeGrid, optional
        Of the reference frame, on which a motion that bends is given.
    fixed, moving : Identity, optional
        As for `write_spatial_registration`.

    Raises
    ------
    GeometryError
        If the motion bends, and there is no grid.
    """
    if is_linear(motion):
        write_spatial_registration(path, motion, fixed=fixed, moving=moving)
        return
    if grid is None:
        raise GeometryError(
            f"write_registration: expected `grid` for {type(motion.transform).__name__}, which bends; got "
            f"none. Pass a grid of the reference frame."
        )
    write_deformable_registration(path, motion, grid, fixed=fixed, moving=moving)


def is_linear(motion: Motion) -> bool:
    """Return whether a motion is a matrix and a shift."""
    return all(isinstance(one, MatrixMap) for one in motion.transform.maps(motion.params))


def _registration(sop_class: str, fixed: Identity, description: str) -> Any:
    dataset = new_dataset(sop_class, "REG", fixed, description)
    dataset.update(
        item(
            {
                # Of a paired body part; empty where nobody knows it.
                "Laterality": fixed.breast.laterality or "",
                "ContentLabel": "REGISTRATION",
                "ContentDescription": description,
                "ContentCreatorName": "duotomo^",
            }
        )
    )
    return dataset


def _registered(frame_uid: str, matrix: Floats) -> Any:
    """Return the item that takes points of a frame to the registered one."""
    step = item({"RegistrationTypeCodeSequence": [], "MatrixSequence": [_matrix_item(matrix)]})
    return item({"FrameOfReferenceUID": frame_uid, "MatrixRegistrationSequence": [step]})


def _visits(where: str, fixed: Identity | None, moving: Identity | None) -> tuple[Identity, Identity]:
    fixed, moving = fixed or Identity.anonymous(), moving or Identity.anonymous()
    if fixed.frame_of_reference_uid == moving.frame_of_reference_uid:
        raise GeometryError(
            f"{where}: expected two visits, each with a frame of its own; got the same identity as fixed and "
            f"moving. Pass the identity of each visit's own scan."
        )
    return fixed, moving


def _matrix(where: str, motion: Motion) -> Floats:
    """Return T in LPS, (4, 4)."""
    product = np.eye(4)
    for stage in motion.transform.maps(motion.params.detach().cpu()):
        if not isinstance(stage, MatrixMap):
            raise GeometryError(
                f"{where}: expected a translation, a rigid or an affine transform; got "
                f"{type(motion.transform).__name__}, which bends. Use write_deformable_registration."
            )
        product = np.vstack([stage.matrix.numpy(), [0, 0, 0, 1]]) @ product
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = lps_matrix(product[:3, :3]), lps(product[:3, 3])
    return matrix


def _matrix_item(matrix: Floats) -> Any:
    turn = matrix[:3, :3]
    is_rigid = np.abs(turn @ turn.T - np.eye(3)).max() < ORTHONORMAL
    return item(
        {
            "FrameOfReferenceTransformationMatrixType": "RIGID" if is_rigid else "AFFINE",
            "FrameOfReferenceTransformationMatrix": decimals(matrix.ravel()),
        }
    )


def _back(where: str, motion: Motion, grid: VolumeGrid) -> NDArray[np.float32]:
    """Return `T^-1(x) - x` in LPS at voxel centres, (z, y, x, xyz); NaN where there is none."""
    motion = Motion(motion.transform, motion.params.detach().cpu())
    moved_mm, missed_mm = inverse_displacement(motion, grid)
    moved_mm, xyz_mm = moved_mm.movedim(0, -1), _centers_mm(grid)
    if bool((far := missed_mm > FOUND_MM).any()):
        # Newton's method also gets where the fixed-point iteration does not.
        found = invert_points(motion, xyz_mm[far])
        moved_mm[far], missed_mm[far] = found.xyz_mm - xyz_mm[far], found.residual_mm
    lost = missed_mm > FOUND_MM
    seen = [one.coarsened_to(MOST_SEEN) for one in (grid, motion.grid)]
    if min(folding(motion, one).lowest_determinant for one in seen) < SURE:
        # Only where it may fold is it worth while to look at every point.
        near = ~lost
        lost[near] = torch.linalg.det(motion.jacobian((xyz_mm + moved_mm)[near])) <= 0
    vectors = lps(moved_mm.detach().numpy()).astype("<f4")
    vectors[lost.numpy()] = np.nan
    if np.isnan(vectors).all():
        raise GeometryError(
            f"{where}: expected a transform with an inverse somewhere on the grid; got none, for it folds or "
            f"takes no point there. Check the grid: it is one of the reference frame."
        )
    return vectors


def _centers_mm(grid: VolumeGrid) -> torch.Tensor:
    """Return the voxel centres, (z, y, x, xyz)."""
    index = np.stack(np.meshgrid(*map(np.arange, grid.shape), indexing="ij"), axis=-1)
    return torch.from_numpy(voxel_to_world(grid, index).copy())
