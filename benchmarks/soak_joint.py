"""Many runs of `duotomo joint` in one process, on a study that one of them takes a second for."""

from __future__ import annotations

import gc
import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.cases import VALUE_PER_MM, grid, sweep
from benchmarks.usage import Limits, Usage
from duotomo.cli import main as duotomo
from duotomo.io import write_study
from duotomo.methods import Study, Visit
from duotomo.phantoms import Ellipsoid
from duotomo.simulate import scan
from duotomo.transforms import Motion, Translation

# Of the objects, one is what was measured.
LIMITS = Limits(warm_up=20, mib_each=0.05, mib=16.0, objects_each=2.0)

GRID, SCAN = (
    grid((16, 16, 16), (3.0, 3.0, 3.0)),
    sweep(n_views=7, detector_shape=(20, 32), pixel_mm=3.0),
)
SHIFT_MM = (3.0, 0.0, 0.0)
NOT_TRUSTED = 3
"""How a run ends that takes so few steps."""


def small_study() -> Study:
    """Return two visits of a ball that moves by 3 mm."""
    ball = Ellipsoid(center_mm=(0.0, 22.0, 28.0), radii_mm=(12.0, 10.0, 14.0), value=VALUE_PER_MM)
    generator, shift = torch.Generator().manual_seed(0), Translation(GRID)
    motions = (None, Motion(shift, shift.params(translation_mm=SHIFT_MM)))
    views = [scan(ball, GRID, SCAN, generator=generator, motion=motion) for motion in motions]
    return Study(grid=GRID, visits=tuple(Visit(projections=view, acquisition=SCAN) for view in views))


def run_joint(study: Path, out: Path, said: io.StringIO) -> None:
    """Run the command as on a terminal, with its bars; raise unless it ends as it should.

    said: is filled with what it says. Click keeps every stream that it wrote to, so runs have to share one.
    """
    words = ["joint", study, "--transform", "translation", "--steps", 3, "--out", out]
    said.seek(0)
    said.truncate()
    with redirect_stdout(said), redirect_stderr(said), patch.dict(os.environ, {"FORCE_COLOR": "1"}):
        code = duotomo([str(word) for word in words], standalone_mode=False)
    if code != NOT_TRUSTED or not (out / "report.html").exists():
        raise RuntimeError(
            f"joint: expected a result and exit code {NOT_TRUSTED}; got {code}: {said.getvalue()}"
        )


def own_folders(temporary: Path) -> dict[str, str]:
    """Return the environment in which nothing but duotomo's own files are in a temporary folder.

    PyTorch makes a folder there for what it compiles, and leaves it.
    """
    return {"TMPDIR": str(temporary), "TORCHINDUCTOR_CACHE_DIR": str(temporary.parent / "compiled")}


def soak_joint(n_runs: int) -> Iterator[Usage]:
    """Give what this process holds after each of so many runs.

    Every other one replaces the result of the one before.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root, ExitStack() as changed:
        study, out, temporary = Path(root, "study.h5"), Path(root, "out"), Path(root, "temporary")
        temporary.mkdir()
        changed.enter_context(patch.dict(os.environ, own_folders(temporary)))
        changed.enter_context(patch.object(tempfile, "tempdir", str(temporary)))
        write_study(study, small_study())
        said = io.StringIO()
        for number in range(n_runs):
            run_joint(study, out, said)
            if number % 2:
                shutil.rmtree(out)
            gc.collect()
            yield Usage.of(os.getpid(), temporary, began=began, n_objects=len(gc.get_objects()))
