"""Each visit by itself, then the registration of what was reconstructed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Study, register, resample_to_reference, sequential, with_known_motion
from duotomo.methods.registration import Misfit, register_once, registration_stages
from duotomo.methods.sequential import one_visit
from duotomo.objectives import Bending, CrossCorrelation, LocalCorrelation, SumOfSquares
from duotomo.objectives.local_correlation import smoothed
from duotomo.solvers import Step
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Translation, chain, folding
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
    assert sorted({record.stage for record in steps}) == list(
        range(3 * len(settings.with_known_motion().stages))
    )


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
    # Of balls of a few voxels, brightness says more than edges.
    result = sequential(of, Settings(stages=stages("translation", n_steps=20)), misfit=SumOfSquares)
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
    moved = TURN.warp(GRID, GRID, cubic=True)(truth())
    schedule = (*stages("translation", n_steps=1, coarsen=2), *stages("rigid", "rigid", None, n_steps=1))
    start = Motion(Translation(GRID), torch.zeros(3, dtype=torch.float64))
    found = register(
        truth(), moved, grid=GRID, moving_grid=GRID, settings=Settings(stages=schedule), start=start
    )
    assert isinstance(found.motion.transform, Rigid)
    assert error_mm(found.motion, TURN) < 0.02 * VOXEL_MM


def test_a_registration_goes_on_from_its_start() -> None:
    moved = SHIFT.warp(GRID, GRID, cubic=True)(truth())
    objectives: list[float] = []
    found = register_once(
        truth(),
        moved,
        grid=GRID,
        moving_grid=GRID,
        transform=SHIFT.transform,
        settings=short(),
        start=SHIFT,
        misfit=SumOfSquares,
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


@pytest.mark.parametrize("misfit", [LocalCorrelation, SumOfSquares, CrossCorrelation])
def test_a_soft_spline_does_not_fold(misfit: Misfit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two volumes that have nothing in common, and next to no bending energy."""
    generator = torch.Generator().manual_seed(0)
    f, g = (smoothed(torch.randn(GRID.shape, generator=generator), GRID, 4.0) for _ in range(2))
    spline = BSpline.over(GRID, (6, 6, 6))
    settings = Settings(stages=stages("bspline:5,5,5", n_steps=1))
    settings = replace(settings, priors=replace(settings.priors, bending=1e-9))

    def registered() -> int:
        start = Motion(spline, spline.identity())
        found = register_once(
            f,
            g,
            grid=GRID,
            moving_grid=GRID,
            transform=spline,
            settings=settings,
            start=start,
            misfit=misfit,
        )
        return folding(found.motion, GRID).n_folded

    assert registered() == 0
    monkeypatch.setattr("duotomo.objectives.priors.folding.FoldingPenalty.value", lambda self, x: math.inf)
    assert registered() > 10


@pytest.mark.parametrize("model", [BSpline.spaced(25.0), chain(Affine, BSpline.spaced(25.0))])
def test_control_points_come_after_stiff_models(model: Model) -> None:
    grid = VolumeGrid.on_detector((66, 66, 110), (1.0, 1.0, 1.0))
    found = registration_stages(Settings.staged(grid, model))
    models = [stage.model for stage in found]
    assert models.index(Affine) > 0
    assert models[-2:] == [model, model]
    assert [stage.coarsen for stage in found[-2:]] == [(2, 2, 2), (1, 1, 1)]
    assert found[-2].stiffness > found[-1].stiffness == 1
    # Nothing is computed twice.
    assert len({(stage.coarsen, stage.model) for stage in found}) == len(found)


def test_a_spline_is_found_in_few_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smooth deformation of a smooth volume, from the identity."""
    generator = torch.Generator().manual_seed(0)
    f = smoothed(torch.randn(GRID.shape, generator=generator), GRID, 4.0)
    spline = BSpline.over(GRID, (5, 5, 5))
    true = Motion(spline, 0.4 * torch.randn(spline.n_params, generator=generator, dtype=torch.float64))
    n_warps = 0
    warp = BSpline.warp

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal n_warps
        n_warps += 1
        return warp(*args, **kwargs)  # type: ignore[arg-type]

    moved = true.warp(GRID, GRID, cubic=True)(f)
    settings = Settings(stages=stages("bspline:5,5,5", n_steps=1))
    settings = replace(settings, priors=replace(settings.priors, bending=1e-9))
    monkeypatch.setattr(BSpline, "warp", counted)
    found = register_once(
        f,
        moved,
        grid=GRID,
        moving_grid=GRID,
        transform=spline,
        settings=settings,
        start=Motion(spline, spline.identity()),
        n_steps=10,
        misfit=SumOfSquares,
    )
    off = (found.motion.displacement(GRID) - true.displacement(GRID)).norm(dim=0)
    inner = (slice(2, -2),) * 3
    assert float(off[inner].mean()) < 0.05 * float(true.displacement(GRID).norm(dim=0).mean())
    # One for the value and one for the slopes, of every step and of the start.
    assert n_warps <= 2 * 11 + 1
