"""Stacks as NIfTI, MetaImage or NRRD images: (u, v, view), the fastest axis first."""

from __future__ import annotations

import numpy as np

from duotomo.io.file_error import FileError
from duotomo.io.images import StoredImage, read_image
from duotomo.io.stacks.stack import PixelPlace, Request, Stack, as_views


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
