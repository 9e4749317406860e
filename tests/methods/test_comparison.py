"""Beside a result, each visit alone: made as the result was, and seen in one frame."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch

from duotomo.methods import (
    Coupled,
    Priors,
    Settings,
    Stage,
    iterative,
    resample_to_reference,
    sequential,
    simultaneous,
    with_known_motion,
)
from duotomo.methods.comparison import visits_wanted, volume_stages, with_visits_alone
from duotomo.methods.sequential import one_visit
from duotomo.solvers import Status, Step
from duotomo.transforms import BSpline, Motion, Translation, folding
from tests.cli.tiny import GRID, tiny_study

SETTINGS = Settings(
    stages=(
        Stage(coarsen=(2, 2, 2), model=Translation, n_steps=10),
        Stage(coarsen=(2, 2, 2), model=None, n_steps=5, fresh=True),
        Stage(coarsen=(1, 1, 1), model=Translation, n_steps=8),
    ),
    solver=Coupled(block=20, memory=5),
    priors=Priors(),
)


def test_each_visit_alone_stands_beside_the_joint_volume() -> None:
    study = tiny_study()
    joint = simultaneous(study, SETTINGS)
    steps: list[Step] = []
    found = with_visits_alone(study, SETTINGS, joint, on_step=steps.append)
    assert list(found.others) == ["visit_1", "visit_2", "visit_2_registered"]
    assert torch.equal(found.volume, joint.volume)
    short = replace(SETTINGS, stages=volume_stages(SETTINGS))
    for number in (1, 2):
        alone = with_known_motion(one_visit(study, number - 1), short, ()).volume
        assert torch.equal(found.others[f"visit_{number}"], alone)
    seen = resample_to_reference(found.others["visit_2"], joint.motions[0], grid=GRID, moving_grid=GRID)
    assert torch.equal(found.others["visit_2_registered"], seen)
    stages = [record.stage for record in steps]
    assert stages == sorted(stages)
    assert set(stages) == {0, 1, 2, 3}
    assert steps[0].what.startswith("visit 1 alone, volume at ")


def test_a_motion_that_folds_has_its_volumes_whatever_becomes_of_warnings() -> None:
    study = tiny_study()
    spline = BSpline.over(GRID, (5, 5, 5))
    coefficients_mm = torch.zeros(3, *spline.lattice.shape, dtype=torch.float64)
    coefficients_mm[0, 2, 2, 2] = 100.0
    torn = Motion(spline, spline.params(coefficients_mm=coefficients_mm))
    assert folding(torn, GRID).n_folded > 0
    joint = replace(simultaneous(study, replace(SETTINGS, stages=SETTINGS.stages[:1])), motions=(torn,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = with_visits_alone(study, SETTINGS, joint)
    assert list(found.others) == ["visit_1", "visit_2", "visit_2_registered"]
    assert bool(torch.isfinite(found.others["visit_2_registered"]).all())


def test_what_a_method_has_made_is_kept() -> None:
    study = tiny_study()
    one_by_one = sequential(study, SETTINGS)
    assert visits_wanted(study, one_by_one) == []
    found = with_visits_alone(study, SETTINGS, one_by_one)
    assert torch.equal(found.others["visit_1"], one_by_one.volume)
    assert torch.equal(found.others["visit_2"], one_by_one.others["visit_2"])
    in_turn = iterative(study, SETTINGS)
    assert visits_wanted(study, in_turn) == [0]
    found = with_visits_alone(study, SETTINGS, in_turn)
    assert torch.equal(found.others["visit_2"], in_turn.others["visit_2"])
    assert not torch.equal(found.others["visit_1"], in_turn.volume)


@pytest.mark.parametrize("method", ["simultaneous", "sequential"])
def test_a_result_that_diverged_stays_as_it_is(method: str) -> None:
    study = tiny_study()
    joint = simultaneous(study, replace(SETTINGS, stages=SETTINGS.stages[:1]))
    diverged = replace(joint, status=Status.DIVERGED, method=method)
    assert with_visits_alone(study, SETTINGS, diverged) is diverged
    assert visits_wanted(one_visit(study, 0), joint) == []
