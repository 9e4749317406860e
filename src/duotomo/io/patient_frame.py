"""Conversion between the machine frame and patient coordinates: the one place that knows how they relate.

Files take the machine's x as the patient's Right, y as Anterior and z as Superior. That is the RAS world of
NIfTI, which needs no change. ITK and DICOM use LPS, where the first two coordinates run the other way:

    (x, y, z) in ITK  =  (-x, -y, z) in the machine frame

and back. An index step along a grid's axes is then the direction matrix diag(-1, -1, 1) of an ITK image.
Lattices of vectors in files have their axes in any order, flipped or oblique.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.images.image import StoredImage
from duotomo.io.images.nifti import ras_affine_of
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import FileError

Floats = NDArray[np.float64]

FLIP = np.array([-1.0, -1.0, 1.0])


def lps(xyz: ArrayLike) -> Floats:
    """Return points or vectors, (..., xyz), in LPS; or from LPS, because it is its own inverse.

    >>> lps([1.0, 2.0, 3.0]).tolist()
    [-1.0, -2.0, 3.0]
    """
    flipped: Floats = np.asarray(xyz, dtype=np.float64) * FLIP
    return flipped


def lps_matrix(matrix: ArrayLike) -> Floats:
    """Return the matrix, (3, 3), that does in LPS what `matrix` does in the machine frame, or back.

    >>> lps_matrix([[1, 2, 3], [4, 5, 6], [7, 8, 9]]).tolist()
    [[1.0, 2.0, -3.0], [4.0, 5.0, -6.0], [-7.0, -8.0, 9.0]]
    """
    changed: Floats = np.asarray(matrix, dtype=np.float64) * FLIP[:, None] * FLIP
    return changed


def ras_affine(grid: VolumeGrid) -> Floats:
    """Return NIfTI's matrix, (4, 4), from (i, j, k, 1), an index along x, y and z, to RAS in mm.

    >>> ras_affine(VolumeGrid.on_detector((2, 4, 6), (3.0, 2.0, 1.0)))[:3].tolist()
    [[1.0, 0.0, 0.0, -2.5], [0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 3.0, 1.5]]
    """
    affine = np.diag([*grid.spacing_mm[::-1], 1.0])
    affine[:3, 3] = voxel_to_world(grid, (0, 0, 0))
    return affine


def itk_image(grid: VolumeGrid, values: ArrayLike, *, vectors: bool = False) -> Any:
    """Return a SimpleITK image that lies where the grid lies.

    values: (z, y, x), or with `vectors` (z, y, x, xyz) in the machine frame. They are copied.
    """
    array = np.asarray(values)
    image = simpleitk().GetImageFromArray(lps(array) if vectors else array, isVector=vectors)
    image.SetSpacing(grid.spacing_mm[::-1])
    image.SetOrigin(lps(voxel_to_world(grid, (0, 0, 0))).tolist())
    image.SetDirection(np.diag(FLIP).ravel().tolist())
    return image


ROUNDING = 1e-12
"""Of a direction matrix in float64."""

FLOAT32 = 1e-6
"""What NIfTI's header leaves of a direction is right to this."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """Vectors on a lattice, and how the lattice is turned about its middle.

    The vectors lie on `grid` after points went through `x -> c + Q^-1 (x - c)`, with c the grid's middle, and
    are given along its axes, in mm. Q is None if the lattice lies along the machine's axes.

    vectors: (xyz, z, y, x). turn: Q, (3, 3).
    """

    grid: VolumeGrid
    vectors: Floats
    turn: Floats | None


def from_image(image: StoredImage, vectors: NDArray[Any]) -> Placement:
    """Return vectors, (component, k, j, i) along the machine's axes, where an image file has its voxels.

    Decimals that float32 has cut from the spacings and the origin of NIfTI are restored: 0.1 is 0.1.
    """
    if image.first_mm is None or image.axes is None:
        affine = ras_affine_of(image.header)
        spacing_mm = np.linalg.norm(affine[:3, :3], axis=0)
        return place(
            vectors=vectors,
            direction=affine[:3, :3] / spacing_mm,
            first_mm=_decimals(affine[:3, 3]),
            spacing_mm=_decimals(spacing_mm),
            rounding=FLOAT32,
        )
    return place(
        vectors=vectors,
        direction=lps(image.axes.T).T,
        first_mm=lps(image.first_mm),
        spacing_mm=image.spacing_mm,
    )


def aligned(placement: Placement, remedy: str) -> Placement:
    """Return the placement; raise unless its axes lie along the machine's."""
    if placement.turn is not None:
        raise FileError(
            f"expected axes along the machine's; got the directions {placement.turn.round(4).tolist()}. "
            f"{remedy}"
        )
    return placement


