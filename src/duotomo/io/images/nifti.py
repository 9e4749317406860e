"""NIfTI images: (x, y, z, ...), the fastest axis first."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images.image import ImageRequest, StoredImage
from duotomo.io.libraries import nibabel
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import check_numbers

_HEADERS = {348: "Nifti1Image", 540: "Nifti2Image"}
_MOST_EXTENSIONS = 2**24
_CHUNK = 2**20


class _Bytes(Protocol):
    """A file, packed or not."""

    def read(self, size: int, /) -> bytes: ...


def read_nifti(request: ImageRequest) -> StoredImage:
    """Return the array of a `.nii` or `.nii.gz` file, with the scale that its header gives.

    What is unpacked is what the header promises, and no more.
    """
    compressed = _is_packed(request.path)
    with damage(), _opened(request.path) as file:  # zlib, struct and nibabel each have their own
        header = _header(file, request.path)
        values = _values(file, header, request, compressed=compressed)
        spacing_mm = np.array(header.get_zooms(), dtype=np.float64)
    return StoredImage(array=values.T, format="NIfTI image", spacing_mm=spacing_mm, header=header)


def nifti_components(path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    with damage(), _opened(path) as file:  # zlib, struct and nibabel each have their own
        shape = _header(file, path).get_data_shape()
    return int(shape[4]) if len(shape) == 5 else 1


def write_nifti(
    path: Path,
    values: NDArray[Any],
    affine: NDArray[Any],
    *,
    intent: int | None = None,
    description: str = "",
) -> None:
    """Write values, (x, y, z, ...), and the matrix that takes an index to RAS in mm, (4, 4).

    description: at most 79 characters, which the header keeps.
    """
    image = nibabel().Nifti1Image(values, affine)
    image.set_sform(affine, code="scanner")
    image.set_qform(affine, code="scanner")
    image.header.set_xyzt_units("mm")
    if intent is not None:
        image.header.set_intent(intent)
    image.header["descrip"] = description.encode("ascii")
    image.to_filename(str(path))


def ras_affine_of(header: Any) -> NDArray[np.float64]:
    """Return the matrix of a header, (4, 4), from (i, j, k, 1) to RAS in mm."""
    if not (header["sform_code"] > 0 or header["qform_code"] > 0):
        raise FileError("expected an sform or a qform; got neither. Set one: it says where the voxels are.")
    with damage():  # of nibabel, for quaternions that are none
        affine = np.asarray(header.get_best_affine(), dtype=np.float64)
    if not (np.isfinite(affine).all() and np.linalg.norm(affine[:3, :3], axis=0).all()):
        raise FileError(f"expected finite voxels of some size; got the affine {affine.tolist()}. Correct it.")
    return affine


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _opened(path: Path) -> Any:
    return gzip.open(path) if _is_packed(path) else path.open("rb")


def _header(file: _Bytes, path: Path) -> Any:
    start = file.read(348)
    lengths = [int.from_bytes(start[:4], order) for order in ("little", "big")]
    kind = next((_HEADERS[length] for length in lengths if length in _HEADERS), None)
    if kind is None or len(start) < 348:
        raise FileError(
            f"expected a NIfTI header at the start of {path.name}; got other bytes. Check that the file is "
            f"complete."
        )
    header_class = getattr(nibabel(), kind).header_class
    # nibabel would mend a header and log that; what matters is looked at below.
    header = header_class(start + file.read(header_class.sizeof_hdr - 348), check=False)
    magic = bytes(header["magic"])[:3]
    if magic[:2] != b"n+":
        raise FileError(f"expected a NIfTI image in one file; got the mark {magic!r}. Convert it to .nii.")
    return header


def _values(file: _Bytes, header: Any, request: ImageRequest, *, compressed: bool) -> NDArray[Any]:
    """Return (x, y, z, ...), as nibabel has it."""
    name, dtype = request.path.name, header.get_data_dtype()
    # Some write 0 for "right after the header and the four bytes that end it".
    offset = int(header.get_data_offset()) or header.single_vox_offset
    check_numbers(dtype, name)
    n_before = offset - header.sizeof_hdr
    if not 0 <= n_before <= _MOST_EXTENSIONS:
        raise FileError(f"expected the numbers of {name} after its header; got them at {offset}. Repair it.")
    shape = tuple(int(n) for n in header.get_data_shape())
    stored = request.path.stat().st_size - (0 if compressed else offset)
    request.check_size(shape, dtype.itemsize, stored_bytes=stored, compressed=compressed)
    slope, intercept = header.get_slope_inter()
    n_bytes = math.prod(shape) * dtype.itemsize
    _read(file, n_before)
    data = _read(file, n_bytes)
    if len(data) < n_bytes:
        raise FileError(
            f"expected {n_bytes} bytes of numbers in {name}; got {len(data)}. Check that the file is "
            f"complete."
        )
    # gzip looks at its checksum where the data end; padding may come before that.
    if len(_read(file, _CHUNK)) == _CHUNK:
        raise FileError(f"expected {name} to end after its {n_bytes} bytes; got more. Choose an image.")
    values = np.frombuffer(data, dtype=dtype).reshape(shape, order="F")
    if slope in (None, 1.0) and not intercept:
        return values
    return values * np.float64(slope) + np.float64(intercept)


def _read(file: _Bytes, n_bytes: int) -> bytes:
    """Return so many bytes, or as many as there are."""
    parts: list[bytes] = []
    while n_bytes > 0 and (chunk := file.read(min(n_bytes, _CHUNK))):
        parts.append(chunk)
        n_bytes -= len(chunk)
    return b"".join(parts)
