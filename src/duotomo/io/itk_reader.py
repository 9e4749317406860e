"""Transforms from ITK's files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io.file_error import FileError, reason
from duotomo.io.itk_integrity import check_whole
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import AnyPath, source
from duotomo.io.patient_frame import lps, lps_matrix
from duotomo.io.placement import Placement, from_itk
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Motion, Translation

SUFFIXES = (".tfm", ".h5", ".txt", ".mat")

PROBE_MM = 1024.0
"""A matrix is read off points this far apart: a power of two, so that dividing by it rounds nothing."""


def read_transform(path: AnyPath, grid: VolumeGrid) -> Motion:
    """Return the motion in an ITK file: T takes the points where ITK takes them.

    As in ITK's resampling, T takes points of the moving frame (the output) to the reference frame (the
    input). `.tfm`, `.txt`, `.h5` and `.mat` are read, from any program that writes ITK's formats.

    ITK's translation gives a `Translation`; every other linear transform (rigid, similarity, affine, ...) an
    `Affine` about the same centre; a B-spline transform of order 3 a `BSpline`; a displacement field a
    `DisplacementField`; a composite transform a `Composition`. Lattices that lie obliquely are wrapped in a
    `Composition` that turns points to the lattice's axes and back.

    Beyond the second and the last but one control point of a lattice, ITK moves nothing, whereas here a
    spline fades to zero smoothly. A displacement field likewise fades within one voxel, and ITK's does not.

    Parameters
    ----------
    path : str or path
        Ends in `.tfm`, `.txt`, `.h5` or `.mat`.
    grid : VolumeGrid
        Scales the parameters, as in all transforms; a displacement field's are scaled by its own voxels.

    Returns
    -------
    Motion
        moving_to_reference.

    Raises
    ------
    FileError
        If the file is missing, cut short, or of a kind that is not read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.io import write_transform
    >>> grid = VolumeGrid.on_detector((4, 6, 8), (1.0, 0.5, 0.5))
    >>> shift = Translation(grid)
    >>> with TemporaryDirectory() as folder:
    ...     motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    ...     write_transform(f"{folder}/shift.tfm", motion)
    ...     again = read_transform(f"{folder}/shift.tfm", grid)
    >>> type(again.transform).__name__, again.physical()["translation_mm"].tolist()
    ('Translation', [1.0, 2.0, 3.0])
    """
    where = "read_transform"
    path = source(where, path, SUFFIXES)
    sitk = simpleitk()
    try:
        check_whole(path)
        return _convert(_known(lambda: sitk.ReadTransform(str(path))), grid)
    except DuotomoError as error:
        raise FileError(f"{where}: {path}: {error}") from error


def _known(read: Callable[[], Any]) -> Any:
    """Return what SimpleITK reads; raise if it cannot, or has no class for it."""
    try:
        return read()
    except (RuntimeError, UnicodeDecodeError) as error:
        # ITK's messages quote the file, whatever its bytes are.
        raise FileError(
            f"expected a transform that SimpleITK can read; got: {reason(error)}. "
            f"Check that the file is complete and that ITK wrote it."
        ) from error
    except (KeyError, TypeError) as error:
        raise FileError(
            "expected a kind of transform that SimpleITK has a class for; got another. "
            "Convert it to an AffineTransform or a DisplacementFieldTransform where it was made."
        ) from error


def _convert(itk: Any, grid: VolumeGrid) -> Motion:
    sitk = simpleitk()
    if itk.GetDimension() != 3:
        raise FileError(
            f"expected a transform of 3-D space; got one of {itk.GetDimension()}-D. Choose another file."
        )
    if isinstance(itk, sitk.CompositeTransform) and not _is_wrapper(itk):
        return _composite(itk, grid)
    if isinstance(itk, sitk.BSplineTransform):
        return _spline(itk, grid)
    if isinstance(itk, sitk.DisplacementFieldTransform):
        image = itk.GetDisplacementField()
        return _placed(from_itk(image, sitk.GetArrayFromImage(image)), grid, _field)
    if isinstance(itk, sitk.TranslationTransform):
        shift = Translation(grid)
        return Motion(shift, shift.params(translation_mm=lps(itk.GetOffset()).tolist()))
    return _linear(itk, grid)


def _is_wrapper(itk: Any) -> bool:
    """Return whether SimpleITK wraps what it has no class for, such as ITK's MatrixOffsetTransformBase.

    The only part of such a composite transform is one like it, without end; no file holds a nested one.
    """
    return itk.GetNumberOfTransforms() == 1 and isinstance(_part(itk, 0), type(itk))


def _part(itk: Any, i: int) -> Any:
    return _known(lambda: itk.GetNthTransform(i))


def _composite(itk: Any, grid: VolumeGrid) -> Motion:
    n = itk.GetNumberOfTransforms()
    if n == 0:
        raise FileError("expected a composite transform of one part or more; got none. Damaged?")
    # ITK applies the last part first.
    return Composition.of(*(_convert(_part(itk, i), grid) for i in reversed(range(n))))


def _linear(itk: Any, grid: VolumeGrid) -> Motion:
    """Return the affine transform that moves the centre, and a point along each axis, where ITK does."""
    if not itk.IsLinear():
        raise FileError(
            f"expected a linear, B-spline, displacement field or composite transform; got {itk.GetName()}. "
            f"Convert it to a DisplacementFieldTransform."
        )
    center = np.array(itk.GetCenter() if hasattr(itk, "GetCenter") else (0.0, 0.0, 0.0))
    middle = np.array(itk.TransformPoint(center.tolist()))
    ends = [itk.TransformPoint((center + step).tolist()) for step in PROBE_MM * np.eye(3)]
    matrix = (np.array(ends) - middle).T / PROBE_MM
    affine = Affine(grid, center_mm=tuple(lps(center)))
    params = affine.params(matrix=lps_matrix(matrix).tolist(), translation_mm=lps(middle - center).tolist())
    return Motion(affine, params)


def _spline(itk: Any, grid: VolumeGrid) -> Motion:
    sitk = simpleitk()
    if itk.GetOrder() != 3:
        raise FileError(
            f"expected a B-spline transform of order 3; got order {itk.GetOrder()}. "
            f"Convert it to a DisplacementFieldTransform."
        )
    images = itk.GetCoefficientImages()
    coefficients = np.stack([sitk.GetArrayFromImage(image) for image in images], axis=-1)
    return _placed(from_itk(images[0], coefficients), grid, _cubic)


def _cubic(grid: VolumeGrid, placement: Placement) -> Motion:
    spline = BSpline(grid, placement.grid)
    return Motion(spline, spline.params(coefficients_mm=torch.from_numpy(placement.vectors)))


def _field(grid: VolumeGrid, placement: Placement) -> Motion:
    field = DisplacementField(placement.grid)
    return Motion(field, field.params(displacement_mm=torch.from_numpy(placement.vectors)))


def _placed(
    placement: Placement, grid: VolumeGrid, lattice: Callable[[VolumeGrid, Placement], Motion]
) -> Motion:
    """Return a lattice's transform, between turns if it lies obliquely."""
    motion = lattice(grid, placement)
    if placement.turn is None:
        return motion
    affine = Affine(grid, center_mm=tuple(np.array(placement.grid.center_mm[::-1])))
    there, back = (
        Motion(affine, affine.params(matrix=matrix.tolist(), translation_mm=(0.0, 0.0, 0.0)))
        for matrix in (np.linalg.inv(placement.turn), placement.turn)
    )
    return Composition.of(there, motion, back)
