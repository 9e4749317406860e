"""What a stage of a schedule weighs: rays at edges, and total variation."""

from __future__ import annotations

from typing import Any

import pytest

from duotomo.methods import Priors, Settings, Stage
from duotomo.methods import runner as module
from duotomo.methods.runner import COARSEST, MOVING, Runner
from tests.cases.studies import study
from tests.methods.runs import SHIFT, stages

FINE, COARSE = (1, 1, 1), (2, 2, 2)


def run(schedule: tuple[Stage, ...]) -> None:
    runner = Runner(study(SHIFT), Settings(stages=schedule))
    runner.run(runner.first_state())


def of_two_levels() -> tuple[Stage, ...]:
    coarse = stages("translation", "rigid", n_steps=2, coarsen=2)
    return (*coarse, *stages("rigid", "bspline:4,4,4", None, n_steps=2))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # One level for all stages with the same weights.
        (of_two_levels(), [(COARSE, 0.1), (FINE, 0.0), (FINE, 0.1)]),
        # Not yet refined, then refined.
        (stages("translation", "rigid", n_steps=2), [(FINE, 0.1)]),
        (stages("translation", "rigid", "rigid", n_steps=2), [(FINE, 0.1), (FINE, 0.0)]),
    ],
)
def test_edges_count_less_but_where_a_stiff_motion_is_refined(
    schedule: tuple[Stage, ...], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, level_of = [], module.level_of

    def spied(*args: Any, priors: Priors, **options: Any) -> Any:
        made.append((args[1], priors.edges))
        return level_of(*args, priors=priors, **options)

    monkeypatch.setattr(module, "level_of", spied)
    run(schedule)
    assert made == expected


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (of_two_levels(), [COARSEST, COARSEST, MOVING, MOVING, 1.0]),
        (stages("translation", "rigid", None, n_steps=2), [1.0, 1.0, 1.0]),
    ],
)
def test_motions_are_estimated_with_less_total_variation_but_on_the_coarsest_level(
    schedule: tuple[Stage, ...], factors: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    used, problem = [], module.Problem

    def spied(level: Any, transforms: Any, priors: Priors, *rest: Any) -> Any:
        used.append(priors.total_variation)
        return problem(level, transforms, priors, *rest)

    monkeypatch.setattr(module, "Problem", spied)
    run(schedule)
    assert used == pytest.approx([factor * Priors().total_variation for factor in factors])
