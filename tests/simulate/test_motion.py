"""Laws of a visit after a motion: what the identity and a translation do, other grids, and bad requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import same_grid_noise_free, scan
from duotomo.transforms import Motion, Rigid, Translation
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((10, 12, 12), (2.0, 2.0, 2.0), gap_mm=2.0)
BALL = Ellipsoid(center_mm=(1.0, 12.0, 12.0), radii_mm=(6.0, 5.0, 4.0), value=0.05)
SCAN = arc((14, 20), 2.0, n_views=3, degrees=30)
RIGID = Rigid(GRID)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_identity_is_no_motion() -> None:
    still = scan(BALL, GRID, SCAN, generator=seeded())
    moved = scan(BALL, GRID, SCAN, generator=seeded(), motion=Motion(RIGID, RIGID.identity()))
    torch.testing.assert_close(moved, still)


def test_translation_moves_the_phantom_the_other_way() -> None:
    # (T f)(x) = f(x + t): what stood at c is seen at c - t. Two fine voxels of 1 mm leave nothing between.
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=(2.0, 0.0, -2.0)))
    shifted = replace(BALL, center_mm=(-1.0, 12.0, 14.0))
    moved = scan(BALL, GRID, SCAN, generator=seeded(), photons=1e12, motion=motion)
    expected = scan(shifted, GRID, SCAN, generator=seeded(), photons=1e12)
    torch.testing.assert_close(moved, expected, rtol=1e-3, atol=1e-5)
    assert float((moved - scan(BALL, GRID, SCAN, generator=seeded())).abs().max()) > 0.05


def test_same_grid_data_are_the_projector_of_the_warped_voxels() -> None:
    motion = Motion(RIGID, RIGID.params(rotation_deg=(3.0, -10.0, 5.0), translation_mm=(1.0, 0.5, -2.0)))
    volume = torch.from_numpy(BALL.voxels(GRID))
    model = Projector(grid=GRID, acquisition=SCAN) @ motion.warp()
    projections = same_grid_noise_free(BALL, GRID, SCAN, dtype=torch.float64, motion=motion)
    assert torch.equal(projections, model(volume))


@pytest.mark.parametrize("finer", [2, 3])
def test_larger_moving_grid_shows_what_moves_out_of_the_reference_grid(finer: int) -> None:
    shift = Translation(GRID)
    # Down by more than the room under the ball.
    motion = Motion(shift, shift.params(translation_mm=(0.0, 0.0, 12.0)))
    moving = VolumeGrid(shape=(16, 12, 12), spacing_mm=(2.0, 2.0, 2.0), center_mm=(12.0, 12.0, 0.0))

    def mass(moving_grid: VolumeGrid | None) -> float:
        projections = scan(
            BALL, GRID, SCAN, generator=seeded(), photons=1e12, finer=finer, motion=motion,
            moving_grid=moving_grid,
        )  # fmt: skip
        return float(projections.sum())

    still = float(scan(BALL, GRID, SCAN, generator=seeded(), photons=1e12).sum())
    # Nearer to the detector the shadow shrinks: h^2 / (h - z)^2 from z = 12 to z = 0.
    assert mass(moving) == pytest.approx(still * (648 / 660) ** 2, rel=0.01)
    assert mass(None) < 0.7 * still


def test_grid_without_a_motion_is_refused() -> None:
    with pytest.raises(DuotomoError, match="scan: expected a motion with moving_grid; got moving_grid alone"):
        scan(BALL, GRID, SCAN, generator=seeded(), moving_grid=GRID)
    with pytest.raises(DuotomoError, match="same_grid_noise_free: expected a motion with moving_grid"):
        same_grid_noise_free(BALL, GRID, SCAN, moving_grid=GRID)
