"""A run that is killed goes on to the same result, and says on the way where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.methods import (
    Alternating,
    Result,
    Settings,
    Study,
    iterative,
    sequential,
    simultaneous,
    with_known_motion,
)
from duotomo.solvers import Step
from tests.cases.studies import seen, shifted, study
from tests.methods.runs import Memory, short

MOTIONS = (shifted(4.0, -2.0, 1.0), shifted(-3.0, 1.0, 2.0))
Method = Callable[..., Result]


def alternating(of: Study, settings: Settings, **options: Any) -> Result:
    solver = Alternating(volume_steps=2, motion_steps=2, memory=3, block=2)
    return simultaneous(of, replace(settings, solver=solver), **options)


def known(of: Study, settings: Settings, **options: Any) -> Result:
    return with_known_motion(of, settings, MOTIONS[: len(of.moving)], **options)


METHODS: dict[str, Method] = {
    "coupled": simultaneous,
    "alternating": alternating,
    "known": known,
    "sequential": sequential,
    "iterative": partial(iterative, volume_steps=2, motion_steps=2),
}


def untimed(history: tuple[Step, ...]) -> list[Step]:
    return [replace(record, seconds=0.0) for record in history]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_moving", [0, 2])
def test_every_state_leads_to_the_same_result(name: str, n_moving: int) -> None:
    method, of, settings = METHODS[name], study(*MOTIONS[:n_moving]), short()
    kept = Memory()
    whole = method(of, settings, checkpoint=kept)
    assert len(kept.states) > len(settings.stages)
    for state in kept.states:
        resumed = method(of, settings, checkpoint=Memory(state))
        assert torch.equal(resumed.volume, whole.volume)
        assert resumed.others.keys() == whole.others.keys()
        assert all(torch.equal(resumed.others[key], whole.others[key]) for key in whole.others)
        pairs = zip(resumed.motions, whole.motions, strict=True)
        assert all(torch.equal(one.params, two.params) for one, two in pairs)
        assert (resumed.status, resumed.reason) == (whole.status, whole.reason)
        assert resumed.applications == whole.applications
        assert untimed(resumed.history) == untimed(whole.history)


@pytest.mark.parametrize("name", METHODS)
def test_nobody_watching_changes_nothing(name: str) -> None:
    method, of, settings = METHODS[name], study(MOTIONS[0]), short("bspline:4,4,4")
    watched = method(of, settings, checkpoint=Memory(), on_step=lambda _: None)
    assert torch.equal(method(of, settings).volume, watched.volume)


@pytest.mark.parametrize("name", METHODS)
def test_records_go_forward(name: str) -> None:
    steps: list[Step] = []
    result = METHODS[name](study(MOTIONS[0]), short(), on_step=steps.append)
    assert tuple(steps) == result.history
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for field in ("stage", "applications", "seconds"):
        values = [getattr(record, field) for record in steps]
        assert values == sorted(values)
    assert steps[-1].applications <= result.applications
    assert steps[-1].seconds <= result.seconds
    assert steps[0].applications > 0


@pytest.mark.parametrize("name", METHODS)
def test_each_transform_is_that_of_its_visit(name: str) -> None:
    own = MOTIONS[0].grid.coarsen(1)
    of = Study(grid=own, visits=(seen(), *(seen(motion) for motion in MOTIONS)))
    result = METHODS[name](of, short())
    assert len(result.motions) == 2
    # The two visits moved to opposite sides.
    x_mm = [float(motion.points(torch.tensor([0.0, 20.0, 25.0]))[0]) for motion in result.motions]
    assert x_mm[0] > 2.0
    assert x_mm[1] < -1.5


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"stage": 99}, "expected a stage up to .* in the checkpoint; got 99"),
        ({"coarsen": (7, 7, 7)}, r"expected voxels combined by one of .* in the checkpoint; got \(7, 7, 7\)"),
        ({"volumes": {}}, "expected volume '.*' of shape .* in the checkpoint; got none"),
        (
            {"volumes": {"volume": torch.zeros(2, 2, 2)}},
            r"expected volume '.*' of shape .* in the checkpoint",
        ),
        ({"params": ()}, "expected parameters of 2 moving visits in the checkpoint; got 0"),
        ({"params": (torch.zeros(5),) * 2}, r"expected parameters of .* of shape .* got the shape \(5,\)"),
    ],
)
def test_states_of_another_run_are_refused(name: str, changes: dict[str, Any], match: str) -> None:
    if name == "sequential" and "params" in changes:
        pytest.skip("its states have no motion")
    kept = Memory()
    METHODS[name](study(*MOTIONS), short(), checkpoint=kept)
    with pytest.raises(DuotomoError, match=match):
        METHODS[name](study(*MOTIONS), short(), checkpoint=Memory(replace(kept.states[1], **changes)))


def test_states_that_are_not_finite_are_refused() -> None:
    kept = Memory()
    simultaneous(study(*MOTIONS), short(), checkpoint=kept)
    volumes = {"volume": kept.states[1].volumes["volume"] * float("nan")}
    with pytest.raises(DuotomoError, match="expected finite numbers as volume 'volume' in the checkpoint"):
        simultaneous(study(*MOTIONS), short(), checkpoint=Memory(replace(kept.states[1], volumes=volumes)))
