"""Image files, one reader for each format, for scans, volumes and displacements alike.

What a header claims is checked before memory is taken for it, and numbers are read to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from duotomo.io.images.image import ImageRequest, StoredImage
from duotomo.io.images.metaimage import metaimage_components, read_metaimage
from duotomo.io.images.nifti import nifti_components, read_nifti
from duotomo.io.images.nrrd import nrrd_components, read_nrrd
from duotomo.io.paths import FileError
from duotomo.io.size_check import MAX_BYTES

READERS: Mapping[str, Callable[[ImageRequest], StoredImage]] = {
    ".nii.gz": read_nifti,
    ".nii": read_nifti,
    ".mha": read_metaimage,
    ".mhd": read_metaimage,
    ".nrrd": read_nrrd,
}

_COMPONENTS: Mapping[Callable[[ImageRequest], StoredImage], Callable[[Path], int]] = {
    read_nifti: nifti_components,
    read_metaimage: metaimage_components,
    read_nrrd: nrrd_components,
}

__all__ = ["READERS", "ImageRequest", "StoredImage", "n_components", "read_image"]


def read_image(path: Path, *, max_bytes: int = MAX_BYTES, in_one_file: bool = False) -> StoredImage:
    """Return the content of an image file, in the format that its suffix names.

    in_one_file: raise if the numbers are in another file than the header.
    """
    request = ImageRequest(path=path, max_bytes=max_bytes, in_one_file=in_one_file)
    return _reader(path)(request)


def n_components(path: Path) -> int:
    """Return how many numbers each voxel of an image has, by the header alone."""
    return _COMPONENTS[_reader(path)](path)


def _reader(path: Path) -> Callable[[ImageRequest], StoredImage]:
    for suffix, read in READERS.items():
        if path.name.lower().endswith(suffix):
            return read
    raise FileError(
        f"read_image: expected a name that ends in {', '.join(READERS)}; got {path.name!r}. Rename the file."
    )
