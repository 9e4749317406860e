"""One small visit that the tests reconstruct: a body with two inserts, scanned on a finer grid with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from duotomo.geometry import VolumeGrid
from duotomo.phantoms import Ellipsoid, EllipticCylinder
from duotomo.simulate import scan
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((8, 14, 16), (4.0, 3.0, 3.0), gap_mm=6.0)
SCAN = arc((20, 32), 2.5, n_views=9, degrees=50)
PHOTONS = 2e4


class Body:
    """A flat body with a dense and a light insert."""

    parts = (
        EllipticCylinder(center_mm=(0.0, 20.0, 22.0), radii_mm=(20.0, 17.0), height_mm=28.0, value=0.04),
        Ellipsoid(center_mm=(-7.0, 20.0, 18.0), radii_mm=(5.0, 5.0, 5.0), value=0.04),
        Ellipsoid(center_mm=(8.0, 15.0, 26.0), radii_mm=(4.0, 5.0, 5.0), value=-0.03),
    )

    def voxels(self, grid: VolumeGrid, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        total: NDArray[Any] = sum(part.voxels(grid) for part in self.parts).astype(dtype)
        return total


TRUTH = torch.from_numpy(Body().voxels(GRID)).float()
DATA = scan(Body(), GRID, SCAN, generator=torch.Generator().manual_seed(3), photons=PHOTONS)


def error(volume: torch.Tensor, truth: torch.Tensor = TRUTH) -> float:
    """Return `|f - truth|^2 / |truth|^2`."""
    return float(((volume - truth) ** 2).sum() / (truth**2).sum())
