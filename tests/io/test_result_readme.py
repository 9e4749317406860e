"""The text in a result folder is true: its two lines of SimpleITK bring a visit to the reference."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io import read_result, read_transform, write_result
from duotomo.methods import Result, resample_to_reference
from duotomo.transforms import Affine, BSpline, Model, Motion, Rigid, Translation, Velocity, chain
from tests.cases.transforms import draw_params
from tests.io.itk_helpers import moved_by_us, points_on, sitk
from tests.io.saved_helpers import converged

GRID = VolumeGrid.on_detector((12, 16, 14), (2.0, 1.5, 1.5), gap_mm=3.0)
MOVING = VolumeGrid.on_detector((10, 17, 15), (2.2, 1.5, 1.5), gap_mm=4.0)
MODELS: dict[str, Model] = {
    "translation": Translation,
    "rigid": Rigid,
    "affine": Affine,
    "bspline": BSpline.shaped((5, 5, 5)),
    "velocity": Velocity.shaped((5, 5, 5)),
    "chain": chain(Affine, BSpline.shaped((5, 5, 5))),
}


def blob(grid: VolumeGrid) -> torch.Tensor:
    """Return a smooth body, well inside of both grids."""
    index = np.stack(np.meshgrid(*(np.arange(n) for n in grid.shape), indexing="ij"), axis=-1)
    off = (voxel_to_world(grid, index) - (1.0, 12.0, 14.0)) / 3.0
    return torch.from_numpy(0.05 * np.exp(-(off**2).sum(axis=-1)))


def result(motion: Motion) -> Result:
    visit = blob(MOVING)
    registered = resample_to_reference(visit, motion, grid=GRID, moving_grid=MOVING)
    return converged(
        grid=GRID,
        volume=blob(GRID),
        others={"visit_2": visit, "visit_2_registered": registered},
        grids={"visit_2": MOVING},
        motions=(motion,),
        reason="All is well.",
    )


def drawn(model: Model) -> Motion:
    transform = model(MOVING)
    return Motion(transform, draw_params(transform, seed=2, size_voxels=0.4, turn_deg=10, stretch=0.1))


def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the code that `README.txt` has, and return what it makes."""
    monkeypatch.chdir(folder)
    code = re.findall(r"^    (.*)$", Path("README.txt").read_text(), re.MULTILINE)
    assert len(code) == 2
    names: dict[str, Any] = {"sitk": sitk}
    exec("\n".join(code), names)
    return sitk.GetArrayFromImage(names["registered"])


@pytest.mark.parametrize("name", MODELS)
def test_the_code_resamples_the_visit_to_the_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    motion = drawn(MODELS[name])
    written = result(motion)
    write_result(tmp_path, written, moving_grids=[MOVING], settings={})
    expected = written.others["visit_2_registered"].numpy()
    np.testing.assert_allclose(run(tmp_path, monkeypatch), expected, rtol=0, atol=1e-3 * expected.max())
    # Without the motion it would be another volume.
    assert np.abs(expected - blob(GRID).numpy()).max() > 0.05 * expected.max()


@pytest.mark.parametrize("name", MODELS)
def test_the_two_files_undo_each_other(name: str, tmp_path: Path) -> None:
    motion = drawn(MODELS[name])
    write_result(tmp_path, result(motion), moving_grids=[MOVING], settings={})
    back = read_transform(tmp_path / "reference_to_visit_2.tfm", GRID)
    there = read_transform(tmp_path / "visit_2_to_reference.tfm", MOVING)
    points = points_on(GRID, inset=1.0)
    missed = np.linalg.norm(moved_by_us(there, moved_by_us(back, points)) - points, axis=1)
    # Between the points of a lattice, an inverse is linear.
    assert missed.max() < (1e-9 if name in ("translation", "rigid", "affine") else 0.1)


def test_what_is_in_the_folder_is_in_the_text(tmp_path: Path) -> None:
    files = write_result(
        tmp_path, result(drawn(Rigid)), moving_grids=[MOVING], settings={}, displacements=True
    )
    text = (tmp_path / "README.txt").read_text()
    for path in files:
        assert path.is_file()
        assert path.name in text or path.name == "README.txt"
    assert re.search(r"^visit_2_to_reference\.tfm .* takes points of visit 2 to the reference$", text, re.M)
    assert "converged. All is well." in text


def test_a_result_without_motion_says_nothing_of_resampling(tmp_path: Path) -> None:
    alone = replace(result(drawn(Rigid)), motions=(), others={}, grids={})
    write_result(tmp_path, alone, settings={})
    assert "Resample" not in (tmp_path / "README.txt").read_text()
    assert read_result(tmp_path).motions == ()


def test_a_motion_that_folds_is_written_and_said_to_fold(tmp_path: Path) -> None:
    spline = BSpline.over(MOVING, (5, 5, 5))
    torn = Motion(spline, 20 * draw_params(spline, seed=3))
    write_result(tmp_path, result(torn), moving_grids=[MOVING], settings={})
    text = (tmp_path / "README.txt").read_text()
    assert re.search(r"reference_to_visit_2\.tfm .* at \d+ of them the motion folds, and has no inv", text)
