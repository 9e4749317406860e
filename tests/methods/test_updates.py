"""What the updates make of given volumes, by hand."""

from __future__ import annotations

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.methods import Estimates, averaged, replaced, symmetric
from duotomo.transforms import Motion, Translation

GRID = VolumeGrid.on_detector((2, 3, 8), (1.0, 1.0, 1.0))
SHIFT = Translation(GRID)


def volume(seed: int) -> torch.Tensor:
    """Return a volume that is empty along its sides, so that nothing is lost where it is moved."""
    inside = torch.rand(2, 3, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    inside[..., :2] = inside[..., -2:] = 0
    return inside


def estimates(*shifts_x: int) -> Estimates:
    """Return volumes, and motions by whole voxels, so that resampling is exact."""
    motions = tuple(Motion(SHIFT, torch.tensor([x, 0.0, 0.0]).double()) for x in shifts_x)
    n = len(shifts_x) + 1
    return Estimates(volumes=tuple(map(volume, range(n))), grids=(GRID,) * n, motions=motions)


def right(f: torch.Tensor, n: int) -> torch.Tensor:
    return torch.roll(f, n, dims=-1)


def test_replaced() -> None:
    """T takes x of the moving frame to x + 2 of the reference: what f_2 shows at x belongs there."""
    f_1, f_2 = (given := estimates(2)).volumes
    new_1, new_2 = replaced(given)
    torch.testing.assert_close(new_1, right(f_2, 2))
    assert torch.equal(new_2, f_2)
    assert torch.equal(f_1, volume(0))


def test_averaged() -> None:
    f_1, f_2 = (given := estimates(-1)).volumes
    new_1, new_2 = averaged(given)
    torch.testing.assert_close(new_1, (f_1 + right(f_2, -1)) / 2)
    assert torch.equal(new_2, f_2)


def test_symmetric() -> None:
    f_1, f_2 = (given := estimates(2)).volumes
    new_1, new_2 = symmetric(given)
    torch.testing.assert_close(new_1, (f_1 + right(f_2, 2)) / 2)
    torch.testing.assert_close(new_2, (f_2 + right(f_1, -2)) / 2)
    # Both are now the same breast, seen from two frames.
    torch.testing.assert_close(right(new_2, 2), new_1)


def test_several_moving_visits_count_alike() -> None:
    f_1, f_2, f_3 = (given := estimates(2, -1)).volumes
    mean = (right(f_2, 2) + right(f_3, -1)) / 2
    torch.testing.assert_close(replaced(given)[0], mean)
    torch.testing.assert_close(averaged(given)[0], (f_1 + mean) / 2)
    new_1, new_2, new_3 = symmetric(given)
    torch.testing.assert_close(new_1, (f_1 + mean) / 2)
    torch.testing.assert_close(new_2, (f_2 + right(f_1, -2)) / 2)
    torch.testing.assert_close(new_3, (f_3 + right(f_1, 1)) / 2)


@pytest.mark.parametrize("update", [replaced, averaged, symmetric])
def test_volumes_that_agree_stay_as_they_are(update: object) -> None:
    f = volume(0)
    motions = (Motion(SHIFT, torch.tensor([1.0, 0.0, 0.0]).double()),)
    agreeing = Estimates(volumes=(f, right(f, -1)), grids=(GRID, GRID), motions=motions)
    for new, old in zip(update(agreeing), agreeing.volumes, strict=True):  # type: ignore[operator]
        torch.testing.assert_close(new, old)


def test_grids_may_differ() -> None:
    wider = VolumeGrid(shape=(2, 3, 12), spacing_mm=(1.0, 1.0, 1.0), center_mm=GRID.center_mm)
    f_1, f_2 = volume(0), torch.nn.functional.pad(volume(1), (2, 2))
    shift = Translation(wider)
    given = Estimates(volumes=(f_1, f_2), grids=(GRID, wider), motions=(Motion(shift, shift.identity()),))
    new_1, new_2 = symmetric(given)
    torch.testing.assert_close(new_1, (f_1 + volume(1)) / 2)
    torch.testing.assert_close(new_2, (f_2 + torch.nn.functional.pad(f_1, (2, 2))) / 2)
