"""Stacks as NumPy writes them: (view, v, u)."""

from __future__ import annotations

import numpy as np

from duotomo.io.file_error import FileError, damaged
from duotomo.io.size_check import check_numbers, check_size
from duotomo.io.stacks.stack import Request, Stack, as_views


def read_npy(request: Request) -> Stack:
    """Return the array of a `.npy` file. Objects, which would have to be unpickled, are refused."""
    name = request.path.name
    with request.path.open("rb") as file:
        if not file.read(6) == b"\x93NUMPY":
            raise FileError(
                f"expected one array in {name}, as np.save writes it; got other bytes. Save it so."
            )
    try:
        # Mapped, not read: a header that asks for more than the file has ends here.
        mapped = np.load(request.path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # the header is Python, and the parser has errors of its own
        raise damaged(error) from error
    check_numbers(mapped.dtype, name)
    check_size(
        name,
        mapped.shape,
        mapped.dtype.itemsize,
        stored_bytes=request.path.stat().st_size,
        compressed=False,
        max_bytes=request.max_bytes,
    )
    return Stack(array=np.array(as_views(mapped)), format="NumPy array")
