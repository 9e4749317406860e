"""Settings that cannot run are refused where they are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from duotomo import methods
from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Alternating, Coupled, Model, Priors, Settings, Stage, Study, Visit
from duotomo.methods.settings import pyramid

GRID = VolumeGrid.on_detector((40, 44, 48), (1.0, 1.0, 1.0))
ONE_VIEW = Acquisition.arc(
    n_views=1,
    angle_range_rad=0.0,
    source_to_detector_mm=660.0,
    pivot_height_mm=0.0,
    detector_shape=(8, 8),
    pixel_spacing_mm=(1.0, 1.0),
)
MODELS = ["translation", "rigid", "affine", "bspline:5,5,5"]


@pytest.mark.parametrize("name", ["total_variation", "smoothing", "depth_weight", "bending", "least_noise"])
@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_weights_of_priors_are_finite_and_not_negative(name: str, value: float) -> None:
    with pytest.raises(DuotomoError, match=f"Priors: expected {name} >= 0 and finite; got {value}"):
        Priors(**{name: value})


def test_total_variation_needs_smoothing() -> None:
    with pytest.raises(DuotomoError, match="expected smoothing > 0 with total_variation; got 0"):
        Priors(smoothing=0.0)
    assert Priors(smoothing=0.0, total_variation=0.0).smoothing == 0.0


def test_there_is_a_stage() -> None:
    with pytest.raises(DuotomoError, match=r"expected at least one stage; got none\. Use Settings\.staged"):
        Settings(stages=())


@pytest.mark.parametrize(
    ("make", "fields", "name"),
    [
        (Stage, {"coarsen": (1, 1, 1), "model": None, "n_steps": 0}, "n_steps"),
        (Stage, {"coarsen": (1, 0, 1), "model": None, "n_steps": 1}, "coarsen_y"),
        (Coupled, {"memory": 0}, "memory"),
        (Coupled, {"block": 2.5}, "block"),
        (Alternating, {"volume_steps": -1}, "volume_steps"),
        (Alternating, {"motion_steps": 0}, "motion_steps"),
        (Alternating, {"block": 0}, "block"),
    ],
)
def test_counts_are_whole_and_positive(make: Any, fields: dict[str, Any], name: str) -> None:
    where = make.__name__
    with pytest.raises(DuotomoError, match=f"{where}: expected {name} as a whole number >= 1; got "):
        make(**fields)


@pytest.mark.parametrize("text", MODELS)
def test_the_schedule_softens_and_ends_with_the_model_at_full_resolution(text: str) -> None:
    model = Model.parse(text)
    settings = Settings.staged(GRID, model)
    ladder = ["translation", "rigid", "affine", "bspline"]
    softness = [ladder.index(stage.model.name) for stage in settings.stages if stage.model is not None]
    assert softness == sorted(softness)
    assert (settings.stages[-1].coarsen, settings.stages[-1].model) == ((1, 1, 1), model)
    assert {stage.coarsen for stage in settings.stages} <= set(pyramid(GRID))
    # Every volume on a coarser grid than the last one is made anew: there is no way to average it.
    for before, after in zip(settings.stages, settings.stages[1:], strict=False):
        assert after.fresh or after.coarsen <= before.coarsen


@pytest.mark.parametrize("text", MODELS)
def test_settings_print_as_what_makes_them(text: str) -> None:
    for settings in (Settings.staged(GRID, Model.parse(text)), Settings.plain(Model.parse(text))):
        assert eval(repr(settings), vars(methods)) == settings


def test_a_known_motion_leaves_only_the_volume_to_find() -> None:
    settings = Settings.staged(GRID, Model("affine"))
    fixed = settings.with_known_motion()
    assert all(stage.model is None for stage in fixed.stages)
    assert [stage.coarsen for stage in fixed.stages] == [stage.coarsen for stage in settings.stages]


def test_only_studies_of_two_visits_have_a_rigid_stage() -> None:
    visit = Visit(projections=torch.ones(1, 8, 8), acquisition=ONE_VIEW)
    for n_visits, expected in ((2, True), (3, False)):
        study = Study(grid=GRID, visits=(visit,) * n_visits)
        models = [stage.model for stage in Settings.for_study(study, Model("affine")).stages]
        assert (Model("rigid") in models) is expected
        assert models[0] == Model("translation")
        assert models[-1] == Model("affine")
