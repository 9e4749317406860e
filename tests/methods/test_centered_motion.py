"""The initial guess of a registration takes one centroid to the other."""

from __future__ import annotations

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods.registration import centered_motion
from tests.cases.studies import GRID, truth

MOVING = VolumeGrid.on_detector((14, 14, 16), (3.0, 3.0, 3.0), gap_mm=9.0)


def test_the_same_voxels_on_another_grid_are_shifted_back() -> None:
    motion = centered_motion(truth(), truth(), grid=GRID, moving_grid=MOVING)
    found = motion.physical()["translation_mm"]
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, -4.0], dtype=torch.float64), atol=1e-9, rtol=0)


def test_negative_values_have_no_weight() -> None:
    volume = torch.full(GRID.shape, -1.0)
    volume[3, 4, 5] = volume[5, 4, 5] = 2.0
    other = torch.zeros(GRID.shape)
    other[4, 4, 6] = 0.1
    motion = centered_motion(volume, other, grid=GRID, moving_grid=GRID)
    found = motion.physical()["translation_mm"]
    torch.testing.assert_close(found, torch.tensor([-3.0, 0.0, 0.0], dtype=torch.float64), atol=1e-9, rtol=0)


def test_a_volume_without_positive_values_has_no_centroid() -> None:
    with pytest.raises(
        DuotomoError, match=r"centered_motion: expected a volume with positive values; got none"
    ):
        centered_motion(truth(), -truth(), grid=GRID, moving_grid=GRID)