def from_lps(vectors: Floats, *, first_mm: Floats, spacing_mm: Floats, direction: Floats) -> Placement:
    """Return vectors, (k, j, i, xyz), where ITK has them, all in LPS. direction: a column for each index."""
    return place(
        vectors=np.moveaxis(lps(vectors), -1, 0),
        direction=lps(direction.T).T,
        first_mm=lps(first_mm),
        spacing_mm=spacing_mm,
    )


def place(
    *, vectors: Floats, direction: Floats, first_mm: Floats, spacing_mm: Floats, rounding: float = ROUNDING
) -> Placement:
    """Return vectors on a grid along the machine's axes if they can be, or on a turned one.

    `x = first_mm + direction (spacing_mm * (i, j, k))`, in the machine frame.

    vectors: (xyz, k, j, i), in the machine frame. direction: (3, 3), a column for each index. rounding: how
    far an entry may be from 0 or 1 that is meant to be that.
    """
    determinant = float(np.linalg.det(direction))
    if not abs(determinant) > 1e-9:
        raise FileError(
            f"expected three axes that span space; got the directions {direction.tolist()}. Correct them."
        )
    n_ijk = np.array(vectors.shape[:0:-1])
    center_mm = first_mm + direction @ (spacing_mm * (n_ijk - 1) / 2)
    near = np.round(direction)
    is_permuted = all((np.abs(near).sum(axis=axis) == 1).all() for axis in (0, 1))
    turn: Floats | None = None
    if is_permuted and np.abs(direction - near).max() < rounding:
        index_of = np.abs(near).argmax(axis=1)
        # The last axis of the array is index 0 in the file, and x on the grid.
        vectors = vectors.transpose(0, *(3 - index_of[::-1]))
        vectors = np.flip(vectors, tuple(3 - axis for axis in range(3) if near[axis].sum() < 0))
        spacing_mm = spacing_mm[index_of]
    else:
        turn = direction
        if determinant < 0:
            # A transform must not reflect, so the array does. Its middle stays where it is.
            turn, vectors = turn * (-1, 1, 1), np.flip(vectors, 3)
        vectors = np.einsum("ab,bkji->akji", np.linalg.inv(turn), vectors)
    n_z, n_y, n_x = vectors.shape[1:]
    d_z, d_y, d_x = spacing_mm[::-1].tolist()
    z_mm, y_mm, x_mm = center_mm[::-1].tolist()
    grid = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(d_z, d_y, d_x), center_mm=(z_mm, y_mm, x_mm))
    return Placement(grid=grid, vectors=np.ascontiguousarray(vectors), turn=turn)


def same_place(stated: VolumeGrid, found: VolumeGrid) -> bool:
    """Return whether a grid is that of an image, whose header has float32 only.

    >>> grid = VolumeGrid.on_detector((2, 4, 6), (3.0, 2.0, 1.0))
    >>> same_place(grid, VolumeGrid.on_detector((2, 4, 6), (3.0, 2.0, 1.000001)))
    True
    """
    within = zip((*stated.spacing_mm, *stated.center_mm), (*found.spacing_mm, *found.center_mm), strict=True)
    near = (math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-3 * min(stated.spacing_mm)) for a, b in within)
    return stated.shape == found.shape and all(near)


def _decimals(values: Floats) -> Floats:
    """Return the shortest decimals that float32 rounds to these values."""
    return np.array([float(str(value)) for value in values.astype(np.float32)])
