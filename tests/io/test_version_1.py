"""What the version before wrote is still read, and its runs go on to the end."""

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
from duotomo.methods import (
    Coupled,
    Priors,
    Result,
    Settings,
    Stage,
    Study,
    iterative,
    sequential,
    simultaneous,
)
from duotomo.solvers import Status
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Translation, Velocity, chain

FILES = Path(__file__).parents[1] / "data" / "version_1"

PRIORS = Priors(total_variation=1.0, bending=2e-4, edges=0.0, offset=0.0)
"""Those that version 1 had unless told otherwise."""


def stage(model: Model | None, n_steps: int, *, stiffness: float = 1.0, fresh: bool = False) -> Stage:
    return Stage(coarsen=(1, 1, 1), model=model, n_steps=n_steps, stiffness=stiffness, fresh=fresh)


def version_1(*stages: Stage) -> Settings:
    """Return settings as version 1 made them: values of voxels, all rays alike, exposures that are known."""
    solver = Coupled(memory=12, block=150)
    return Settings(stages=stages, solver=solver, priors=PRIORS, tolerance=1e-5, basis="voxel")


SPLINE = BSpline.shaped((4, 4, 5))
STIFFNESS = ((80, 150.0), (80, 50.0), (100, 15.0), (100, 5.0), (150, 1.0), (120, 1.0))
OF_AFFINE = version_1(stage(Translation, 20), stage(Rigid, 20), stage(Affine, 150), stage(Affine, 120))
OF_SPLINE = version_1(
    stage(Translation, 20),
    stage(None, 100, fresh=True),
    *(stage(SPLINE, n_steps, stiffness=stiffness) for n_steps, stiffness in STIFFNESS),
)
CASES: dict[str, tuple[Callable[..., Result], Settings]] = {
    "simultaneous_affine": (simultaneous, OF_AFFINE),
    "simultaneous_bspline": (simultaneous, OF_SPLINE),
    "sequential": (sequential, OF_AFFINE),
    "iterative": (iterative, Settings.plain(Rigid, n_turns=8)),
}

PLAIN_RIGID = "f01339b2e5bce7049fd0e66df2c84daed17b4e7608cea15cad8c1f4c5114003e"

each = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def study() -> Study:
    return read_study(FILES / "study.h5")


def checkpoint(name: str, study: Study) -> CheckpointFile:
    method, settings = CASES[name]
    return CheckpointFile(FILES / f"{name}.h5", fingerprint(study, method=method.__name__, settings=settings))


class Unsaved(CheckpointFile):
    """Leaves the file as it is."""

    def save(self, state: object) -> None:
        pass


@each
def test_a_checkpoint_is_resumed_to_the_end(name: str, study: Study) -> None:
    """With its own settings, to a result near that of version 1, on voxels of 4 mm.

    Not to the same one: the noise is estimated otherwise, and with it the weight of total variation; a
    decrease is judged over ten steps, so that runs go on for longer; the bending energy is relative to
    another diagonal; and volumes are registered by their edges. Bounds are those measured, and a fifth.
    """
    method, settings = CASES[name]
    left_off = checkpoint(name, study).load()
    assert left_off is not None
    assert left_off.history[-1].number == len(left_off.history) > 0
    of = fingerprint(study, method=method.__name__, settings=settings)
    found = method(study, settings, checkpoint=Unsaved(FILES / f"{name}.h5", of))
    assert found.status is not Status.DIVERGED
    assert found.history[: len(left_off.history)] == left_off.history
    assert len(found.history) > len(left_off.history)
    (motion,) = found.motions
    with np.load(FILES / "expected.npz") as expected:
        volume, params, history = (
            torch.from_numpy(expected[f"{name}/{part}"]) for part in ("volume", "params_0", "history")
        )
    before = [(step.objective, step.step_size, step.applications) for step in left_off.history]
    torch.testing.assert_close(torch.tensor(before, dtype=torch.float64), history[: len(before)])
    old = Motion(motion.transform, params.double())
    inside = old.warp(study.grid, motion.grid)(volume) > 0.2 * volume.max()
    off = (motion.displacement(motion.grid) - old.displacement(motion.grid)).norm(dim=0)[inside]
    off_mm, off_volume = MOST[name]
    assert float(off.mean()) <= off_mm
    assert float((found.volume - volume).norm()) <= off_volume * float(volume.norm())


MOST = {
    "simultaneous_affine": (0.12, 0.056),
    "simultaneous_bspline": (0.68, 0.080),
    # The volume of its reference was finished before.
    "sequential": (0.40, 1e-6),
    "iterative": (0.76, 0.028),
}
"""Differences from version 1: of the motion in the object, mean in mm, and of the volume, relative."""


def test_version_1_had_neither_splines_nor_offsets_nor_edges() -> None:
    assert version_1_repr(OF_AFFINE) is not None
    later = [
        replace(OF_AFFINE, basis="spline"),
        replace(OF_AFFINE, priors=replace(PRIORS, offset=0.02)),
        replace(OF_AFFINE, priors=replace(PRIORS, edges=0.1)),
        replace(OF_AFFINE, stiffer=OF_AFFINE.stages[:3]),
    ]
    assert [version_1_repr(one) for one in later] == [None] * 4


def test_the_settings_of_another_run_are_refused(study: Study) -> None:
    other = fingerprint(study, method="simultaneous", settings=version_1(stage(Rigid, 20)))
    with pytest.raises(FileError, match=r"got that of one with another settings\. Choose another folder"):
        replace(checkpoint("simultaneous_affine", study), fingerprint=other).load()


@pytest.mark.parametrize(
    "model", [Velocity.shaped((4, 4, 5)), BSpline.spaced(25.0), chain(Affine, BSpline.shaped((4, 4, 5)))]
)
def test_models_that_version_1_did_not_have(model: Model, study: Study) -> None:
    settings = version_1(stage(model, 20))
    assert version_1_repr(settings) is None
    of = fingerprint(study, method="simultaneous", settings=settings)
    with pytest.raises(FileError, match=r"with another settings"):
        replace(checkpoint("simultaneous_affine", study), fingerprint=of).load()


def test_the_settings_of_version_1_are_put_together_again(study: Study) -> None:
    index = json.loads((FILES / "result" / "result.json").read_text())
    short = replace(OF_SPLINE, stages=tuple(replace(one, n_steps=5) for one in OF_SPLINE.stages))
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
        file.attrs["version"] = 5
    with pytest.raises(
        FileError,
        match=r"expected version 1 or 2 or 3 or 4 of the format 'duotomo checkpoint'; got 5\. Read",
    ):
        replace(checkpoint("sequential", study), path=path).load()
