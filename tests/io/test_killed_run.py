"""A run that is killed and resumed, again and again, ends where it would have ended without."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

import duotomo
from duotomo.io import CheckpointFile, fingerprint
from duotomo.methods import simultaneous
from duotomo.solvers import Step
from tests.cli.tiny import short_blocks, tiny_study

METHOD = "simultaneous"
BLOCK = 3
"""Steps between two checkpoints of `short_blocks`."""

RUN = """
import sys
from duotomo.io import CheckpointFile, fingerprint
from duotomo.methods import simultaneous
from tests.cli.tiny import short_blocks, tiny_study
study, settings = tiny_study(), short_blocks()
checkpoint = CheckpointFile(sys.argv[1], fingerprint(study, method="simultaneous", settings=settings))
simultaneous(study, settings, on_step=lambda step: print(step.number, flush=True), checkpoint=checkpoint)
"""


def untimed(history: tuple[Step, ...]) -> list[Step]:
    return [replace(step, seconds=0.0) for step in history]


def test_a_run_killed_three_times_gives_the_same_result(tmp_path: Path) -> None:
    study, settings = tiny_study(), short_blocks()
    told: list[Step] = []
    expected = simultaneous(study, settings, on_step=told.append)
    n_steps = len(expected.history)
    # The first checkpoint comes after the stage that several starts run through, and one more block.
    first = len(told) - sum(step.stage > 0 for step in expected.history) + BLOCK
    path = tmp_path / "checkpoint.h5"
    moments = random.Random(4)
    reached = 0
    for kill in range(3):
        # So many steps are seen before the kill; where within a step it then strikes, nobody knows.
        patience = moments.randint(n_steps // 6, n_steps // 5) + (first if kill == 0 else 0)
        reached = _killed_run(path, patience)
        assert 0 < reached < n_steps, f"kill {kill} came too late"
        assert path.exists()
    checkpoint = CheckpointFile(path, fingerprint(study, method=METHOD, settings=settings))
    left_off = checkpoint.load()
    assert left_off is not None
    assert 0 < len(left_off.history) < n_steps

    steps: list[Step] = []
    found = simultaneous(study, settings, on_step=steps.append, checkpoint=checkpoint)

    assert len(steps) == n_steps - len(left_off.history)
    assert torch.equal(found.volume, expected.volume)
    assert all(torch.equal(a.params, b.params) for a, b in zip(found.motions, expected.motions, strict=True))
    assert untimed(found.history) == untimed(expected.history)
    assert (found.status, found.reason) == (expected.status, expected.reason)
    assert found.applications == expected.applications
    assert not any(name.startswith(".") for name in os.listdir(tmp_path))


def test_a_finished_run_resumes_to_its_result(tmp_path: Path) -> None:
    study, settings = tiny_study(), short_blocks()
    checkpoint = CheckpointFile(tmp_path / "c.h5", fingerprint(study, method=METHOD, settings=settings))
    first = simultaneous(study, settings, checkpoint=checkpoint)
    steps: list[Step] = []
    again = simultaneous(study, settings, on_step=steps.append, checkpoint=checkpoint)
    assert steps == []
    assert torch.equal(first.volume, again.volume)
    assert first.history == again.history


def _killed_run(path: Path, patience: int) -> int:
    """Run in another process, kill it after so many steps, and return the last step that it reached."""
    source, root = Path(duotomo.__file__).parents[1], Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(root)])}
    step = 0
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(path)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for seen, line in enumerate(process.stdout, start=1):
            step = int(line)
            if seen == patience:
                process.kill()
                break
    assert process.returncode == -9
    return step
