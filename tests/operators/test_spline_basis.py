"""The spline basis: which functions it reproduces, and along which axes."""

from __future__ import annotations

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.operators import SplineBasis
from tests.cases.transforms import centers_mm, normal

GRID = VolumeGrid.on_detector((6, 7, 8), (1.5, 1.0, 0.8))
INNER = (slice(1, -1),) * 3


def with_slices(thickness_mm: float) -> SplineBasis:
    return SplineBasis(VolumeGrid.on_detector((6, 7, 8), (thickness_mm, 1.0, 0.8)))


def test_constants_and_slopes_are_reproduced_inside() -> None:
    slope = centers_mm(GRID) @ torch.tensor([0.3, -1.1, 0.7], dtype=torch.float64) + 2.0
    torch.testing.assert_close(SplineBasis(GRID)(slope)[INNER], slope[INNER], rtol=1e-14, atol=0)


def test_a_square_rises_by_a_third() -> None:
    # ((i - 1)^2 + 4 i^2 + (i + 1)^2) / 6 = i^2 + 1/3: a quadratic keeps its curvature along every axis.
    squares = torch.stack(
        torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in GRID.shape), indexing="ij")
    ).square()
    samples = SplineBasis(GRID)(squares.sum(dim=0))
    torch.testing.assert_close(samples[INNER], (squares.sum(dim=0) + 1.0)[INNER], rtol=1e-13, atol=0)


def test_beyond_the_grid_there_is_nothing() -> None:
    # At the side one neighbour of the three is missing, with a sixth of the sum.
    edge = SplineBasis(GRID)(torch.ones(GRID.shape, dtype=torch.float64))
    assert edge[2, 3, 0].item() == pytest.approx(5 / 6, rel=1e-14)
    assert edge[0, 0, 0].item() == pytest.approx((5 / 6) ** 3, rel=1e-14)


@pytest.mark.parametrize(("thickness_mm", "smoothed"), [(2.0, True), (2.1, False)])
def test_slices_twice_as_thick_as_voxels_are_wide_stay_apart(thickness_mm: float, smoothed: bool) -> None:
    basis, slices = with_slices(thickness_mm), normal((6, 7, 8), seed=1)
    changed = slices.clone()
    changed[3] = normal((7, 8), seed=2)
    moved = (basis(changed) - basis(slices)).abs().amax(dim=(1, 2)) > 0
    assert moved.tolist() == [abs(z - 3) <= smoothed for z in range(6)]
    # Within a slice they are smoothed alike: what is equal in all slices does not tell.
    alike = normal((7, 8), seed=3).expand(6, 7, 8).contiguous()
    torch.testing.assert_close(basis(alike)[3], with_slices(1.0)(alike)[3], rtol=1e-13, atol=1e-14)


def test_detail_of_the_size_of_a_voxel_is_a_27th_part() -> None:
    # (-1)^(i + j + k), the finest pattern there is: (4 - 2) / 6 along each axis.
    signs = [1.0 - 2.0 * (torch.arange(n, dtype=torch.float64) % 2) for n in GRID.shape]
    board = signs[0][:, None, None] * signs[1][:, None] * signs[2]
    torch.testing.assert_close(SplineBasis(GRID)(board)[INNER], board[INNER] / 27, rtol=1e-13, atol=0)


def test_one_voxel_alone() -> None:
    one = torch.full((1, 1, 1), 27.0, dtype=torch.float64)
    assert SplineBasis(VolumeGrid.on_detector((1, 1, 1), (1.0, 1.0, 1.0)))(one).item() == pytest.approx(8.0)
