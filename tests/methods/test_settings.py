"""Settings that cannot run are refused where they are made."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from duotomo import methods, transforms
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods import (
    Alternating,
    Coupled,
    Priors,
    Settings,
    Stage,
    Study,
    Visit,
    settings_from_dict,
    settings_to_dict,
)
from duotomo.methods.schedule import pyramid
from duotomo.transforms import Affine, BSpline, Model, Rigid, Translation, Velocity, chain, model_name
from tests.cases.scans import arc
from tests.methods.runs import MODELS

GRID = VolumeGrid.on_detector((40, 44, 48), (1.0, 1.0, 1.0))
ONE_VIEW = arc((8, 8), 1.0, n_views=1, degrees=0)
NAMES = ["translation", "rigid", "affine", "bspline:5,5,5"]


@pytest.mark.parametrize(
    "name", ["total_variation", "smoothing", "depth_weight", "bending", "least_noise", "offset"]
)
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


@pytest.mark.parametrize("text", NAMES)
def test_settings_print_as_what_makes_them(text: str) -> None:
    for settings in (Settings.staged(GRID, MODELS[text]), Settings.plain(MODELS[text])):
        assert eval(repr(settings), {**vars(transforms), **vars(methods)}) == settings


@pytest.mark.parametrize("text", NAMES)
def test_a_known_motion_leaves_only_the_volume_to_find(text: str) -> None:
    """Once at each resolution, with the most steps that it had there; voxels keep all stages."""
    settings = Settings.staged(GRID, MODELS[text])
    fixed = settings.with_known_motion()
    assert all(stage.model is None for stage in fixed.stages)
    assert [stage.coarsen for stage in fixed.stages] == pyramid(GRID)
    for stage in fixed.stages:
        assert stage.n_steps == max(one.n_steps for one in settings.stages if one.coarsen == stage.coarsen)
    voxels = replace(settings, basis="voxel").with_known_motion()
    assert voxels.stages == tuple(replace(stage, model=None) for stage in settings.stages)


def test_only_studies_of_two_visits_have_a_rigid_stage() -> None:
    for n_visits, expected in ((2, True), (3, False)):
        models = [stage.model for stage in Settings.for_study(one_view_study(n_visits), Affine).stages]
        assert (Rigid in models) is expected
        assert models[0] == Translation
        assert models[-2:] == [Affine, None]


def one_view_study(n_visits: int = 2) -> Study:
    visit = Visit(projections=torch.ones(1, 8, 8), acquisition=ONE_VIEW)
    return Study(grid=GRID, visits=(visit,) * n_visits)


@pytest.mark.parametrize("n_visits", [2, 3])
def test_automatic_settings_hold_two_schedules_that_begin_alike(n_visits: int) -> None:
    settings = Settings.automatic(one_view_study(n_visits), n_steps=70)
    stiff = Settings.for_study(one_view_study(n_visits), Affine, n_steps=70)
    assert settings.stiffer == stiff.stages
    assert settings.without_choice == stiff
    assert stiff.without_choice is stiff
    assert settings.with_known_motion().stiffer == ()
    pairs = list(zip(settings.stages, settings.stiffer, strict=False))
    alike = [(a.coarsen, a.model) == (b.coarsen, b.model) for a, b in pairs]
    first = alike.index(False)
    assert first >= 2
    assert settings.stages[first].model == BSpline.spaced(22.0)
    assert settings_from_dict(json.loads(json.dumps(settings_to_dict(settings)))) == settings


CHAINS = [chain(Affine, BSpline.spaced(30.0)), Velocity.spaced(30.0), BSpline.shaped((4, 5, 6))]


@pytest.mark.parametrize("model", [*MODELS.values(), *CHAINS], ids=model_name)
def test_settings_survive_json(model: Model) -> None:
    chosen = (
        Settings.staged(GRID, model, priors=Priors(bending=0.25)),
        Settings.plain(model, n_turns=7),
        Settings.staged(GRID, model, solver=Alternating(volume_steps=4)).with_known_motion(),
    )
    for settings in chosen:
        written = json.dumps(settings_to_dict(settings), sort_keys=True)
        assert settings_from_dict(json.loads(written)) == settings


def test_other_settings_have_other_dictionaries() -> None:
    settings = Settings.staged(GRID, Affine)
    others = [
        replace(settings, tolerance=1e-4),
        replace(settings, initial_guess=False),
        replace(settings, stages=settings.stages[1:]),
        replace(settings, priors=Priors(smoothing=0.02)),
        replace(settings, solver=Alternating()),
        replace(settings, basis="voxel"),
        replace(settings, stiffer=settings.stages[:2]),
        replace(settings, priors=Priors(offset=0.0)),
        Settings.staged(GRID, Rigid),
    ]
    texts = {json.dumps(settings_to_dict(one), sort_keys=True) for one in (settings, *others)}
    assert len(texts) == 1 + len(others)


def test_settings_of_a_newer_version_are_refused() -> None:
    content = settings_to_dict(Settings.plain(Affine)) | {"version": 3}
    with pytest.raises(
        DuotomoError, match=r"expected settings of version 2; got version 3\. Use the duotomo"
    ):
        settings_from_dict(content)


def test_unknown_transforms_and_solvers_are_refused_with_those_known() -> None:
    content = settings_to_dict(Settings.plain(Affine))
    content["stages"][0]["model"] = {"transform": "elastic"}
    known = r"translation, rigid, affine, bspline, velocity, chain, recompression; got 'elastic'"
    with pytest.raises(DuotomoError, match=r"expected a transform of " + known):
        settings_from_dict(content)
    assert settings_from_dict(content, models={"elastic": Rigid}).stages[0].model is Rigid
    content = settings_to_dict(Settings.plain(Affine)) | {"solver": {"kind": "annealing"}}
    with pytest.raises(DuotomoError, match=r"expected a solver of coupled, alternating; got 'annealing'"):
        settings_from_dict(content)
    content = settings_to_dict(Settings.plain(Affine)) | {"solver": {"kind": "coupled", "speed": 1}}
    with pytest.raises(
        DuotomoError, match=r"expected settings as settings_to_dict writes them; got: TypeError"
    ):
        settings_from_dict(content)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"stages": None}, "stages: Input should be a valid list"),
        ({"stages": [{"coarsen": [1, 1]}]}, "stages.0.coarsen: List should have at least 3"),
        ({"priors": {"bending": -1.0}}, "priors.bending: Input should be greater"),
        ({"tolerance": float("inf")}, "tolerance: Input should be less"),
        ({"initial_guess": "yes"}, "initial_guess: Input should be a valid boolean"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_values_that_no_settings_have_are_refused(change: dict[str, object], at: str) -> None:
    content = settings_to_dict(Settings.plain(Affine)) | change
    with pytest.raises(DuotomoError, match=rf"as settings_to_dict writes them; got {at}"):
        settings_from_dict(content)


def test_a_model_is_no_name() -> None:
    with pytest.raises(
        DuotomoError, match=r"Stage: expected a model that builds a transform .* got 'affine'"
    ):
        Stage(coarsen=(1, 1, 1), model="affine", n_steps=1)  # type: ignore[arg-type]


def test_the_stages_before_a_chain_lead_to_its_first_part() -> None:
    stages = Settings.staged(GRID, chain(Rigid, BSpline.spaced(30.0))).stages
    names = list(dict.fromkeys(model_name(stage.model) for stage in stages if stage.model is not None))
    assert names == ["translation", "rigid", "rigid+bspline:30mm"]


def test_settings_of_before_0_2_have_voxels_and_known_exposures() -> None:
    content = settings_to_dict(Settings.staged(GRID, Affine))
    for name in ("basis", "stiffer"):
        del content[name]
    del content["priors"]["offset"]
    found = settings_from_dict(content)
    assert (found.basis, found.stiffer, found.priors.offset) == ("voxel", (), 0.0)
