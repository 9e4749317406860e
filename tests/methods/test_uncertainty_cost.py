"""What it costs to tell how sure a motion is, said beforehand: in projections, and in memory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from duotomo.methods import Result, Settings, Stage, uncertainty_cost
from duotomo.methods.uncertainty_cost import most_uncertainty_bytes, uncertainty_bytes
from duotomo.solvers import Status, Step
from duotomo.transforms import Affine, BSpline, Motion, Translation
from tests.cases.studies import GRID, shifted, study, truth

MOTION = shifted(1.0, 0.0, 0.0)
SPLINE = BSpline.over(GRID, (4, 4, 4))


def step(stage: int, applications: int) -> Step:
    return Step(
        stage=stage,
        what="volume",
        number=1,
        objective=1.0,
        gradient_norm=1.0,
        step_size=1.0,
        applications=applications,
        seconds=1.0,
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


def test_cost_is_counted_at_full_resolution() -> None:
    ran = result(MOTION, step(0, 400), step(0, 800), step(1, 900))
    cost = uncertainty_cost(study(MOTION), Settings(stages=STAGES), ran)
    # Of 800 projections on voxels twice as large, and 100 on the finest.
    assert cost.applications == 45 * 3
    assert cost.share == pytest.approx(45 * 3 / 200)
    assert cost.seconds == pytest.approx(100 * 45 * 3 / 200)
    assert not cost.is_affordable
    longer = uncertainty_cost(study(MOTION), Settings(stages=STAGES), result(MOTION, step(1, 900)))
    assert longer.share == pytest.approx(0.15)
    assert longer.is_affordable


def test_of_two_lists_of_stages_that_which_was_run_counts() -> None:
    coarse = tuple(replace(stage, coarsen=(4, 4, 4)) for stage in STAGES)
    both = Settings(stages=coarse, stiffer=STAGES)
    assert uncertainty_cost(study(MOTION), both, result(MOTION, step(1, 900))).share == pytest.approx(0.15)
    bent = result(Motion(SPLINE, SPLINE.identity()), step(1, 64000))
    few = min(240, SPLINE.n_params) + min(256, SPLINE.n_params)
    cost = uncertainty_cost(study(MOTION), both, bent)
    assert cost.applications == 60 * few / 8
    assert cost.share == pytest.approx(cost.applications / 1000)


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
