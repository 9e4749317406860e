"""The data choose the model: a bent motion asks for control points, an affine one does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.methods import Settings, Study, simultaneous
from duotomo.methods.model_choice import MOST, MOST_AT_MM, ModelChoice
from duotomo.methods.runner import Runner
from duotomo.transforms import BSpline, Motion
from tests.cases.studies import GRID, study
from tests.methods.runs import SHIFT, Memory, stages

LATTICE = BSpline.shaped((5, 5, 5))


def bent() -> Motion:
    """Return a motion that shears the middle of the balls against their sides."""
    spline = BSpline.over(GRID, (5, 5, 5))
    field = torch.zeros(3, 5, 5, 5, dtype=torch.float64)
    field[0, :, ::2] = 1.5
    field[0, :, 1::2] = -1.5
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


@pytest.mark.parametrize("soft", [True, False])
def test_a_run_goes_on_with_the_model_chosen_and_resumes_with_it(
    soft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(self: Runner, state: object, model: object) -> ModelChoice:
        assert model == LATTICE
        return ModelChoice(score=2.0 if soft else 0.5, limit=1.0)

    monkeypatch.setattr(Runner, "choice", chosen)
    common = stages("translation", "affine", n_steps=3, coarsen=2)
    settings = Settings(
        stages=(*common, *stages("bspline:5,5,5", None, n_steps=3)),
        stiffer=(*common, *stages("affine", None, n_steps=3)),
    )
    kept, of = Memory(), study(SHIFT)
    whole = simultaneous(of, settings, checkpoint=kept)
    alone = replace(settings, stiffer=()) if soft else settings.without_choice
    expected = simultaneous(of, alone)
    assert torch.equal(whole.motions[0].params, expected.motions[0].params)
    assert torch.equal(whole.volume, expected.volume)
    for number in range(1, len(kept.states) + 1):
        again = simultaneous(of, settings, checkpoint=Memory(*kept.states[:number]))
        assert torch.equal(again.volume, whole.volume)
