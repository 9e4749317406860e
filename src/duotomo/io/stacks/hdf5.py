"""One array of an HDF5 file that is not of duotomo's own: (view, v, u)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.hdf5_chunks import check_chunks
from duotomo.io.libraries import H5PY_ERRORS, h5py
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import MAX_BYTES, check_numbers, check_size
from duotomo.io.stacks.stack import Request, Stack, as_views, choose

_MOST_MEMBERS = 10_000
_LARGE_CHUNK = 2**24


def read_hdf5(request: Request) -> Stack:
    """Return an array of an HDF5 file. Of MATLAB's, the axes come reversed, as it stores them."""
    return Stack(array=as_views(read_hdf5_array(request)), format="HDF5 array")


def read_hdf5_array(request: Request) -> NDArray[Any]:
    """Return the array of an HDF5 file that is meant, as it is stored."""
    with damage(*H5PY_ERRORS), h5py().File(request.path, "r") as file:
        found = _arrays(file)
        described = [f"{name[:80]} {data.shape} {data.dtype}" for name, data in found.items()]
        stacks = [name for name, data in found.items() if data.ndim == 3]
        flat = [name for name, data in found.items() if data.ndim == 2 and min(data.shape) > 1]
        wanted = request.variable
        name = choose(list(found) if wanted else stacks or flat, wanted, described)
        return checked_read(found[name], name, max_bytes=request.max_bytes)


def checked_read(data: Any, name: str, *, max_bytes: int) -> NDArray[Any]:
    """Return the numbers of a dataset, in this machine's byte order, once its size has been looked at."""
    check_numbers(data.dtype, name)
    check_stored(data, name, max_bytes=max_bytes)
    return np.ascontiguousarray(data[...], dtype=data.dtype.newbyteorder("="))


def check_inside(data: Any, name: str) -> None:
    """Raise unless what a dataset holds lies in its file."""
    if data.external or data.is_virtual:
        raise FileError(
            f"expected the numbers of {name} in the file; got a link to others. Copy them into it."
        )


def check_stored(data: Any, name: str, *, max_bytes: int = MAX_BYTES) -> None:
    """Raise unless a dataset lies in its file, and can be as large as it claims to be."""
    # Chunks that were never written are not stored, and a file of a kilobyte can claim any number of them.
    stored = data.id.get_storage_size()
    check_inside(data, name)
    check_size(
        name,
        data.shape,
        data.dtype.itemsize,
        stored_bytes=stored,
        compressed=data.chunks is not None,
        max_bytes=max_bytes,
    )
    # A chunk is unpacked as a whole, and may be larger than the array.
    chunk = math.prod(data.chunks or (0,)) * data.dtype.itemsize
    if chunk > max(data.nbytes, _LARGE_CHUNK):
        raise FileError(
            f"expected chunks of {name} no larger than itself, {data.nbytes} bytes; got {chunk}. "
            f"Write it anew."
        )
    check_chunks(data, name)


def _arrays(file: Any) -> dict[str, Any]:
    """Return the arrays of numbers of a file by name. Links to other files are not followed."""
    dataset = h5py().Dataset
    found: dict[str, Any] = {}

    def look(name: str, item: Any) -> None:
        if (
            len(found) < _MOST_MEMBERS
            and isinstance(item, dataset)
            and item.dtype.kind in "iuf"
            and item.shape
        ):
            found[name] = item

    file.visititems(look)
    return found
