"""The history of a run: numbers, cost, and the run that it continues."""

from __future__ import annotations

import math

import torch

from duotomo.solvers import History, Status, Step


class Meter:
    """A count of applications that a test turns."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


def test_the_start_is_step_zero_and_is_not_passed_on() -> None:
    seen: list[Step] = []
    history = History(Meter(0), seen.append)
    history.start(objective=3.0)
    history.add(objective=2.0, step_size=1.0)
    assert [step.number for step in history.steps] == [0, 1]
    assert seen == [history.steps[1]]
    assert history.steps[0].step_size == 0
    assert math.isnan(history.steps[0].gradient_norm)


def test_only_what_the_run_itself_applies_is_counted() -> None:
    meter = Meter(100)
    history = History(meter)
    meter.count += 2
    history.start(objective=1.0)
    meter.count += 5
    history.add(objective=0.5, step_size=1.0)
    assert [step.applications for step in history.steps] == [2, 7]
    assert 0 <= history.steps[0].seconds <= history.steps[1].seconds <= history.seconds


def test_a_run_continues_numbers_and_cost_of_the_one_before() -> None:
    first = History(Meter(0))
    first.add(objective=4.0, step_size=1.0, what="rigid at 4 mm", stage=1)
    meter = Meter(9)
    second = History(meter, earlier=first.steps, applications=20, seconds=1000.0)
    meter.count += 1
    second.add(objective=3.0, step_size=1.0, what="affine at 2 mm", stage=2)
    assert [(step.number, step.stage, step.what) for step in second.steps] == [
        (1, 1, "rigid at 4 mm"),
        (2, 2, "affine at 2 mm"),
    ]
    assert second.steps[1].applications == second.applications == 21
    assert 1000 < second.steps[1].seconds < 1100


def test_a_solvers_step_becomes_one_of_the_part() -> None:
    seen: list[Step] = []
    history = History(Meter(7), seen.append)
    note = history.part("rigid at 4 mm", stage=3)
    for _ in range(2):
        note(Step(objective=2.0, gradient_norm=0.5, step_size=0.1, applications=50, seconds=9.0, number=1))
    last = history.steps[-1]
    assert (last.number, last.stage, last.what) == (2, 3, "rigid at 4 mm")
    assert (last.objective, last.gradient_norm, last.step_size) == (2.0, 0.5, 0.1)
    assert last.applications == 0
    assert last.seconds < 9
    assert seen == list(history.steps)


def test_the_solution_counts_steps_but_not_the_start() -> None:
    history = History(Meter(0))
    history.start(objective=1.0)
    assert history.solution(torch.zeros(2), Status.CONVERGED, "Nothing to do.").n_steps == 0
    history.add(objective=0.0, step_size=1.0)
    solution = history.solution(torch.zeros(2), Status.STEP_LIMIT, "One step.")
    assert solution.n_steps == 1
    assert solution.history == history.steps
