"""Planar resampling, slow and obvious: one dense matrix.

A pixel (v, u) of a tilted detector is seen from the source on another plane as a small box around the image
of its centre. With the homography H,

    (a, b, c) = H (v, u, 1),  centre = (a / c, b / c),

its size is the box that holds the image of the pixel to first order, and its value is the mean over that box
of the other plane's image, which is constant on each of its own pixels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def boxes(homography: Floats, v: Floats, u: Floats) -> tuple[Floats, Floats]:
    """Return the centres and the sizes, (..., 2) as (row, column), of pixels (v, u) seen on the other plane.

    homography: (3, 3), from (v, u, 1) to (row, column, 1), centres at whole numbers on this plane; on the
    other, pixel k covers [k, k + 1].
    """
    a, b, c = (homography[i, 0] * v + homography[i, 1] * u + homography[i, 2] for i in range(3))
    center = np.stack([a / c, b / c], axis=-1)
    # d(a/c)/dv = (H[0,0] - (a/c) H[2,0]) / c, and so on; the box holds the parallelogram they span.
    size = np.stack(
        [
            sum(abs(homography[i, j] - center[..., i] * homography[2, j]) for j in range(2)) / abs(c)
            for i in range(2)
        ],
        axis=-1,
    )
    return center, size


def corners(shape: tuple[int, int], *, margin: float = 0.0) -> tuple[Floats, Floats]:
    """Return v and u, (4,) each, of the corner pixels' centres, moved outwards by `margin` pixels.

    >>> corners((3, 5), margin=0.5)
    (array([-0.5, -0.5,  2.5,  2.5]), array([-0.5,  4.5, -0.5,  4.5]))
    """
    v, u = (np.array([-margin, n - 1 + margin]) for n in shape)
    return np.repeat(v, 2), np.tile(u, 2)


def largest_box(homography: Floats, shape: tuple[int, int]) -> Floats:
    """Return the largest (height, width) of the boxes of an image's corner pixels."""
    _, size = boxes(homography, *corners(shape))
    return np.asarray(size.max(axis=0))


def matrix(homography: Floats, *, shape: tuple[int, int], other_shape: tuple[int, int]) -> Floats:
    """Return the weights, (v, u, row, column)."""
    v, u = np.meshgrid(*(np.arange(n, dtype=float) for n in shape), indexing="ij")
    center, size = boxes(homography, v, u)
    shares = []
    for axis in range(2):
        low = (center[..., axis] - size[..., axis] / 2)[..., None]
        high = (center[..., axis] + size[..., axis] / 2)[..., None]
        cell = np.arange(other_shape[axis])
        overlap = np.maximum(np.minimum(high, cell + 1) - np.maximum(low, cell), 0)
        shares.append(overlap / size[..., axis, None])
    return np.asarray(shares[0][..., :, None] * shares[1][..., None, :])
