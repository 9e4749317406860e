"""The stages on the coarsest grid are run from several starts, and the best of them is continued."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid, paper
from duotomo.methods import Settings, Study, Visit, simultaneous
from duotomo.methods.initial_guess import initial_translations_mm
from duotomo.methods.multi_start import as_begun, multi_start
from duotomo.methods.runner import Runner
from duotomo.methods.settings import Stage
from duotomo.operators import Projector
from duotomo.reproduction.plan import DataLevel, Plan
from duotomo.reproduction.shepp_logan import SHEPP_LOGAN
from duotomo.solvers import Status, Step
from duotomo.transforms import Affine, BSpline, Rigid, Translation, model_name
from tests.methods.runs import Memory

GRID = VolumeGrid.on_detector((16, 16, 16), (4.0, 4.0, 4.0))
SCAN = paper().bin(2)
COARSE = Stage(coarsen=(2, 2, 2), model=Translation, n_steps=15)
FINE = Stage(coarsen=(1, 1, 1), model=Translation, n_steps=3)


def study(shift: int, *, stray: float = 0.0) -> Study:
    """Return a block that moves by `shift` voxels along x; stray: attenuation that only the second visit has.

    What only one visit has, at the edge of the view, draws its centre of attenuation away.
    """
    volumes = torch.zeros(2, *GRID.shape, dtype=torch.float64)
    volumes[0, 6:10, 5:11, 5:9] = 1
    volumes[1, 6:10, 5:11, 5 + shift : 9 + shift] = 1
    volumes[1, 7:9, 6:10, 15:] = stray
    views = Projector(grid=GRID, acquisition=SCAN)(volumes)
    return Study(grid=GRID, visits=tuple(Visit(projections=view, acquisition=SCAN) for view in views))


def settings(*stages: Stage) -> Settings:
    return Settings(stages=stages)


def end_of(case: Study, how: Settings) -> float:
    runner = Runner(case, how)
    return runner.run(runner.first_state()).history[-1].objective


@pytest.mark.parametrize(("shift", "stray"), [(3, 0.0), (0, 8.0), (2, 3.0)])
def test_the_lower_objective_goes_on(shift: int, stray: float) -> None:
    case = study(shift, stray=stray)
    state = multi_start(case, settings(COARSE, COARSE, FINE))
    ends = [end_of(case, replace(settings(COARSE), initial_guess=guess)) for guess in (True, False)]
    assert state.stage == 1
    assert state.history[-1].objective == min(ends)
    assert max(ends) > min(ends)


def test_rest_wins_where_the_guess_is_wrong() -> None:
    case = study(0, stray=8.0)
    assert initial_translations_mm(case)[0][0] < -8
    found = simultaneous(case, settings(COARSE, COARSE, FINE))
    assert found.motions[0].physical()["translation_mm"].norm() < 1.0


def test_the_cost_of_all_starts_counts() -> None:
    case = study(3)
    told: list[Step] = []
    state = multi_start(case, settings(COARSE, COARSE, FINE), told.append)
    runners = [Runner(case, replace(settings(COARSE), initial_guess=guess)) for guess in (True, False)]
    ends = [runner.run(runner.first_state()) for runner in runners]
    assert state.applications == sum(end.applications for end in ends)
    best = min(ends, key=lambda end: end.history[-1].objective)
    assert len(state.history) == len(best.history)
    assert len(told) == sum(len(end.history) for end in ends)
    assert state.seconds >= state.history[-1].seconds


def test_models_in_between_are_also_left_out() -> None:
    """Of translation, rigid and affine, the second may mislead: guess and identity also go without it."""
    coarse = [replace(COARSE, model=model, n_steps=4) for model in (Translation, Rigid, Affine, Affine)]
    told: list[Step] = []
    multi_start(study(3), settings(*coarse, FINE), told.append)
    whole, direct = [0, 1, 2], [0, 1]
    stages = [[step.stage for step in told[a:b]] for a, b in pairwise(_begins(told))]
    assert [sorted(set(run)) for run in stages] == [whole, direct, direct]
    assert [step.what.split()[0] for step in told if step.stage == 1][::4][:3] == [
        "rigid",
        "affine",
        "affine",
    ]


def _begins(steps: list[Step]) -> list[int]:
    """Return where each run begins, and the end of the last."""
    return [i for i, step in enumerate(steps) if step.number == 1] + [len(steps)]


@pytest.mark.parametrize(
    ("shift", "how"),
    [
        (3, settings(FINE)),
        (3, settings(COARSE, FINE)),
        (3, replace(settings(COARSE, COARSE, FINE), initial_guess=False)),
    ],
    ids=["no coarse stage", "one coarse stage", "no guess"],
)
def test_nothing_is_tried(shift: int, how: Settings) -> None:
    state = multi_start(study(shift), how)
    assert (state.stage, state.applications, state.history) == (0, 0, ())


def apart() -> Study:
    """Return visits on grids that share no volume until one is moved."""
    near = study(0).reference
    away = [(x + 200.0, y, z) for x, y, z in SCAN.source_mm]
    centers = [(x + 200.0, y, z) for x, y, z in SCAN.detector_center_mm]
    scan = replace(SCAN, source_mm=tuple(away), detector_center_mm=tuple(centers))
    grid = replace(GRID, center_mm=(GRID.center_mm[0], GRID.center_mm[1], 200.0))
    return Study(grid=GRID, visits=(near, Visit(projections=near.projections, acquisition=scan, grid=grid)))


def test_visits_apart_start_from_the_guess() -> None:
    case = apart()
    with pytest.raises(GeometryError, match="share no volume"):
        end_of(case, replace(settings(COARSE), initial_guess=False))
    assert multi_start(case, settings(COARSE, COARSE, FINE)).stage == 1


def test_a_guess_like_the_identity_is_tried_once() -> None:
    case = study(0)
    state = multi_start(case, settings(COARSE, COARSE, FINE))
    runner = Runner(case, settings(COARSE))
    assert state.stage == 1
    assert state.applications == runner.run(runner.first_state()).applications


def test_control_points_decide_what_comes_before_them() -> None:
    """A rigid and an affine model turn a nearly round body far; control points explain it from rest."""
    set_up = SHEPP_LOGAN.set_up(Plan(level=DataLevel.AS_PUBLISHED, quick=True))
    case, how = set_up.make(3), next(one for one in set_up.methods if one.name == "simultaneous").settings
    state = multi_start(case.study, how)
    later = as_begun(how, state).stages[state.stage :]
    assert state.model == model_name(Translation)
    assert {one.model for one in later} == {how.stages[-2].model, Translation, None}


def test_an_affine_start_goes_on_with_its_own_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duotomo.methods.multi_start.LEVEL_STEPS", 5)
    coarse = [replace(COARSE, model=model, n_steps=5, fresh=True) for model in (Translation, Affine, Affine)]
    how = settings(*coarse, replace(FINE, model=BSpline.shaped((4, 4, 4))))
    told: list[Step] = []
    state = multi_start(study(3), how, told.append)
    assert (state.model, state.stage) == (model_name(Affine), 2)
    assert as_begun(how, state) == how
    assert any(step.what.startswith("bspline") for step in told)
    assert not any(step.what.startswith("bspline") for step in state.history)
    assert state.applications > len(told)


def test_a_run_that_is_killed_between_starts_goes_on_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duotomo.methods.multi_start.LEVEL_STEPS", 5)
    models = (Translation, Rigid, Affine, Affine)
    coarse = [replace(COARSE, model=model, n_steps=5, fresh=True) for model in models]
    case, how = study(3), settings(*coarse, replace(FINE, model=BSpline.shaped((4, 4, 4))))
    kept, all_told = Memory(), list[Step]()
    whole = simultaneous(case, how, checkpoint=kept, on_step=all_told.append)
    begun = [state for state in kept.states if state.starts]
    # Three starts, two of the first model alone, and the trials after the best of either.
    assert [len(state.starts) for state in begun] == [1, 2, 3, 4, 5, 6, 7]
    for state in begun:
        told: list[Step] = []
        found = simultaneous(case, how, checkpoint=Memory(state), on_step=told.append)
        assert torch.equal(found.volume, whole.volume)
        assert all(torch.equal(a.params, b.params) for a, b in zip(found.motions, whole.motions, strict=True))
        assert (found.status, found.reason, found.applications) == (
            whole.status,
            whole.reason,
            whole.applications,
        )
        assert untimed(found.history) == untimed(whole.history)
        # What has ended is not computed again.
        assert untimed(told) == untimed(all_told[len(all_told) - len(told) :])
        assert len(told) < len(all_told)


def test_a_start_that_is_nowhere_is_not_tried_again() -> None:
    case, kept = apart(), Memory()
    state = multi_start(case, settings(COARSE, COARSE, FINE), checkpoint=kept)
    first, second = kept.states[-1].starts
    assert (first.status is Status.DIVERGED, second.status is Status.DIVERGED) == (False, True)
    assert "share no volume" in second.reason
    again = multi_start(case, settings(COARSE, COARSE, FINE), ended=kept.states[-1].starts)
    assert torch.equal(again.volumes["volume"], state.volumes["volume"])
    assert again.applications == state.applications


def untimed(history: Iterable[Step]) -> list[Step]:
    return [replace(step, seconds=0.0) for step in history]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"history": ()}, "expected steps of every start in the checkpoint; got none of one of them"),
        ({"volumes": {}, "status": Status.DIVERGED}, "expected a first start that was run in the checkpoint"),
        ({"volumes": {}}, "expected volume 'volume' of shape .* in the checkpoint; got none"),
        ({"stage": 99}, "expected a stage up to .* in the checkpoint; got 99"),
    ],
)
def test_starts_of_another_run_are_refused(changes: dict[str, Any], match: str) -> None:
    case, kept, how = study(3), Memory(), settings(COARSE, COARSE, FINE)
    simultaneous(case, how, checkpoint=kept)
    state = next(one for one in kept.states if one.starts)
    changed = replace(state, starts=(replace(state.starts[0], **changes), *state.starts[1:]))
    with pytest.raises(DuotomoError, match=match):
        simultaneous(case, how, checkpoint=Memory(changed))
