"""Transforms from ITK's files, which have to be whole: ITK reads cut files as another transform."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io.libraries import H5PY_ERRORS, h5py, simpleitk
from duotomo.io.paths import AnyPath, FileError, naming, reason, source
from duotomo.io.patient_frame import Placement, from_itk, lps, lps_matrix
from duotomo.io.stacks.hdf5 import check_stored
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
    with naming(where, path):
        check_whole(path)
        return _convert(_known(lambda: sitk.ReadTransform(str(path))), grid)


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


_MATLAB_HEADER = struct.Struct("<5i")
# Bytes of a number, by the type code of MATLAB's level-4 format.
_MATLAB_SIZES = {0: 8, 10: 4}


def check_whole(path: Path) -> None:
    """Raise unless a transform file is complete and holds one transform.

    Text (`.tfm`, `.txt`) must end with its last line's end: a number that was cut off still is a number. Of a
    composite transform in text, parts may be missing at the end without a trace if it was cut exactly there.
    """
    if path.suffix == ".h5":
        _check_hdf5(path)
    elif path.suffix == ".mat":
        _check_matlab(path)
    else:
        _check_text(path)


def _check_text(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", errors="replace")
    if not text.endswith("\n"):
        raise _damaged("its last line to end", "no end of line", "If it is complete, add one.")
    names: list[str] = []
    fields: list[set[str]] = []
    announced = 0
    for line in map(str.strip, text.splitlines()):
        announced += line.startswith("#Transform ")
        if not line or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if name == "Transform":
            names.append(value.strip())
            fields.append(set())
        elif colon and fields and name in ("Parameters", "FixedParameters"):
            fields[-1].add(name)
            _check_numbers(name, value)
        else:
            raise _damaged("lines of Transform:, Parameters: or FixedParameters:", repr(line[:40]))
    if not names or announced > len(names):
        raise _damaged("a line that starts with Transform:", "the end of the file")
    composite = names[0].startswith("CompositeTransform")
    for name, has in zip(names[composite:], fields[composite:], strict=True):
        for field in ("Parameters", "FixedParameters"):
            if field not in has:
                raise _damaged(f"a line that starts with {field}: for {name}", "none")
    if not composite:
        _check_one(len(names))


def _check_numbers(name: str, text: str) -> None:
    for word in text.split():
        try:
            finite = math.isfinite(float(word))
        except ValueError:
            finite = False
        if not finite:
            raise _damaged(f"finite numbers after {name}:", repr(word[:40]))


def _check_matlab(path: Path) -> None:
    """Walk through the arrays: each says how long it is."""
    data, at, n_arrays = path.read_bytes(), 0, 0
    while at < len(data):
        header = data[at : at + _MATLAB_HEADER.size]
        if len(header) < _MATLAB_HEADER.size:
            raise _damaged("20 bytes before every array", f"{len(header)}")
        code, n_rows, n_columns, _, n_name = _MATLAB_HEADER.unpack(header)
        if code not in _MATLAB_SIZES or min(n_rows, n_columns, n_name) < 0:
            raise _damaged("arrays in MATLAB's level-4 format, little-endian", f"one of type {code}")
        at += _MATLAB_HEADER.size + n_name + n_rows * n_columns * _MATLAB_SIZES[code]
        n_arrays += 1
    if at != len(data):
        raise _damaged(f"{at} bytes, as its arrays say", f"{len(data)}")
    # One for the parameters of a transform, one for its fixed parameters.
    _check_one(n_arrays // 2)


def _check_hdf5(path: Path) -> None:
    """HDF5 checks its own length; but SimpleITK would take the first transform of many, of any size."""
    _check_sizes(path)
    data = path.read_bytes()
    if b"CompositeTransform_" not in data:
        # Each transform has a dataset of this name.
        _check_one(data.count(b"TransformType"))


def _check_sizes(path: Path) -> None:
    library = h5py()

    def look(name: str, item: object) -> None:
        if isinstance(item, library.Dataset) and item.size and item.dtype.kind in "iuf":
            check_stored(item, name)

    try:
        with library.File(path, "r") as file:
            file.visititems(look)
    except H5PY_ERRORS as error:
        if isinstance(error, FileError):
            raise
        raise _damaged("HDF5 that can be read", reason(error)) from error


def _check_one(n: int) -> None:
    if n > 1:
        raise FileError(
            f"expected one transform, or a CompositeTransform of several; got {n} transforms. "
            f"Write them as a CompositeTransform, which says in which order they apply."
        )


def _damaged(expected: str, got: str, remedy: str = "") -> FileError:
    return FileError(f"expected {expected}; got {got}. Damaged, or not ITK's? {remedy}".strip())
