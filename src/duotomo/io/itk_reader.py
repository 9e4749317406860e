"""Transforms from ITK's files, read without ITK, which follows whatever such a file says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.images.header import LONGEST_AXIS
from duotomo.io.itk_linear import LINEAR
from duotomo.io.itk_transform_file import ItkTransform, damaged, read_itk_transforms
from duotomo.io.paths import AnyPath, FileError, naming, source
from duotomo.io.patient_frame import Placement, from_lps, lps, lps_matrix
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Motion, Translation

SUFFIXES = (".tfm", ".h5", ".txt", ".mat")

LARGEST = 1e9
"""No parameter of a transform is larger: they are mm, angles and factors."""

_N_LATTICE = 18


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
    with naming(where, path):
        # ITK applies the last part first.
        motions = [_convert(itk, grid) for itk in reversed(read_itk_transforms(path))]
        return motions[0] if len(motions) == 1 else Composition.of(*motions)


def _convert(itk: ItkTransform, grid: VolumeGrid) -> Motion:
    if itk.kind == "BSplineTransform" and itk.order not in (None, 3):
        raise FileError(
            f"expected a B-spline transform of order 3; got order {itk.order}. "
            f"Convert it to a DisplacementFieldTransform."
        )
    if not (np.abs(np.concatenate([itk.params, itk.fixed])) <= LARGEST).all():
        raise damaged(f"finite parameters up to {LARGEST:g} of the {itk.kind}", "others")
    if itk.kind == "BSplineTransform":
        return placed(_lattice(itk, components_first=True), grid, _cubic)
    if itk.kind == "DisplacementFieldTransform":
        return placed(_lattice(itk, components_first=False), grid, field_motion)
    if itk.kind == "TranslationTransform":
        _check_count(itk, "parameters", itk.params, (3,))
        shift = Translation(grid)
        return Motion(shift, shift.params(translation_mm=lps(itk.params).tolist()))
    return _linear(itk, grid)


def _linear(itk: ItkTransform, grid: VolumeGrid) -> Motion:
    kind = LINEAR.get(itk.kind)
    if kind is None:
        raise FileError(
            f"expected a linear, B-spline, displacement field or composite transform; got {itk.kind}. "
            f"Convert it to an AffineTransform or a DisplacementFieldTransform where it was made."
        )
    _check_count(itk, "parameters", itk.params, (kind.n_params,))
    _check_count(itk, "fixed parameters", itk.fixed, kind.n_fixed)
    found = kind.map(itk.params, itk.fixed)
    affine = Affine(grid, center_mm=tuple(lps(found.center_mm)))
    params = affine.params(
        matrix=lps_matrix(found.matrix).tolist(), translation_mm=lps(found.translation_mm).tolist()
    )
    return Motion(affine, params)


def _check_count(itk: ItkTransform, what: str, values: NDArray[np.float64], allowed: tuple[int, ...]) -> None:
    if len(values) not in allowed:
        expected = " or ".join(map(str, allowed))
        raise damaged(f"{expected} {what} of the {itk.kind}", str(len(values)))


def _lattice(itk: ItkTransform, *, components_first: bool) -> Placement:
    """Return the vectors of a lattice, which its fixed parameters place: counts, origin, spacings, axes."""
    _check_count(itk, "fixed parameters", itk.fixed, (_N_LATTICE,))
    counts, first_mm, spacing_mm, entries = np.split(itk.fixed, [3, 6, 9])
    if not ((counts >= 1) & (counts == np.round(counts))).all():
        raise damaged(f"whole numbers of points along the axes of the {itk.kind}", str(counts.tolist()))
    if not (spacing_mm > 0).all() or (np.abs(entries) > LONGEST_AXIS).any():
        raise damaged(
            f"spacings above 0 and axes of unit length in the {itk.kind}",
            f"{spacing_mm.tolist()} and {entries.tolist()}",
        )
    n_i, n_j, n_k = map(int, counts)
    _check_count(itk, "parameters", itk.params, (3 * n_i * n_j * n_k,))
    if components_first:
        vectors = np.moveaxis(itk.params.reshape(3, n_k, n_j, n_i), 0, -1)
    else:
        vectors = itk.params.reshape(n_k, n_j, n_i, 3)
    return from_lps(vectors, first_mm=first_mm, spacing_mm=spacing_mm, direction=entries.reshape(3, 3))


def _cubic(grid: VolumeGrid, placement: Placement) -> Motion:
    spline = BSpline(grid, placement.grid)
    return Motion(spline, spline.params(coefficients_mm=torch.from_numpy(placement.vectors)))


def field_motion(grid: VolumeGrid, placement: Placement) -> Motion:
    """Return vectors as a displacement field on their own lattice."""
    field = DisplacementField(placement.grid)
    return Motion(field, field.params(displacement_mm=torch.from_numpy(placement.vectors)))


def placed(
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
