"""An array of views as an image file holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.images import StoredImage, read_image
from duotomo.io.paths import FileError, damage
from duotomo.io.size_check import FileRequest, check_numbers

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PixelPlace:
    """Where an image says that its pixels are, in the detector's own plane.

    spacing_mm, first_mm: (u, v), of the pixels and of the centre of the first one. axes: (2, 2), a column for
    u and one for v.
    """

    spacing_mm: Floats
    first_mm: Floats
    axes: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack:
    """The numbers of a file, (view, v, u), as they are stored; and where its header has pixels, if it does.

    format: the kind of file, for people. has_origin: whether `place` says where the first pixel is.
    """

    array: NDArray[Any]
    format: str
    place: PixelPlace | None = None
    has_origin: bool = False


@dataclass(frozen=True, kw_only=True)
class Request(FileRequest):
    """A file that is to be read as a stack. variable: the array that is meant, where a file has many."""

    variable: str | None


def as_views(array: NDArray[Any]) -> NDArray[Any]:
    """Return (view, v, u) from an array with more or fewer axes, if that leaves no doubt.

    Axes of length 1 are left out of an array of more than three; one of (v, u) is a single view.

    >>> as_views(np.zeros((1, 3, 4, 5))).shape, as_views(np.zeros((4, 5))).shape
    ((3, 4, 5), (1, 4, 5))
    """
    if array.ndim > 3:
        kept = tuple(n for n in array.shape if n > 1)
        # Otherwise one of the axes of length 1 would be a view, or a row of pixels, and nobody knows which.
        array = array.reshape(kept) if len(kept) == 3 else array
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise FileError(
            f"expected views of rows of pixels, three axes; got {array.ndim} of lengths {array.shape}. "
            f"Write one stack of views."
        )
    return array


def choose(names: Sequence[str], wanted: str | None, described: Sequence[str]) -> str:
    """Return the name of the array that is meant.

    names: of the arrays that could be meant. described: all of the file, for people.
    """
    listing = ", ".join(described) or "nothing"
    if wanted is not None:
        if wanted not in names:
            raise FileError(
                f"expected the variable {wanted!r} with views of pixels; got {listing}. Name one of them."
            )
        return wanted
    if len(names) != 1:
        raise FileError(
            f"expected one array of views; got {len(names)} among {listing}. Name the one that is meant "
            f"with `variable`."
        )
    return names[0]


def read_npy(request: Request) -> Stack:
    """Return the array of a `.npy` file. Objects, which would have to be unpickled, are refused."""
    name = request.path.name
    with request.path.open("rb") as file:
        if not file.read(6) == b"\x93NUMPY":
            raise FileError(
                f"expected one array in {name}, as np.save writes it; got other bytes. Save it so."
            )
    with damage():  # the header is Python, and the parser has errors of its own
        # Mapped, not read: a header that asks for more than the file has ends here.
        mapped = np.load(request.path, mmap_mode="r", allow_pickle=False)
    check_numbers(mapped.dtype, name)
    request.check_size(mapped.shape, mapped.dtype.itemsize, compressed=False)
    return Stack(array=np.array(as_views(mapped)), format="NumPy array")


def read_stack_image(request: Request) -> Stack:
    """Return the array of an image, and where it places its pixels."""
    image = read_image(request.path, max_bytes=request.max_bytes)
    if image.n_components != 1:
        raise FileError(
            f"expected one number per pixel in {request.path.name}; got {image.n_components}. Write grey "
            f"values, not colours or vectors."
        )
    if image.n_axes < 2:
        raise FileError(
            f"expected views of pixels; got an image of shape {image.array.shape}. Choose another."
        )
    place = _place(image)
    return Stack(
        array=as_views(image.array),
        format=image.format,
        place=place,
        has_origin=place is not None and image.first_mm is not None,
    )


def _place(image: StoredImage) -> PixelPlace | None:
    if image.first_mm is None or image.axes is None:
        return PixelPlace(spacing_mm=image.spacing_mm[:2], first_mm=np.zeros(2), axes=np.eye(2))
    return PixelPlace(spacing_mm=image.spacing_mm[:2], first_mm=image.first_mm[:2], axes=image.axes[:2, :2])
