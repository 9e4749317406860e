"""One volume and the motion of all visits: found without noise, whatever the visits are like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.methods import (
    Alternating,
    Coupled,
    Priors,
    Result,
    Settings,
    Stage,
    Study,
    sequential,
    simultaneous,
    with_known_motion,
)
from duotomo.methods.level import Basis
from duotomo.operators import SplineBasis
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Velocity, chain
from tests.cases.scans import arc
from tests.cases.studies import GRID, SCAN, seen, shifted, study, truth
from tests.methods.runs import SHIFT, TURN, VOXEL_MM, error_mm, short, stages

OTHER_SCAN = arc((24, 36), (2.5, 2.0), n_views=9, degrees=40, tilt_deg=4, source_to_detector_mm=700.0)
OTHER_GRID = VolumeGrid(shape=(17, 15, 18), spacing_mm=(2.5, 3.0, 3.0), center_mm=(25.0, 22.0, -4.0))

BASES: list[Basis] = ["voxel", "spline"]


def settings(*models: str, coupled: bool = True, initial_guess: bool = True) -> Settings:
    return Settings(
        stages=stages(*models, n_steps=40 if coupled else 8),
        solver=Coupled() if coupled else Alternating(),
        initial_guess=initial_guess,
    )


@pytest.mark.parametrize(
    ("motion", "models", "initial_guess", "coupled"),
    [
        (SHIFT, ("translation",), False, True),
        (SHIFT, ("translation",), True, False),
        (TURN, ("translation", "rigid"), True, True),
        (TURN, ("translation", "rigid"), True, False),
    ],
)
def test_motion_is_found(motion: Motion, models: tuple[str, ...], initial_guess: bool, coupled: bool) -> None:
    found = simultaneous(
        study(motion, finer=3), settings(*models, coupled=coupled, initial_guess=initial_guess)
    )
    error = error_mm(found.motions[0], motion)
    assert error < 0.3 * VOXEL_MM < error_mm(shifted(0.0, 0.0, 0.0), motion) / 5
    assert found.grid == GRID
    assert found.volume.dtype == torch.float32


def test_three_visits() -> None:
    motions = (SHIFT, shifted(-4.0, 2.0, -3.0))
    found = simultaneous(study(*motions, finer=3), settings("translation"))
    for got, motion in zip(found.motions, motions, strict=True):
        assert error_mm(got, motion) < 0.3 * VOXEL_MM


def test_visits_on_other_machines_and_grids() -> None:
    motion = shifted(5.0, -3.0, 4.0, grid=OTHER_GRID)
    visits = (seen(finer=3), seen(motion, acquisition=OTHER_SCAN, grid=OTHER_GRID, finer=3))
    found = simultaneous(Study(grid=GRID, visits=visits), settings("translation", "rigid"))
    assert found.motions[0].transform.grid == OTHER_GRID
    assert error_mm(found.motions[0], motion) < 0.3 * VOXEL_MM


@pytest.mark.parametrize("coupled", [True, False])
def test_double_precision(coupled: bool) -> None:
    found = simultaneous(study(SHIFT, dtype=torch.float64, finer=3), settings("translation", coupled=coupled))
    assert found.volume.dtype == torch.float64
    assert error_mm(found.motions[0], SHIFT) < 0.1 * VOXEL_MM


def test_rays_without_weight_do_not_matter() -> None:
    """Data that are spoilt where the weights are zero give the same result, bit for bit."""
    of = study(SHIFT, finer=3)
    visits: list[list[object]] = [[], []]
    for visit in of.visits:
        weights = torch.full_like(visit.projections, 1e4)
        weights[:, 5:7] = 0.0
        spoilt = torch.where(weights > 0, visit.projections, torch.full_like(weights, 9.0))
        for kind, views in zip(visits, (visit.projections, spoilt), strict=True):
            kind.append(replace(visit, projections=views, weights=weights))
    clean, dirty = (simultaneous(replace(of, visits=tuple(v)), settings("translation")) for v in visits)
    assert error_mm(clean.motions[0], SHIFT) < 0.3 * VOXEL_MM
    assert torch.equal(dirty.motions[0].params, clean.motions[0].params)


def test_the_second_visit_makes_the_volume_better() -> None:
    """Under either weight; and with the lower one, the default, both volumes are better."""
    of, errors = study(TURN, finer=3), {}
    for weight in (Priors().total_variation, 0.2):
        fixed = Settings(stages=stages(None, n_steps=60), priors=Priors(total_variation=weight))
        one = with_known_motion(replace(of, visits=of.visits[:1]), fixed, [])
        both = with_known_motion(of, fixed, [TURN])
        # At the resolution of the spline: finer detail of the balls no volume of the grid has.
        errors[weight] = [float(SplineBasis(GRID)(result.volume - truth()).norm()) for result in (one, both)]
        assert both.motions == (TURN,)
    (one_now, both_now), (one_then, both_then) = errors.values()
    assert both_then < 0.85 * one_then
    assert both_now < 0.93 * one_now
    assert both_now < 0.85 * both_then
    assert one_now < 0.85 * one_then


def test_splines_find_a_motion_that_voxels_blur() -> None:
    """Both see balls that moved between voxels; linear interpolation smooths what it moves."""
    errors = {}
    for basis in BASES:
        found = simultaneous(study(TURN, finer=3), replace(settings("translation", "rigid"), basis=basis))
        errors[basis] = error_mm(found.motions[0], TURN)
    assert errors["spline"] < 0.7 * errors["voxel"] < 0.3 * VOXEL_MM


@pytest.mark.parametrize("solver", [Coupled(block=7), Alternating(volume_steps=3, block=2)])
@pytest.mark.parametrize("model", ["rigid", "bspline:4,4,4"])
def test_no_step_raises_the_objective(solver: Coupled | Alternating, model: str) -> None:
    """Steps on the volume and steps on the motion are measured by one objective."""
    found = simultaneous(
        study(TURN), Settings(stages=stages(model, n_steps=6), solver=solver, initial_guess=False)
    )
    values = [record.objective for record in found.history]
    # The weight of the bending energy is set anew for each block.
    free = 1e-4 if model == "rigid" else 1e-2
    assert all(after <= before * (1 + free) for before, after in pairwise(values))
    assert values[-1] < 0.5 * values[0]


def test_the_papers_algorithm_runs_to_the_letter() -> None:
    plain = Settings.plain(Rigid, n_turns=4)
    found = simultaneous(study(TURN), plain)
    values = [record.objective for record in found.history]
    assert all(after <= before * (1 + 1e-5) for before, after in pairwise(values))
    assert values[-1] < 0.1 * values[0]
    assert found.status is Status.STEP_LIMIT


def test_stages_start_anew_where_they_say_so() -> None:
    first, last = stages(None, n_steps=5)[0], stages(None, n_steps=9)[0]
    of = study(TURN)
    anew = with_known_motion(of, Settings(stages=(first, replace(last, fresh=True))), [TURN])
    alone = with_known_motion(of, Settings(stages=(last,)), [TURN])
    assert torch.equal(anew.volume, alone.volume)


def test_a_schedule_needs_a_model_or_a_motion() -> None:
    with pytest.raises(
        DuotomoError, match="expected a model in the first stage, or a known motion; got neither"
    ):
        simultaneous(study(SHIFT), Settings(stages=stages(None, "rigid", n_steps=3)))
    assert simultaneous(study(), Settings(stages=stages(None, n_steps=3))).motions == ()


def test_a_moving_grid_elsewhere_is_refused() -> None:
    beside = replace(GRID, center_mm=(GRID.center_mm[0], GRID.center_mm[1], 55.0))
    wide = replace(SCAN, detector_shape=(16, 80))
    views = torch.ones(wide.shape)
    visit = replace(seen(), projections=views, acquisition=wide, grid=beside)
    of = Study(grid=GRID, visits=(seen(), visit))
    with pytest.raises(
        GeometryError, match="Study, visit 2: expected its grid to meet that of the reference"
    ):
        simultaneous(of, replace(short(), initial_guess=False))
    with pytest.raises(GeometryError, match="expected the moving grid to land on the reference grid"):
        with_known_motion(of, short(), [shifted(0.0, 0.0, 0.0, grid=beside)])


SOFT: list[Model] = [chain(Affine, BSpline.shaped((4, 4, 4))), Velocity.shaped((4, 4, 4))]


@pytest.mark.parametrize(
    ("method", "model"),
    [
        (simultaneous, SOFT[0]),
        (simultaneous, SOFT[1]),
        (sequential, SOFT[0]),
        # A registration integrates the flow for each of many hundred products: minutes.
        pytest.param(sequential, SOFT[1], marks=pytest.mark.slow),
    ],
    ids=["simultaneous-chain", "simultaneous-velocity", "sequential-chain", "sequential-velocity"],
)
def test_any_transform_can_be_the_model(model: Model, method: Callable[..., Result]) -> None:
    schedule = (
        *stages("translation", n_steps=20, coarsen=2),
        Stage(coarsen=(1, 1, 1), model=model, n_steps=40),
    )
    found = method(study(SHIFT, finer=3), Settings(stages=schedule))
    assert isinstance(found.motions[0].transform, type(model(GRID)))
    assert error_mm(found.motions[0], SHIFT) < 0.6 * VOXEL_MM
