"""Stacks as MATLAB writes them: (u, v, view) as MATLAB counts axes, so that u runs fastest in the file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from duotomo.io.libraries import scipy_io
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import check_numbers
from duotomo.io.stacks.hdf5 import read_hdf5_array
from duotomo.io.stacks.mat5 import MatArray, is_level_5, mat_arrays, read_mat_array
from duotomo.io.stacks.stack import Request, Stack, as_views, choose

_LEVEL_4 = {
    "double": "f8", "single": "f4", "int16": "i2", "uint16": "u2", "int32": "i4", "uint8": "u1",
}  # fmt: skip
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(request: Request) -> Stack:
    """Return an array of a `.mat` file, of MATLAB's versions 4 to 7.3."""
    with request.path.open("rb") as file:
        start = file.read(520)
    if _HDF5 in start:
        return Stack(array=as_views(read_hdf5_array(request)), format="MATLAB 7.3 array")
    with damage():  # SciPy and struct each have their own
        if is_level_5(request.path):
            found = read_mat_array(request, _chosen(mat_arrays(request.path), request))
        else:
            found = _level_4(request, start)
    return Stack(array=as_views(found.T), format="MATLAB array")


def _level_4(request: Request, start: bytes) -> NDArray[Any]:
    if 0 not in start[:4]:
        raise FileError(
            "expected a file that MATLAB wrote; got other bytes. Check that the file is complete."
        )
    library, path = scipy_io(), str(request.path)
    arrays = [
        MatArray(name=name, shape=tuple(shape), kind=kind, dtype=_LEVEL_4.get(kind), offset=0)
        for name, shape, kind in library.whosmat(path)
    ]
    chosen = _chosen(arrays, request)
    request.check_size(chosen.shape, 1, compressed=False, what=chosen.name)
    found: NDArray[Any] = library.loadmat(path, variable_names=[chosen.name])[chosen.name]
    check_numbers(found.dtype, chosen.name)
    return found


def _chosen(arrays: list[MatArray], request: Request) -> MatArray:
    """Return the array that is meant."""
    described = [f"{array.name[:80]} {array.shape} {array.kind}" for array in arrays]
    known = {array.name: array for array in arrays if array.dtype is not None}
    # MATLAB leaves out the last axis where it has one view; a table of two axes may be anything else.
    stacks = [name for name, array in known.items() if len(array.shape) > 2]
    flat = [name for name, array in known.items() if min(array.shape, default=0) > 1]
    return known[choose(list(known) if request.variable else stacks or flat, request.variable, described)]
