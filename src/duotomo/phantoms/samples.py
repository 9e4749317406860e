"""Points of voxels and pixels, over which a phantom is averaged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid

Array = NDArray[np.float64]


def check_oversample(owner: str, oversample: int) -> None:
    """Raise unless there is at least one sample."""
    if oversample < 1:
        raise GeometryError(f"{owner}: expected oversample >= 1; got {oversample}. 1 samples at the middle.")


def samples_mm(
    grid: VolumeGrid, oversample: int, center_mm: tuple[float, float, float]
) -> tuple[Array, Array, Array]:
    """Return where `oversample` samples of each voxel are along z, y and x, from `center_mm`, xyz."""
    z, y, x = (
        low + (np.arange(n * oversample) + 0.5) * d / oversample - center
        for low, n, d, center in zip(grid.low_mm, grid.shape, grid.spacing_mm, center_mm[::-1], strict=True)
    )
    return z, y, x
