"""Every experiment is set up as it says, and its bodies stay where they are seen."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Alternating, Coupled
from duotomo.reproduction import EXPERIMENTS, DataLevel, Experiment, Plan
from duotomo.reproduction.case import acquisition_covering
from duotomo.reproduction.motions import published_motion
from duotomo.reproduction.table import FAMILIES, ORIGINS
from duotomo.reproduction.toroid import N_MOTIONS, acquisition_of, grid_of, phantom_of, random_motion
from duotomo.transforms import Affine

MADE = [
    (experiment, level)
    for experiment in EXPERIMENTS.values()
    for level in (DataLevel.AS_PUBLISHED, DataLevel.HONEST)
]
IDS = [f"{experiment.name}-{level.value}" for experiment, level in MADE]


def test_experiments_go_by_their_names() -> None:
    assert list(EXPERIMENTS) == [one.name for one in EXPERIMENTS.values()]
    assert len(EXPERIMENTS) == 6
    for one in EXPERIMENTS.values():
        assert one.levels == tuple(DataLevel)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(("experiment", "level"), MADE, ids=IDS)
def test_set_ups_are_whole(experiment: Experiment, level: DataLevel, quick: bool) -> None:
    set_up = experiment.set_up(Plan(level=level, quick=quick))
    assert 1 <= set_up.shown <= set_up.n_cases
    names = [method.name for method in set_up.methods]
    assert len(set(names)) == len(names)
    assert {method.family for method in set_up.methods} <= set(FAMILIES)
    assert {method.origin for method in set_up.methods} <= set(ORIGINS)
    assert ("ours", "simultaneous") in {(method.origin, method.family) for method in set_up.methods}
    assert json.loads(json.dumps(set_up.about)) == set_up.about
    # The paper's own algorithms are plain, ours are coupled.
    for method in set_up.methods:
        assert isinstance(method.settings.solver, Alternating if method.origin == "paper" else Coupled)
        assert method.settings.initial_guess == (method.origin == "ours")


def test_a_level_that_an_experiment_has_not_is_refused() -> None:
    without = replace(EXPERIMENTS["inner-outer"], levels=(DataLevel.AS_PUBLISHED, DataLevel.HONEST))
    message = "inner-outer: expected one of the levels as-published, honest; got real"
    with pytest.raises(DuotomoError, match=message):
        without.set_up(Plan(level=DataLevel.REAL))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_real_data_are_asked_for_before_anything_is_computed(name: str) -> None:
    with pytest.raises(DuotomoError, match=f"{name}: expected a folder with third-party data"):
        EXPERIMENTS[name].set_up(Plan(level=DataLevel.REAL, quick=True))


@pytest.mark.parametrize("quick", [True, False])
def test_the_honest_toroid_stays_in_its_cube(quick: bool) -> None:
    body = phantom_of(fills_the_cube=False).body
    assert body is not None
    directions = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    directions /= directions.norm(dim=1, keepdim=True)
    skin_mm = torch.tensor(body.center_mm) + directions * torch.tensor(body.radii_mm)  # type: ignore[union-attr]
    grid = grid_of(2.0 if quick else 1.0)
    low, high = (torch.tensor(corner[::-1]) for corner in (grid.low_mm, grid.high_mm))
    transform = Affine(grid_of(1.0))
    for motion in (published_motion(transform), *(random_motion(k) for k in range(1, N_MOTIONS + 1))):
        moved_mm = motion.inverse().points(skin_mm)
        assert (moved_mm > low).all()
        assert (moved_mm < high).all()


@pytest.mark.parametrize("spacing_mm", [1.0, 2.0])
def test_no_view_of_the_toroid_is_cut_off(spacing_mm: float) -> None:
    assert_caught(grid_of(spacing_mm), acquisition_of(spacing_mm))


@pytest.mark.parametrize("shape", [(60, 140, 128), (30, 20, 90)])
def test_no_view_of_a_breast_is_cut_off(shape: tuple[int, int, int]) -> None:
    grid = VolumeGrid.on_detector(shape, (0.5, 0.5, 0.5), gap_mm=5.0)
    acquisition = acquisition_covering(grid)
    assert acquisition.n_views == 11
    assert_caught(grid, acquisition)


def assert_caught(grid: VolumeGrid, acquisition: Acquisition) -> None:
    """Every corner of the grid is projected onto the detector, in every view."""
    n_v, n_u = acquisition.detector_shape
    height_mm, width_mm = acquisition.pixel_spacing_mm
    corners = np.array(list(product(*zip(grid.low_mm, grid.high_mm, strict=True))))[:, ::-1]
    for source in np.asarray(acquisition.sources_mm):
        along = source[2] / (source[2] - corners[:, 2:])
        footprint = source + along * (corners - source)
        assert np.abs(footprint[:, 0]).max() <= n_u * width_mm / 2
        assert footprint[:, 1].max() <= n_v * height_mm
        assert footprint[:, 1].min() >= -1e-9


def test_quick_toroids_move_like_full_ones_and_are_noisy_only_when_honest() -> None:
    cases = {
        level: EXPERIMENTS["toroid-simultaneous"].set_up(Plan(level=level, quick=True)).make(2)
        for level in (DataLevel.AS_PUBLISHED, DataLevel.HONEST)
    }
    for case in cases.values():
        assert torch.equal(case.motion.params, random_motion(2).params)
        assert case.about["motion_seed"] == 1001
    assert "noise_seed" not in cases[DataLevel.AS_PUBLISHED].about
    assert cases[DataLevel.HONEST].about["noise_seed"] == 2
    assert all(case.truth.min() == 0 for case in cases.values()), "air around the body"


def test_tissue_fills_the_cube_of_the_large_motion_as_published() -> None:
    large = EXPERIMENTS["toroid-iterative"]
    assert large.set_up(Plan(level=DataLevel.AS_PUBLISHED, quick=True)).make(1).truth.min() > 0.04
    assert large.set_up(Plan(level=DataLevel.HONEST, quick=True)).make(1).truth.min() == 0


def test_the_breast_in_air_stays_in_the_grid_of_the_moving_visit() -> None:
    set_up = EXPERIMENTS["breast-mr"].set_up(Plan(level=DataLevel.HONEST, quick=True))
    for number in range(1, set_up.n_cases + 1):
        moved = set_up.make(number).moved
        walls = [moved.movedim(axis, 0)[end] for axis, end in product(range(3), (0, -1))]
        assert max(float(wall.max()) for wall in walls) < 1e-3 * float(moved.max())


def test_the_inner_and_outer_steps_are_of_one_total() -> None:
    set_up = EXPERIMENTS["inner-outer"].set_up(Plan(level=DataLevel.HONEST))
    totals = set()
    for method in set_up.methods:
        if method.origin == "paper":
            solver = method.settings.solver
            assert isinstance(solver, Alternating)
            n_turns = method.settings.stages[0].n_steps // solver.volume_steps
            totals.add(n_turns * (solver.volume_steps + solver.motion_steps))
    assert totals == {1000}
    assert len(set_up.methods) == 9
