"""An independent projector sees the same: RTK's Joseph projector, from the same acquisition.

RTK (itk-rtk) samples the volume along one ray per pixel and interpolates linearly between voxel centres;
duotomo integrates boxes over the whole pixel. On a smooth volume both tend to the line integrals as voxels
and pixels shrink, so their difference must fall. What comes from a wrong angle, axis, sign or ray length
would stay.
"""

from __future__ import annotations

from math import radians

import numpy as np
import pytest
import torch

from benchmarks.peers import rtk
from duotomo.geometry import Acquisition, VolumeGrid, voxel_to_world
from duotomo.operators import Projector

pytestmark = [
    pytest.mark.skipif(not rtk.available(), reason="needs RTK: pip install itk-rtk"),
    # Raised while ITK's extension modules are loaded; as an error it would end the process.
    pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute:DeprecationWarning"),
]

# Three blobs off every plane of symmetry: centre xyz in mm, standard deviation in mm, height in 1/mm.
BLOBS = (((-8.0, 18.0, 30.0), 4.0, 0.05), ((9.0, 30.0, 22.0), 5.0, 0.03), ((2.0, 24.0, 40.0), 3.5, -0.02))


def acquisition(*, tilting: bool, factor: int) -> Acquisition:
    """Return 15 views over 15 degrees, as Hologic's machine has them, with pixels of 2 mm / factor.

    tilting: by 4.2 degrees in all, as that machine does; or not at all.
    """
    return Acquisition.arc(
        n_views=15,
        angle_range_rad=radians(15),
        detector_tilt_range_rad=radians(4.2) if tilting else 0.0,
        source_to_detector_mm=700.0,
        pivot_height_mm=0.0,
        detector_shape=(32 * factor, 40 * factor),
        pixel_spacing_mm=(2.0 / factor, 2.0 / factor),
    )


def blobs(grid: VolumeGrid) -> np.ndarray:
    """Return the sum of the blobs at the voxels' centres, (z, y, x)."""
    index = np.stack(np.meshgrid(*(np.arange(n) for n in grid.shape), indexing="ij"), axis=-1)
    points_mm = voxel_to_world(grid, index)
    return sum(
        height * np.exp(-np.sum((points_mm - center) ** 2, axis=-1) / (2 * sigma**2))
        for center, sigma, height in BLOBS
    ).astype(np.float32)


def difference(*, tilting: bool, factor: int) -> float:
    """Return the relative L2 difference of the two programs, with voxels of 2 mm / factor."""
    grid = VolumeGrid.on_detector((28, 26, 26), (2.0, 2.0, 2.0), gap_mm=4.0).refine(factor)
    scan, volume = acquisition(tilting=tilting, factor=factor), blobs(grid)
    ours = Projector(grid=grid, acquisition=scan)(torch.from_numpy(volume)).numpy()
    theirs = rtk.RtkJoseph(grid, scan).forward(volume)
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


@pytest.mark.parametrize("tilting", [False, True], ids=["static", "tilting"])
def test_projections_agree_better_on_finer_grids(tilting: bool) -> None:
    coarse, fine = difference(tilting=tilting, factor=1), difference(tilting=tilting, factor=2)
    print(f"relative difference from RTK: {coarse:.2e} at 2 mm, {fine:.2e} at 1 mm")
    assert coarse < 5e-3
    assert fine < 2.5e-3
    assert fine < 0.55 * coarse
