"""The bytes of a NIfTI file, no more of them than its header promises."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

from duotomo.io.file_error import FileError
from duotomo.io.libraries import nibabel
from duotomo.io.size_check import MAX_BYTES, check_size

_SLACK = 2**20


def nifti_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the unpacked bytes of a `.nii` or `.nii.gz` file, all of them: gzip looks at its checksum then.

    The size that the header claims is checked before memory is taken for it, and what a packed file has
    beyond that is not unpacked.
    """
    packed = path.suffix == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        start = file.read(348)
        header = nibabel().Nifti1Header(start)
        shape, itemsize = header.get_data_shape(), header.get_data_dtype().itemsize
        stored_bytes = path.stat().st_size
        check_size(
            path.name, shape, itemsize, stored_bytes=stored_bytes, compressed=packed, max_bytes=max_bytes
        )
        most = max(int(header.get_data_offset()), 0) + math.prod(map(int, shape)) * itemsize + _SLACK
        data = start + file.read(min(most, max_bytes + _SLACK))
        if file.read(1):
            raise FileError(f"expected {path.name} to end with its voxels; got more. Choose another file.")
    return data
