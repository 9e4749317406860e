"""Conversion between the machine frame and patient coordinates: the one place that knows how they relate.

Files take the machine's x as the patient's Right, y as Anterior and z as Superior. That is the RAS world of
NIfTI, which needs no change. ITK and DICOM use LPS, where the first two coordinates run the other way:

    (x, y, z) in ITK  =  (-x, -y, z) in the machine frame

and back. An index step along a grid's axes is then the direction matrix diag(-1, -1, 1) of an ITK image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.libraries import simpleitk

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
