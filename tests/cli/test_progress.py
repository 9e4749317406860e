"""The bar of a run counts all its phases, and is never cut off where the time left stands."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from duotomo.cli._progress import ALONE, CHANGE, CHECKS, SURE, Phase, RunProgress, joint_phases
from duotomo.methods import Settings
from duotomo.solvers import Step
from duotomo.transforms import Rigid
from tests.cli.tiny import tiny_study

PHASES = [
    Phase("run", ((10, 1.0), (10, 2.0))),
    Phase("visits alone", ((5, 2.0),)),
    Phase("checks", ((1, 5.0),)),
]


def step(stage: int) -> Step:
    return Step(
        stage=stage,
        what="simultaneous affine at 0.52 mm",
        objective=1.23456e-7,
        gradient_norm=0.0,
        step_size=1.0,
        applications=1234,
        seconds=1e4,
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_time_left_is_never_cut_off(width: int) -> None:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None)
    with RunProgress(console, PHASES) as progress:
        progress.begin("run")
        for stage in (0, 0, 1):
            progress.show(step(stage))
            progress._bar.refresh()
    shown = [line for line in re.split(r"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]", text.getvalue()) if "left" in line]
    assert shown
    for line in shown:
        assert re.match(r"at most +(--:--|(\d+:)?\d\d:\d\d) left", line), line
        assert len(line.rstrip()) <= width
    assert any("affine" in line for line in shown) == (width >= 60)


def test_what_is_left_counts_all_phases() -> None:
    with RunProgress(Console(quiet=True), PHASES) as progress:
        task = progress._bar.tasks[0]
        progress.begin("run")
        assert (task.completed, task.total) == (0.0, 45.0)
        progress.show(step(0))
        assert (task.completed, task.total) == (1.0, 45.0)
        # The first stage ended after one step of ten.
        progress.show(step(1))
        assert (task.completed, task.total) == (3.0, 36.0)
        # All others of the run are left out, and visits alone are over before they began.
        progress.begin("checks")
        assert (task.completed, task.total) == (3.0, 8.0)
        progress.part(1, 2)
        assert (task.completed, task.total) == (5.5, 8.0)
    assert task.finished


def test_a_joint_run_has_all_its_phases() -> None:
    study = tiny_study()
    settings = Settings.for_study(study, Rigid)
    phases = joint_phases(study, settings, "simultaneous", sure=True, change=True)
    assert [phase.name for phase in phases] == ["simultaneous", ALONE, CHECKS, SURE, CHANGE]
    assert all(phase.cost > 0 for phase in phases)
    few = joint_phases(study, settings, "simultaneous", sure=False, change=False)
    assert [phase.name for phase in few] == ["simultaneous", ALONE, CHECKS]
