"""What a run needs is said beforehand, and is near what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from duotomo.methods import Alternating, Coupled, Settings, memory_bytes
from duotomo.transforms import Affine
from tests.cases.studies import GRID, shifted, study
from tests.methods.runs import MODELS

MEASURED = """
from contextlib import suppress
from pathlib import Path
from duotomo.methods import Settings, Stage, Study, Visit, memory_bytes, simultaneous
from duotomo.operators import Projector
from duotomo.transforms import Affine
from tests.cases.studies import GRID, SCAN, truth

def peak_bytes(n, n_steps):
    grid = GRID.refine(n)
    views = Projector(grid=grid, acquisition=SCAN)(truth(grid))
    study = Study(grid=grid, visits=(Visit(projections=views, acquisition=SCAN),) * 2)
    stage = Stage(coarsen=(1, 1, 1), model=Affine, n_steps=n_steps)
    settings = Settings(stages=(stage,))
    before = status("VmRSS")
    with suppress(OSError):
        # From now on the high-water mark counts anew.
        Path("/proc/self/clear_refs").write_text("5")
    simultaneous(study, settings)
    return memory_bytes(study, settings), status("VmHWM") - before

def status(name):
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[name].split()[0])

peak_bytes(1, 3)
print(*peak_bytes(4, 14))
"""


def test_a_finer_grid_needs_more() -> None:
    of, settings = study(shifted(1.0, 0.0, 0.0)), Settings.staged(GRID, Affine)
    finer = replace(of, grid=GRID.refine(2))
    needed = [memory_bytes(each, settings) for each in (of, finer)]
    assert GRID.n_voxels * 4 < needed[0] < needed[1] < 8 * needed[0]


def test_what_is_held_for_the_solver_counts() -> None:
    of = study(shifted(1.0, 0.0, 0.0))
    needed = {
        (model, type(solver)): memory_bytes(of, Settings.staged(GRID, MODELS[model], solver=solver))
        for model in ("rigid", "affine")
        for solver in (Coupled(memory=12), Alternating(memory=12))
    }
    assert needed["affine", Coupled] > needed["rigid", Coupled] > needed["rigid", Alternating]
    longer = Settings.staged(GRID, Affine, solver=Coupled(memory=30))
    assert memory_bytes(of, longer) > needed["affine", Coupled]


def test_a_visit_on_a_finer_grid_counts() -> None:
    of, settings = study(shifted(1.0, 0.0, 0.0)), Settings.staged(GRID, Affine)
    finer = replace(of, visits=(of.visits[0], replace(of.visits[1], grid=GRID.refine(2))))
    assert memory_bytes(finer, settings) > 4 * memory_bytes(of, settings)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")
def test_a_run_takes_about_what_was_said() -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said, taken = map(int, run.stdout.split())
    assert said / 3 < taken < said * 1.1
