"""What it costs to tell how sure a motion is, said beforehand: in projections, and in memory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from duotomo.methods import Result, Settings, Stage, uncertainty_cost
from duotomo.methods.uncertainty_cost import (
    OF_STEP,
    PER_MODE,
    PER_PARAM,
    most_uncertainty_bytes,
    uncertainty_bytes,
)
from duotomo.solvers import Status, Step
from duotomo.transforms import Affine, BSpline, Motion, Translation
from tests.cases.studies import GRID, shifted, study, truth

MOTION = shifted(1.0, 0.0, 0.0)
SPLINE = BSpline.over(GRID, (4, 4, 4))


def step(stage: int, applications: int, seconds: float) -> Step:
    return Step(
        stage=stage,
        what="volume",
        number=1,
        objective=1.0,
        gradient_norm=1.0,
        step_size=1.0,
        applications=applications,
        seconds=seconds,
    )


def result(motion: Motion, *history: Step) -> Result:
    return Result(
        method="simultaneous",
        grid=GRID,
        volume=truth(),
        motions=(motion,),
        status=Status.CONVERGED,
        reason="It was enough.",
        applications=900,
        seconds=100.0,
        history=history,
    )


STAGES = (
    Stage(coarsen=(2, 2, 2), model=Translation, n_steps=5),
    Stage(coarsen=(1, 1, 1), model=Translation, n_steps=5),
)


def test_an_application_takes_what_it_took_in_the_run_on_that_level() -> None:
    # On voxels twice as large 0.05 s each, on the finest 0.2 s: four times as much, not eight.
    ran = result(MOTION, step(0, 400, 20.0), step(0, 800, 40.0), step(1, 900, 60.0))
    cost = uncertainty_cost(study(MOTION), Settings(stages=STAGES), ran)
    assert cost.applications == PER_PARAM * 3
    assert cost.seconds == pytest.approx(PER_PARAM * 3 * 0.2 * OF_STEP["few"])
    assert cost.share == pytest.approx(cost.seconds / 100)
    assert cost.is_affordable
    slower = result(MOTION, step(0, 800, 4.0), step(1, 804, 100.0))
    assert not uncertainty_cost(study(MOTION), Settings(stages=STAGES), slower).is_affordable


def test_without_steps_on_its_level_the_number_of_voxels_counts() -> None:
    ran = result(MOTION, step(0, 400, 20.0), step(0, 800, 40.0))
    cost = uncertainty_cost(study(MOTION), Settings(stages=STAGES), ran)
    assert cost.seconds == pytest.approx(PER_PARAM * 3 * 8 * 0.05 * OF_STEP["few"])


def test_of_two_lists_of_stages_that_which_was_run_counts() -> None:
    coarse = tuple(replace(stage, coarsen=(4, 4, 4)) for stage in STAGES)
    both = Settings(stages=coarse, stiffer=STAGES)
    cost = uncertainty_cost(study(MOTION), both, result(MOTION, step(1, 900, 90.0)))
    assert cost.seconds == pytest.approx(PER_PARAM * 3 * 0.1 * OF_STEP["few"])
    bent = result(Motion(SPLINE, SPLINE.identity()), step(1, 900, 90.0))
    few = min(240, SPLINE.n_params) + min(256, SPLINE.n_params)
    cost = uncertainty_cost(study(MOTION), both, bent)
    assert cost.applications == PER_MODE * few / 8
    # Voxels four times as large were run, those twice as large are asked for.
    assert cost.seconds == pytest.approx(PER_MODE * few * 8 * 0.1 * OF_STEP["many"])


def test_without_a_history_nothing_is_affordable() -> None:
    cost = uncertainty_cost(study(MOTION), Settings(stages=STAGES), result(MOTION))
    assert cost.share == math.inf
    assert not cost.is_affordable


def test_the_larger_model_counts_before_a_run() -> None:
    of, affine = study(MOTION), Affine(GRID)
    stages = (*STAGES, Stage(coarsen=(1, 1, 1), model=Affine, n_steps=5))
    known = uncertainty_bytes(of, [Motion(affine, affine.identity())])
    assert most_uncertainty_bytes(of, Settings(stages=stages)) == known
    assert most_uncertainty_bytes(of, Settings(stages=STAGES, stiffer=stages)) == known
    assert most_uncertainty_bytes(of, Settings(stages=STAGES)) < known
    still = tuple(replace(stage, model=None) for stage in STAGES)
    assert most_uncertainty_bytes(of, Settings(stages=still)) == 0


MEASURED = """
from contextlib import suppress
from pathlib import Path
from duotomo.methods import Result, Settings, Stage, Study, Visit, uncertainty_of
from duotomo.methods.uncertainty_cost import uncertainty_bytes
from duotomo.operators import Projector
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Motion
from tests.cases.studies import GRID, SCAN, truth

def peak_bytes(n, model):
    grid = GRID.refine(n)
    views = Projector(grid=grid, acquisition=SCAN)(truth(grid))
    views = views + 0.01 * (views > 0)
    study = Study(grid=grid, visits=(Visit(projections=views, acquisition=SCAN),) * 2)
    transform = model(grid)
    motion = Motion(transform, transform.identity())
    settings = Settings(stages=(Stage(coarsen=(1, 1, 1), model=model, n_steps=1),))
    result = Result(method="", grid=grid, volume=truth(grid), motions=(motion,), status=Status.CONVERGED,
        reason="", applications=1, seconds=1.0, history=())
    before = status("VmRSS")
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    assert uncertainty_of(study, settings, result, n_steps=3)[0].is_known
    return uncertainty_bytes(study, result.motions), status("VmHWM") - before

def status(name):
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[name].split()[0])

peak_bytes(1, MODEL)
print(*peak_bytes(4, MODEL))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("model", "most"),
    [("Affine", 1.1), pytest.param("BSpline.shaped((7, 7, 7))", 1.15, marks=pytest.mark.slow)],
)
def test_it_takes_about_what_was_said(model: str, most: float) -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURED.replace("MODEL", model)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    said, taken = map(int, run.stdout.split())
    assert said / 3 < taken < said * most, (said, taken)
