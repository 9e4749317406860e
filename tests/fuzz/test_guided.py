"""Inputs that coverage guides into the readers raise nothing but a `DuotomoError`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.guided import TARGETS
from tests.fuzz.samples import SAMPLES
from tests.io.saved_helpers import python

N_RUNS = 3000


def test_every_target_has_a_sample() -> None:
    assert set(TARGETS.values()) <= set(SAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_readers_raise_nothing_else(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="needs atheris: pip install atheris")
    words = (target, "--runs", str(N_RUNS), "--found", str(tmp_path))
    done = python(f"import sys; sys.argv[1:] = {words!r}; from tests.fuzz.guided import main; main()")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {N_RUNS} runs" in done.stderr
