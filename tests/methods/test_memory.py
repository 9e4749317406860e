"""What a run needs is said beforehand, and is near what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Alternating, Coupled, Settings, Stage, Study, Visit, memory_bytes
from duotomo.transforms import Affine, BSpline
from tests.cases.studies import GRID, shifted, study
from tests.methods.runs import MODELS

MEASURED = """
from contextlib import suppress
from pathlib import Path
from duotomo.methods import Settings, Stage, Study, Visit, memory_bytes, simultaneous
from duotomo.operators import Projector
from duotomo.transforms import Affine, BSpline
from tests.cases.studies import GRID, SCAN, truth

def peak_bytes(n, n_steps, model):
    grid = GRID.refine(n)
    views = Projector(grid=grid, acquisition=SCAN)(truth(grid))
    study = Study(grid=grid, visits=(Visit(projections=views, acquisition=SCAN),) * 2)
    stage = Stage(coarsen=(1, 1, 1), model=model, n_steps=n_steps)
    settings = Settings(stages=(stage,), tolerance=0.0)
    before = status("VmRSS")
    with suppress(OSError):
        # From now on the high-water mark counts anew.
        Path("/proc/self/clear_refs").write_text("5")
    simultaneous(study, settings)
    return memory_bytes(study, settings), status("VmHWM") - before

def status(name):
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[name].split()[0])

for model in (Affine, BSpline.shaped((9, 9, 9))):
    peak_bytes(1, 3, model)
print(*peak_bytes(4, 14, Affine), *peak_bytes(3, 26, BSpline.shaped((9, 9, 9))))
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


def test_control_points_views_and_visits_count() -> None:
    of = study(shifted(1.0, 0.0, 0.0))

    def needed(visits: int, edge: int) -> int:
        model = BSpline.shaped((edge, edge, edge))
        settings = Settings(stages=(Stage(coarsen=(1, 1, 1), model=model, n_steps=9),))
        return memory_bytes(replace(of, visits=of.visits[:1] + of.visits[1:] * (visits - 1)), settings)

    fewest, vectors = needed(2, 5), 24 + 2 * Coupled().memory
    assert needed(2, 9) - fewest == 3 * (9**3 - 5**3) * (vectors * 4 + 40)
    assert needed(3, 5) - fewest > 8 * of.visits[1].projections.nbytes


def test_a_clinical_pair_with_control_points_fits_24_gib() -> None:
    grid, scan = VolumeGrid.on_detector((60, 1000, 2000), (1.0, 0.1, 0.1)), flat_scan()
    rays = torch.ones(1).expand(scan.shape)
    pair = Study(grid=grid, visits=(Visit(projections=rays, acquisition=scan),) * 2)
    settings = Settings.for_study(pair, BSpline.spaced(22.0))
    assert 20 * 2**30 < memory_bytes(pair, settings) < 24 * 2**30


def flat_scan() -> Acquisition:
    """Return 15 views of a clinical detector."""
    return Acquisition.arc(
        n_views=15,
        angle_range_rad=0.87,
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=(1300, 2400),
        pixel_spacing_mm=(0.1, 0.1),
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")
def test_a_run_takes_about_what_was_said() -> None:
    run = subprocess.run(
        [sys.executable, "-c", MEASURED],
        # What is freed goes back at once, so that the second peak does not hide in what the first one left.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        check=True,
    )
    said, taken, said_of_spline, taken_by_spline = map(int, run.stdout.split())
    assert said / 3 < taken < said * 1.1
    # Its steps fill the solver's memory.
    assert 0.85 * taken_by_spline < said_of_spline < 1.15 * taken_by_spline
