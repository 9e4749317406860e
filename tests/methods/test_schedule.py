"""The schedule: stiff models and coarse grids first, the volume at full resolution last."""

from __future__ import annotations

from itertools import pairwise

import pytest

from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Stage
from duotomo.methods.schedule import (
    FIRST_STEPS,
    JUDGED_MM,
    LARGEST_MM,
    LAST_STEPS,
    LATTICE_STEPS,
    LEVEL_STEPS,
    VOXELS_PER_INTERVAL,
    pyramid,
)
from duotomo.transforms import Affine, BSpline, Model, Rigid, Translation, Velocity, chain, model_name

GRIDS = {
    "1 mm": VolumeGrid.on_detector((40, 100, 120), (1.0, 1.0, 1.0)),
    "3 mm": VolumeGrid.on_detector((18, 34, 40), (3.0, 3.0, 3.0)),
    "clinical": VolumeGrid.on_detector((40, 300, 240), (1.0, 0.25, 0.25)),
    "one level": VolumeGrid.on_detector((12, 12, 12), (4.0, 4.0, 4.0)),
}
STIFF: tuple[Model, ...] = (Translation, Rigid, Affine)
SOFT: tuple[Model, ...] = (
    BSpline.spaced(25.0),
    BSpline.shaped((5, 5, 5)),
    Velocity.spaced(30.0),
    chain(Affine, BSpline.spaced(30.0)),
)

each_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=list(GRIDS))
each_model = pytest.mark.parametrize("model", [*STIFF, *SOFT], ids=model_name)


def moving(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the stages that estimate a motion."""
    return tuple(stage for stage in stages if stage.model is not None)


@pytest.mark.parametrize("n_steps", [1, 30, 300])
@each_grid
@each_model
def test_it_ends_with_the_volume_at_full_resolution(grid: VolumeGrid, model: Model, n_steps: int) -> None:
    stages = Settings.staged(grid, model, n_steps=n_steps).stages
    *_, motion, last = stages
    assert (last.coarsen, last.model, last.n_steps) == ((1, 1, 1), None, n_steps)
    assert (motion.coarsen, motion.model) == ((1, 1, 1), model)
    few = model(grid).control_spacing_mm is None
    assert motion.n_steps == min(n_steps, LAST_STEPS if few else LEVEL_STEPS)
    # Only there is the motion held, and there is nothing to begin anew.
    assert [stage.model is None for stage in stages[:-1]] == [False] * (len(stages) - 1)
    assert not last.fresh


@each_grid
@each_model
def test_models_soften_and_grids_refine(grid: VolumeGrid, model: Model) -> None:
    stages = Settings.staged(grid, model).stages
    order = [*STIFF, model]
    softness = [order.index(stage.model) for stage in moving(stages) if stage.model is not None]
    assert softness == sorted(softness)
    assert stages[0].model == Translation
    levels = pyramid(grid)
    ranks = [levels.index(stage.coarsen) for stage in stages]
    assert ranks == sorted(ranks)
    # No level is left out.
    assert set(ranks) == set(range(len(levels)))
    most = {FIRST_STEPS, LATTICE_STEPS, LEVEL_STEPS, LAST_STEPS}
    assert {stage.n_steps for stage in moving(stages)} <= most


@each_grid
@each_model
def test_a_model_begins_with_a_volume_of_its_own(grid: VolumeGrid, model: Model) -> None:
    """A volume made with another motion holds that motion in place."""
    stages = Settings.staged(grid, model).stages
    assert not stages[0].fresh
    for before, after in pairwise(moving(stages)):
        if before.model != after.model:
            assert after.fresh


@each_grid
@pytest.mark.parametrize("model", SOFT, ids=model_name)
def test_control_points_are_stiff_first(grid: VolumeGrid, model: Model) -> None:
    stages = [stage for stage in Settings.staged(grid, model).stages if stage.model == model]
    stiffness = [stage.stiffness for stage in stages]
    assert stiffness[:3] == [10.0, 3.0, 1.0]
    assert set(stiffness[3:]) <= {1.0}
    assert len({stage.coarsen for stage in stages[:3]}) == 1
    # They begin where there are enough voxels between them, or at full resolution.
    interval_mm = model(grid).control_spacing_mm
    assert interval_mm is not None
    edges = [spacing * factor for spacing, factor in zip(grid.spacing_mm, stages[0].coarsen, strict=True)]
    enough = all(e * VOXELS_PER_INTERVAL <= i for e, i in zip(edges, interval_mm, strict=True))
    assert enough or stages[0].coarsen == (1, 1, 1)


@each_grid
def test_an_affine_motion_is_refined_where_the_data_can_judge_it(grid: VolumeGrid) -> None:
    stages = Settings.staged(grid, BSpline.spaced(22.0)).stages
    *_, last = (stage for stage in stages if stage.model is Affine)
    edge_mm = max(spacing * factor for spacing, factor in zip(grid.spacing_mm, last.coarsen, strict=True))
    assert edge_mm <= JUDGED_MM or last.coarsen == (1, 1, 1)


@each_grid
def test_the_coarsest_level_is_not_coarser_than_needed(grid: VolumeGrid) -> None:
    levels = pyramid(grid)
    shortest = [min(s * f for s, f in zip(grid.spacing_mm, level, strict=True)) for level in levels]
    assert max(shortest) <= LARGEST_MM
    for coarse, fine in pairwise(shortest):
        assert 1.5 * fine <= coarse <= 2.5 * fine


def test_models_that_come_before_can_be_named() -> None:
    grid = GRIDS["3 mm"]
    stages = Settings.staged(grid, Affine, through=()).stages
    assert {stage.model for stage in moving(stages)} == {Affine}
    named = Settings.staged(grid, BSpline.spaced(25.0), through=(Rigid,)).stages
    assert [model_name(m) for m in dict.fromkeys(one.model for one in moving(named)) if m] == [
        "rigid",
        "bspline:25mm",
    ]
