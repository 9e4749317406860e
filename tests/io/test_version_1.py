"""What the version before wrote is still read, and its runs go on to the same result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from duotomo.io import (
    CheckpointFile,
    FileError,
    fingerprint,
    read_displacement,
    read_result,
    read_study,
    write_result,
)
from duotomo.io.checkpoint_file import history_from
from duotomo.io.run_fingerprint import settings_key, version_1_repr
from duotomo.methods import Result, Settings, Study, iterative, sequential, simultaneous
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Velocity, chain

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

PLAIN_RIGID = "ef72696f3680537a7a381a6d11aecd94ca3ed9a0583b9c5b44fd887f1927bcec"

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


def test_the_settings_of_another_run_are_refused(study: Study) -> None:
    other = fingerprint(study, method="simultaneous", settings=Settings.for_study(study, Rigid))
    with pytest.raises(FileError, match=r"got that of one with another settings\. Choose another folder"):
        replace(checkpoint("simultaneous_affine", study), fingerprint=other).load()


@pytest.mark.parametrize(
    "model", [Velocity.shaped((4, 4, 5)), BSpline.spaced(25.0), chain(Affine, BSpline.shaped((4, 4, 5)))]
)
def test_models_that_version_1_did_not_have(model: Model, study: Study) -> None:
    settings = Settings.for_study(study, model)
    assert version_1_repr(settings) is None
    of = fingerprint(study, method="simultaneous", settings=settings)
    with pytest.raises(FileError, match=r"with another settings"):
        replace(checkpoint("simultaneous_affine", study), fingerprint=of).load()


def test_the_settings_of_version_1_are_put_together_again(study: Study) -> None:
    index = json.loads((FILES / "result" / "result.json").read_text())
    settings = Settings.for_study(study, BSpline.shaped((4, 4, 5)))
    short = replace(settings, stages=tuple(replace(stage, n_steps=5) for stage in settings.stages))
    assert version_1_repr(short) == index["settings"]["python"]
    found = fingerprint(study, method="simultaneous", settings=short)
    assert found.differing(index["settings"]["fingerprint"]) == []


def test_keys_of_settings_stay_what_they_are() -> None:
    assert settings_key(Settings.plain(Rigid)) == PLAIN_RIGID


def test_the_result_is_read(study: Study) -> None:
    found = read_result(FILES / "result")
    assert (found.method, found.models) == ("simultaneous", ("BSpline",))
    assert list(found.others) == ["visit_1", "visit_2", "visit_2_registered"]
    assert found.history[-1].number == len(found.history) == 50
    assert found.history[0].step_size == 0.000857386395299112
    assert found.quality["folded_voxels"] == [0]
    (motion,) = found.motions
    own = BSpline.over(study.grid, (4, 4, 5))
    expected = Motion(own, found.params[0]).displacement(study.grid)
    torch.testing.assert_close(motion.displacement(study.grid), expected, rtol=0, atol=1e-9)
    image = read_displacement(FILES / "result" / "displacement_1.nii.gz")
    torch.testing.assert_close(image.displacement(), expected, rtol=0, atol=1e-6)


def test_a_new_result_takes_its_place(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    shutil.copytree(FILES / "result", folder)
    old = read_result(folder)
    write_result(folder, old, study=study, settings={})
    assert torch.equal(read_result(folder).volume, old.volume)
    assert not list(folder.glob("transform_1*")) + list(folder.glob("displacement_1*"))
    assert (folder / "settings.toml").is_file()


def test_histories_of_version_1_are_read() -> None:
    text = (FILES / "result" / "history.csv").read_text()
    assert text.startswith("stage,what,step,objective,gradient_norm,step_length,applications,seconds")
    assert history_from(text)[1].number == 2


def test_later_versions_are_refused(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "sequential.h5"
    shutil.copy(FILES / "sequential.h5", path)
    with h5py.File(path, "a") as file:
        file.attrs["version"] = 3
    with pytest.raises(
        FileError, match=r"expected version 1 or 2 of the format 'duotomo checkpoint'; got 3\. Read it with"
    ):
        replace(checkpoint("sequential", study), path=path).load()
