"""Image files that hold the views of a scan, and nothing of its geometry.

In every format u runs fastest through the file, then v, then the view. NumPy, TIFF and HDF5 count axes from
the slowest, so that theirs are (view, v, u); NIfTI, MetaImage, NRRD and MATLAB count from the fastest: (u, v,
view).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duotomo.io.images import READERS as IMAGE_READERS
from duotomo.io.stacks.hdf5 import read_hdf5
from duotomo.io.stacks.mat import read_mat
from duotomo.io.stacks.stack import PixelPlace, Request, Stack, read_npy, read_stack_image
from duotomo.io.stacks.tiff import read_tiff

READERS: Mapping[str, Callable[[Request], Stack]] = {
    **dict.fromkeys(IMAGE_READERS, read_stack_image),
    ".tiff": read_tiff,
    ".tif": read_tiff,
    ".npy": read_npy,
    ".mat": read_mat,
    ".hdf5": read_hdf5,
    ".h5": read_hdf5,
}

__all__ = ["READERS", "PixelPlace", "Request", "Stack"]
