"""The content of an image file, as it is stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.paths import FileError
from duotomo.io.size_check import FileRequest

Floats = NDArray[np.float64]

# What MetaImage and NRRD write where lines with names follow.
_SEVERAL = re.compile(r"LIST( .*)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ImageRequest(FileRequest):
    """A file that is to be read. in_one_file: raise if the numbers are in another file than the header."""

    in_one_file: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredImage:
    """The numbers of a file, and where its header has them.

    array: the slowest axis first, and the components last if there are several. format: for people.
    spacing_mm: of the voxels, the fastest axis first. first_mm, axes: the first voxel's centre, and a column
    for each axis, in LPS; None in NIfTI images, whose `header` has them.
    """

    array: NDArray[Any]
    n_components: int = 1
    format: str
    spacing_mm: Floats
    first_mm: Floats | None = None
    axes: Floats | None = None
    header: Any = None

    @property
    def n_axes(self) -> int:
        """Number of axes, without that of the components."""
        return self.array.ndim - (self.n_components > 1)

    def floats(self) -> NDArray[Any]:
        """Return the numbers as float64 if they are that, and as float32 otherwise."""
        precise = self.array.dtype.kind == "f" and self.array.dtype.itemsize == 8
        return self.array.astype(np.float64 if precise else np.float32)


def check_components(image: StoredImage, expected: int, what: str) -> None:
    """Raise unless an image has 3 axes and so many numbers for each voxel. what: for people."""
    found = (image.n_axes, image.n_components)
    if found != (3, expected):
        raise FileError(
            f"expected an image of 3 dimensions and {expected} component{'s' * (expected > 1)}; got "
            f"{found[0]} and {found[1]}. Choose an image of {what}."
        )


def data_beside(request: ImageRequest, name: str) -> Path:
    """Return the file that a header names for its data; raise if it is not in the same folder."""
    if request.in_one_file:
        raise FileError("expected header and voxels in one file; got the name of another. Write one file.")
    header = request.path
    path = header.parent / name
    here = header.parent.resolve()
    plain = Path(name).name == name and not _SEVERAL.fullmatch(name)
    if not (name and plain and path.is_file() and path.resolve().parent == here):
        raise FileError(
            f"expected the data of {header.name} in one file beside it; got {name[:80]!r}. "
            f"Put it there, or write one file (.mha, .nrrd)."
        )
    return path
