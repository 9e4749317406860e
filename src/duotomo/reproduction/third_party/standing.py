"""Subjects as they stand in the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.phantoms.sampled import Sampled

GAP_MM = 5.0
"""From the detector's surface to the lowest voxel: the cover and the grid of a machine."""


def standing(volume: NDArray[Any], spacing_mm: tuple[float, float, float]) -> Sampled:
    """Return a subject `GAP_MM` above the detector, its chest wall at y = 0, centred in x.

    volume: attenuation, 1/mm, (z, y, x) with y from the chest wall to the nipple; becomes float32.

    >>> standing(np.zeros((2, 3, 4)), (1.0, 1.0, 1.0)).grid.low_mm
    (5.0, 0.0, -2.0)
    """
    n_z, n_y, n_x = volume.shape
    return Sampled(
        volume=np.ascontiguousarray(volume, dtype=np.float32),
        grid=VolumeGrid.on_detector((n_z, n_y, n_x), spacing_mm, gap_mm=GAP_MM),
    )
