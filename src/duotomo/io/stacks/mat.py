"""Stacks as MATLAB writes them: (u, v, view) as MATLAB counts axes, so that u runs fastest in the file."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from duotomo.io.libraries import scipy_io
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import check_numbers
from duotomo.io.stacks.hdf5 import read_hdf5_array
from duotomo.io.stacks.stack import Request, Stack, as_views, choose

_CLASSES = {
    "double": "f8", "single": "f4", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
}  # fmt: skip
_PACKED = 15
_CHUNK = 2**20
_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_mat(request: Request) -> Stack:
    """Return an array of a `.mat` file, of MATLAB's versions 4 to 7.3."""
    with request.path.open("rb") as file:
        start = file.read(520)
    if _HDF5 in start:
        return Stack(array=as_views(read_hdf5_array(request)), format="MATLAB 7.3 array")
    library = scipy_io()
    with damage():  # SciPy, struct and zlib each have their own
        _check_packed(request.path)
        listed = library.whosmat(str(request.path))
        name = _choose(listed, request)
        found = library.loadmat(str(request.path), variable_names=[name])[name]
    check_numbers(found.dtype, name)
    return Stack(array=as_views(found.T), format="MATLAB array")


def _check_packed(path: Path) -> None:
    """Raise if a packed array unfolds to more than it says: SciPy would unpack all of it.

    After 128 bytes come elements: type, length, data. Data of type 15 are zlib's, of one element.
    """
    with path.open("rb") as file:
        start = file.read(128)
        order = {b"IM": "<2I", b"MI": ">2I"}.get(start[126:], "")
        while order and len(tag := file.read(8)) == 8:
            kind, n_bytes = struct.unpack(order, tag)
            n_bytes = min(n_bytes, path.stat().st_size)
            if kind != _PACKED:
                file.seek(n_bytes, 1)
                continue
            unpack = zlib.decompressobj()
            claimed = unpack.decompress(file.read(n_bytes), 8)
            (_, claimed_bytes) = struct.unpack(order, claimed) if len(claimed) == 8 else (0, 0)
            found = 0
            while not unpack.eof and (part := unpack.decompress(unpack.unconsumed_tail, _CHUNK)):
                found += len(part)
                if found > claimed_bytes:
                    raise FileError(
                        f"expected {claimed_bytes} bytes in a packed array of {path.name}; got more. "
                        f"Save it anew."
                    )


def _choose(listed: Any, request: Request) -> str:
    arrays = {name: (shape, _CLASSES[kind]) for name, shape, kind in listed if kind in _CLASSES}
    described = [f"{name} {tuple(shape)} {kind}" for name, shape, kind in listed]
    # MATLAB leaves out the last axis where it has one view; a table of two axes may be anything else.
    stacks = [name for name, (shape, _) in arrays.items() if len(shape) > 2]
    flat = [name for name, (shape, _) in arrays.items() if min(shape, default=0) > 1]
    name = choose(list(arrays) if request.variable else stacks or flat, request.variable, described)
    shape, dtype = arrays[name]
    request.check_size(shape, np.dtype(dtype).itemsize, compressed=True, what=name)
    return name
