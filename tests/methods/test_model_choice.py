"""The data choose the model: a bent motion asks for control points, an affine one does not."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from duotomo.methods import Settings, Study, simultaneous
from duotomo.methods.model_choice import MOST, MOST_AT_MM, MOVED_MM, ModelChoice, apart_mm
from duotomo.methods.runner import Runner
from duotomo.methods.state import State
from duotomo.transforms import Affine, BSpline, Model, Motion
from tests.cases.studies import GRID, shifted, study
from tests.methods.runs import SHIFT, Memory, stages

LATTICE = BSpline.shaped((5, 5, 5))


def bent() -> Motion:
    """Return a motion that shears the middle of the balls against their sides."""
    spline = BSpline.over(GRID, (5, 5, 5))
    field = torch.zeros(3, 5, 5, 5, dtype=torch.float64)
    field[0, :, ::2] = 1.5
    field[0, :, 1::2] = -1.5
    return Motion(spline, field.flatten())


def bowed() -> Motion:
    """Return a motion that carries the middle one way and the ends the other way, as no affine one does."""
    spline = BSpline.over(GRID, (5, 5, 5))
    field = torch.zeros(3, 5, 5, 5, dtype=torch.float64)
    field[2, :, 2] = 12.0
    field[2, :, ::4] = -12.0
    return Motion(spline, field.flatten())


def choice_after(of: Study) -> ModelChoice:
    runner = Runner(of, Settings(stages=stages("translation", "affine", n_steps=60)))
    return runner.choice(runner.run(runner.first_state()), LATTICE)


def test_a_bent_motion_asks_for_control_points_more_than_a_shift() -> None:
    shift, bend = (choice_after(study(motion, finer=3)) for motion in (SHIFT, bent()))
    assert bend.score > 3 * shift.score
    assert shift.limit == bend.limit == MOST
    assert not shift.needs_lattice


def test_the_limit_falls_with_the_square_of_large_voxels() -> None:
    runner = Runner(study(SHIFT), Settings(stages=stages("affine", n_steps=3, coarsen=2)))
    found = runner.choice(runner.run(runner.first_state()), LATTICE)
    # Voxels of 6 mm.
    assert found.limit == pytest.approx(MOST * (MOST_AT_MM / 6.0) ** 2)
    assert replace(found, score=found.limit).needs_lattice is False
    assert replace(found, score=found.limit * 1.01).needs_lattice is True


@pytest.mark.parametrize("how", ["by the score", "by what a trial moved", "neither"])
def test_a_run_goes_on_with_the_model_chosen_and_resumes_with_it(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(self: Runner, state: object, model: object) -> ModelChoice:
        assert model == LATTICE
        return ModelChoice(score=2.0 if how == "by the score" else 0.5, limit=1.0)

    def apart(*args: object) -> float:
        assert how != "by the score"
        return MOVED_MM * (1.01 if how == "by what a trial moved" else 1.0)

    monkeypatch.setattr(Runner, "choice", chosen)
    monkeypatch.setattr(sys.modules["duotomo.methods.simultaneous"], "apart_mm", apart)
    common = stages("translation", "affine", n_steps=3, coarsen=2)
    settings = Settings(
        stages=(*common, *stages("bspline:5,5,5", None, n_steps=3)),
        stiffer=(*common, *stages("affine", None, n_steps=3)),
    )
    kept, of = Memory(), study(SHIFT)
    whole = simultaneous(of, settings, checkpoint=kept)
    alone = settings.without_choice if how == "neither" else replace(settings, stiffer=())
    expected = simultaneous(of, alone)
    assert torch.equal(whole.motions[0].params, expected.motions[0].params)
    assert torch.equal(whole.volume, expected.volume)
    # A trial that is given up has cost something.
    assert (whole.applications > expected.applications) is (how == "neither")
    for number in range(1, len(kept.states) + 1):
        again = simultaneous(of, settings, checkpoint=Memory(*kept.states[:number]))
        assert torch.equal(again.volume, whole.volume)
        assert again.applications == whole.applications


def test_motions_are_apart_by_what_they_do_to_tissue() -> None:
    volume = torch.zeros(GRID.shape)
    volume[2:5, 3:6, 4:7] = 0.05
    here, there = shifted(1.0, 2.0, 3.0), shifted(4.0, 2.0, 7.0)
    assert apart_mm((here, here), (here, there), volume, GRID) == pytest.approx(5.0)
    assert apart_mm((here,), (here,), volume, GRID) == 0.0
    assert apart_mm((here,), (there,), torch.zeros(GRID.shape), GRID) == 0.0


def test_tissue_that_is_bowed_is_followed_by_control_points_whatever_the_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scored = Runner.choice

    def relative_to_scatter(self: Runner, state: State, model: Model) -> ModelChoice:
        return replace(scored(self, state, model), limit=1e9)

    monkeypatch.setattr(Runner, "choice", relative_to_scatter)
    common = stages("translation", "affine", n_steps=30)
    settings = Settings(
        stages=(*common, *stages("bspline:5,5,5", n_steps=30)),
        stiffer=(*common, *stages("affine", n_steps=30)),
    )
    for motion, model in ((bowed(), BSpline), (SHIFT, Affine)):
        found = simultaneous(study(motion, finer=3), settings)
        assert isinstance(found.motions[0].transform, model)
