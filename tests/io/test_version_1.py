"""What the version before wrote is still read, and its runs go on to the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from duotomo.io import CheckpointFile, fingerprint, read_study
from duotomo.methods import Result, Settings, Study, iterative, sequential, simultaneous
from duotomo.transforms import Affine, BSpline, Rigid

FILES = Path(__file__).parents[1] / "data" / "version_1"

CASES: dict[str, tuple[Callable[..., Result], Callable[[Study], Settings]]] = {
    "simultaneous_affine": (simultaneous, lambda study: Settings.for_study(study, Affine)),
    "simultaneous_bspline": (
        simultaneous,
        lambda study: Settings.for_study(study, BSpline.shaped((4, 4, 5))),
    ),
    "sequential": (sequential, lambda study: Settings.for_study(study, Affine)),
    "iterative": (iterative, lambda study: Settings.plain(Rigid, n_turns=8)),
}

each = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def study() -> Study:
    return read_study(FILES / "study.h5")


def checkpoint(name: str, study: Study) -> CheckpointFile:
    method, settings = CASES[name]
    return CheckpointFile(
        FILES / f"{name}.h5", fingerprint(study, method=method.__name__, settings=settings(study))
    )


class Unsaved(CheckpointFile):
    """Leaves the file as it is."""

    def save(self, state: object) -> None:
        pass


@each
def test_a_checkpoint_is_resumed_to_the_same_result(name: str, study: Study) -> None:
    method, settings = CASES[name]
    left_off = checkpoint(name, study).load()
    assert left_off is not None
    assert left_off.history[-1].number == len(left_off.history) > 0
    of = fingerprint(study, method=method.__name__, settings=settings(study))
    found = method(study, settings(study), checkpoint=Unsaved(FILES / f"{name}.h5", of))
    with np.load(FILES / "expected.npz") as expected:
        n_motions = sum(key.startswith(f"{name}/params") for key in expected)
        assert len(found.motions) == n_motions
        got = {f"params_{i}": motion.params.numpy() for i, motion in enumerate(found.motions)}
        got["volume"] = found.volume.numpy()
        steps = [(step.objective, step.step_size, step.applications) for step in found.history]
        got["history"] = np.array(steps)
        for part, values in got.items():
            before = expected[f"{name}/{part}"]
            atol = 1e-5 * np.abs(before).max()
            np.testing.assert_allclose(values, before, rtol=1e-5, atol=atol, err_msg=part)
