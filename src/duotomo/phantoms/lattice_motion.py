"""A motion that is given by a function of points, kept on a lattice."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.transforms import DisplacementField, Motion

LATTICE_MM = 2.0

Floats = NDArray[np.float64]


def sampled_motion(
    to_reference: Callable[[Floats], Floats], grid: VolumeGrid, *, lattice_mm: float = LATTICE_MM
) -> Motion:
    """Return the motion that takes points of the moving frame where a function takes them.

    Parameters
    ----------
    to_reference : callable
        Takes points of the moving frame, (point, xyz) in mm, to the reference frame, (point, xyz) in mm.
    grid : VolumeGrid
        Of the moving visit: the lattice reaches a little beyond it, where displacements fade.
    lattice_mm : float
        Distance between the points that are taken; displacements are linear between them.

    Returns
    -------
    Motion
        Of a `DisplacementField` on the lattice, moving_to_reference.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> motion = sampled_motion(lambda points: points + np.array([1.0, 0.0, -2.0]), grid)
    >>> motion.points(torch.tensor([[0.0, 4.0, 4.0]])).tolist()
    [[1.0, 4.0, 2.0]]
    """
    n_z, n_y, n_x = (math.ceil(size / lattice_mm) + 3 for size in grid.size_mm)
    lattice = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(lattice_mm,) * 3, center_mm=grid.center_mm)
    index = np.meshgrid(*map(np.arange, lattice.shape), indexing="ij")
    points_mm = voxel_to_world(lattice, np.stack(index, axis=-1)).reshape(-1, 3)
    moved = (to_reference(points_mm) - points_mm).T.reshape(3, *lattice.shape)
    field = DisplacementField(lattice)
    return Motion(field, field.params(displacement_mm=torch.from_numpy(np.ascontiguousarray(moved))))
