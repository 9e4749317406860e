"""Motions from DICOM's Spatial Registration and Deformable Spatial Registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.header import read_dataset, reading_dicom
from duotomo.io.dicom.sop_classes import DEFORMABLE, SPATIAL
from duotomo.io.displacement import FARTHEST_MM
from duotomo.io.itk_reader import field_motion, placed
from duotomo.io.paths import AnyPath, FileError, source
from duotomo.io.patient_frame import from_lps, lps, lps_matrix
from duotomo.transforms import Affine, Composition, Motion

SUFFIXES = (".dcm",)

LARGEST_FACTOR = 1e3
"""No axis is stretched by more."""

_UNIT = VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class Registration:
    """What a DICOM registration says of the frames of two visits.

    Parameters
    ----------
    motion : Motion
        T, moving_to_reference, of a Spatial Registration; T^-1 of a deformable one, which holds that.
    is_inverse : bool
        Whether it is T^-1.
    """

    motion: Motion
    is_inverse: bool


def read_registration(path: AnyPath) -> Registration:
    """Return the motion in a Spatial Registration or a Deformable Spatial Registration, of any program.

    The matrix of the one is T, as an `Affine`. The vectors of the other are T^-1, as a `DisplacementField` on
    the file's own lattice, between affine parts where the file has matrices before or after them.

    Parameters
    ----------
    path : str or path
        Of a DICOM file.

    Returns
    -------
    Registration
        The motion, and which way it goes.

    Raises
    ------
    FileError
        If the file is missing, damaged, of another kind, of more than two frames, or has points without a
        vector.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.io.dicom.registration import write_spatial_registration
    >>> from duotomo.transforms import Translation
    >>> shift = Translation(_UNIT)
    >>> with TemporaryDirectory() as folder:
    ...     motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    ...     write_spatial_registration(f"{folder}/shift.dcm", motion)
    ...     read_registration(f"{folder}/shift.dcm").motion.physical()["translation_mm"].tolist()
    [1.0, 2.0, 3.0]
    """
    where = "read_registration"
    path = source(where, path, SUFFIXES)
    with reading_dicom(where, path, lambda error: type(error).__name__):
        dataset = read_dataset(path, pixels=True)
        kind = str(dataset.get("SOPClassUID", ""))
        if kind == SPATIAL:
            return Registration(motion=_spatial(dataset), is_inverse=False)
        if kind == DEFORMABLE:
            return Registration(motion=_deformable(dataset), is_inverse=True)
        raise FileError(
            "expected a Spatial Registration or a Deformable Spatial Registration; got another kind of DICOM "
            "file. Choose one of these."
        )


def _spatial(dataset: Any) -> Motion:
    own = str(dataset.FrameOfReferenceUID)
    items = [item for item in dataset.RegistrationSequence if str(item.get("FrameOfReferenceUID", "")) != own]
    if len(items) != 1:
        raise FileError(
            f"expected the registration of one other frame of reference; got {len(items)}. Choose a file "
            f"of two visits."
        )
    steps = [step for one in items[0].MatrixRegistrationSequence for step in one.MatrixSequence]
    return _affine(steps)


def _deformable(dataset: Any) -> Motion:
    items = list(dataset.DeformableRegistrationSequence)
    # An item of the registered frame itself moves nothing, and has no lattice.
    items = [item for item in items if item.get("DeformableRegistrationGridSequence")]
    if len(items) != 1:
        raise FileError(
            f"expected the vectors of one other frame of reference; got those of {len(items)}. Choose a "
            f"file of two visits."
        )
    (item,) = items
    parts = [_field(item.DeformableRegistrationGridSequence[0])]
    if before := _steps(item, "PreDeformationMatrixRegistrationSequence"):
        parts.insert(0, _affine(before))
    if after := _steps(item, "PostDeformationMatrixRegistrationSequence"):
        parts.append(_affine(after))
    return parts[0] if len(parts) == 1 else Composition.of(*parts)


def _steps(item: Any, keyword: str) -> list[Any]:
    """Return the matrices of a sequence, none if they move nothing."""
    steps = list(item.get(keyword) or ())
    return [] if not steps or np.array_equal(_product(steps), np.eye(4)) else steps


def _product(steps: Sequence[Any]) -> NDArray[np.float64]:
    """Return the product, (4, 4), of matrices, the first of which is applied first."""
    product = np.eye(4)
    for step in steps:
        matrix = _numbers(step.FrameOfReferenceTransformationMatrix, 16).reshape(4, 4)
        turn, shift_mm = matrix[:3, :3], matrix[:3, 3]
        if (np.abs(turn) > LARGEST_FACTOR).any() or (np.abs(shift_mm) > FARTHEST_MM).any():
            raise FileError(
                f"expected a matrix of factors up to {LARGEST_FACTOR:g} and shifts up to {FARTHEST_MM:g} mm; "
                f"got others. Restore the file."
            )
        if not np.array_equal(matrix[3], [0, 0, 0, 1]):
            raise FileError(
                f"expected a matrix whose last row is 0, 0, 0, 1; got {matrix[3].tolist()}. Restore the file."
            )
        product = matrix @ product
    if abs(np.linalg.det(product[:3, :3])) < 1e-9:
        raise FileError("expected a matrix with an inverse; got one without. Restore the file.")
    return product


def _affine(steps: Sequence[Any]) -> Motion:
    product = _product(steps)
    affine = Affine(_UNIT, center_mm=(0.0, 0.0, 0.0))
    params = affine.params(
        matrix=lps_matrix(product[:3, :3]).tolist(), translation_mm=lps(product[:3, 3]).tolist()
    )
    return Motion(affine, params)


def _field(lattice: Any) -> Motion:
    n_i, n_j, n_k = (int(n) for n in lattice.GridDimensions)
    spacing_mm = _numbers(lattice.GridResolution, 3)
    content = bytes(lattice.VectorGridData)
    if min(n_i, n_j, n_k) < 1 or len(content) != 12 * n_i * n_j * n_k or not (spacing_mm > 0).all():
        raise FileError(
            f"expected Grid Dimensions and Grid Resolution above 0, and three numbers of 4 bytes for each "
            f"point; got {n_i} x {n_j} x {n_k} points and {len(content)} bytes. Restore the file."
        )
    vectors = np.frombuffer(content, dtype="<f4").reshape(n_k, n_j, n_i, 3).astype(np.float64)
    undefined = int(np.isnan(vectors).any(axis=-1).sum())
    if undefined:
        raise FileError(
            f"expected a vector at each of {n_i * n_j * n_k} points; got {undefined} that are not defined, "
            f"for the transform folds there. Use the transform that it was made from."
        )
    if not (np.abs(vectors) <= FARTHEST_MM).all():
        raise FileError(f"expected vectors of up to {FARTHEST_MM:g} mm; got others. Restore the file.")
    row, column = _numbers(lattice.ImageOrientationPatient, 6).reshape(2, 3)
    placement = from_lps(
        vectors,
        first_mm=_numbers(lattice.ImagePositionPatient, 3),
        spacing_mm=spacing_mm,
        direction=np.stack([row, column, np.cross(row, column)], axis=1),
    )
    return placed(placement, _UNIT, field_motion)


def _numbers(values: Any, n: int) -> NDArray[np.float64]:
    numbers = np.array([float(value) for value in values])
    if numbers.shape != (n,) or not np.isfinite(numbers).all():
        raise FileError(f"expected {n} finite numbers; got {len(numbers)}. Restore the file.")
    return numbers
