"""Each visit by itself, then the registration of what was reconstructed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.methods import Settings, Study, register, resample_to_reference, sequential, with_known_motion
from duotomo.methods.registration import register_once
from duotomo.methods.sequential import one_visit
from duotomo.objectives import Bending, CrossCorrelation, SumOfSquares
from duotomo.solvers import Step
from duotomo.transforms import BSpline, Motion, Rigid, Translation
from tests.cases.studies import GRID, seen, shifted, study, truth
from tests.methods.runs import OWN, SHIFT, TURN, VOXEL_MM, error_mm, short, stages


def test_every_volume_is_that_of_its_visit_alone() -> None:
    of, settings = study(SHIFT, TURN), short()
    steps: list[Step] = []
    result = sequential(of, settings, on_step=steps.append)
    volumes = [result.volume, result.others["visit_2"], result.others["visit_3"]]
    n_applications = 0
    for index, volume in enumerate(volumes):
        alone = with_known_motion(one_visit(of, index), settings, [])
        assert torch.equal(volume, alone.volume)
        n_applications += alone.applications
    assert result.applications == n_applications
    # The stages of one visit come after those of the other.
    assert sorted({record.stage for record in steps}) == list(range(3 * len(settings.stages)))


@pytest.mark.parametrize("misfit", [SumOfSquares, CrossCorrelation])
def test_motion_is_found_and_both_frames_are_shown(
    misfit: type[SumOfSquares] | type[CrossCorrelation],
) -> None:
    settings = Settings(stages=stages("translation", "rigid", n_steps=40))
    result = sequential(study(TURN), settings, misfit=misfit)
    assert error_mm(result.motions[0], TURN) < 0.3 * VOXEL_MM
    own, brought = result.others["visit_2"], result.others["visit_2_registered"]
    off = [float((volume - result.volume).norm() / result.volume.norm()) for volume in (own, brought)]
    assert off[1] < 0.5 * off[0]
    assert result.grids == {}


def test_a_visit_with_its_own_grid_keeps_it() -> None:
    motion = shifted(5.0, -3.0, 4.0, grid=OWN)
    of = Study(grid=GRID, visits=(seen(), seen(motion, grid=OWN)))
    result = sequential(of, Settings(stages=stages("translation", n_steps=20)))
    assert result.grids == {"visit_2": OWN}
    assert result.others["visit_2"].shape == OWN.shape
    assert result.others["visit_2_registered"].shape == result.volume.shape == GRID.shape
    assert error_mm(result.motions[0], motion) < 0.3 * VOXEL_MM


def test_a_coarse_schedule_gives_coarse_volumes() -> None:
    settings = Settings(stages=stages("translation", n_steps=20, coarsen=2))
    result = sequential(study(SHIFT), settings)
    assert result.grid == GRID.coarsen(2)
    assert {volume.shape for volume in result.others.values()} == {GRID.coarsen(2).shape}
    assert error_mm(result.motions[0], SHIFT) < VOXEL_MM


def test_without_a_model_nothing_is_begun() -> None:
    settings = Settings(stages=stages(None, n_steps=3))
    steps: list[Step] = []
    with pytest.raises(
        DuotomoError, match="register: expected settings with a model of motion in some stage"
    ):
        sequential(study(SHIFT), settings, on_step=steps.append)
    assert steps == []
    assert sequential(study(), settings).others == {}


def test_registration_finds_what_moved_a_volume() -> None:
    """Through two models and two resolutions, of which each pair runs once."""
    moved = TURN.warp(GRID, GRID)(truth())
    schedule = (*stages("translation", n_steps=1, coarsen=2), *stages("rigid", "rigid", None, n_steps=1))
    start = Motion(Translation(GRID), torch.zeros(3, dtype=torch.float64))
    found = register(
        truth(), moved, grid=GRID, moving_grid=GRID, settings=Settings(stages=schedule), start=start
    )
    assert isinstance(found.motion.transform, Rigid)
    assert error_mm(found.motion, TURN) < 0.02 * VOXEL_MM


def test_a_registration_goes_on_from_its_start() -> None:
    moved = SHIFT.warp(GRID, GRID)(truth())
    objectives: list[float] = []
    found = register_once(
        truth(),
        moved,
        grid=GRID,
        moving_grid=GRID,
        transform=SHIFT.transform,
        settings=short(),
        start=SHIFT,
        on_step=lambda step: objectives.append(step.objective),
    )
    torch.testing.assert_close(found.motion.params, SHIFT.params, atol=1e-6, rtol=0)
    assert found.motion.transform is SHIFT.transform
    back = resample_to_reference(moved, SHIFT, grid=GRID, moving_grid=GRID)
    inner = (slice(3, -3),) * 3
    assert float((back - truth())[inner].norm()) < 0.35 * float(truth()[inner].norm())


def test_a_soft_model_bends_less_with_the_prior() -> None:
    """Noise has no motion to find: what is found all the same bends less as bending counts more.

    A stage's stiffness does what the prior's weight does.
    """
    generator = torch.Generator().manual_seed(0)
    noisy = truth() + 0.02 * torch.randn(GRID.shape, generator=generator)
    energies = []
    for bending, stiffness in ((1e-4, 1.0), (100.0, 1.0), (1e-4, 1e6)):
        settings = Settings(stages=stages("bspline:4,4,4", n_steps=1))
        settings = replace(settings, priors=replace(settings.priors, bending=bending))
        spline = BSpline.over(GRID, (4, 4, 4))
        found = register_once(
            truth(),
            noisy,
            grid=GRID,
            moving_grid=GRID,
            transform=spline,
            settings=settings,
            start=Motion(spline, spline.identity()),
            stiffness=stiffness,
            n_steps=5,
        )
        energies.append(Bending(spline).value(found.motion.params))
    assert 0 < energies[1] < 0.1 * energies[0]
    assert energies[2] == pytest.approx(energies[1], rel=1e-3)
