"""Volumes survive NIfTI bit for bit, and lie in space where their grid says."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io import FileError, read_volume, write_volume
from duotomo.io.patient_frame import ras_affine
from tests.io.itk_helpers import LPS, sitk
from tests.io.saved_helpers import GRID, draw, same, written_and_read

VOLUME = draw(*GRID.shape, seed=0)


@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    grid = written_and_read(tmp_path, name, dtype)
    np.testing.assert_allclose(grid.low_mm, GRID.low_mm, atol=1e-6)
    assert grid.spacing_mm == GRID.spacing_mm


def test_other_programs_find_voxels_where_the_grid_has_them(tmp_path: Path) -> None:
    write_volume(tmp_path / "v.nii.gz", VOLUME, GRID)
    xyz_mm = voxel_to_world(GRID, (1, 4, 2))
    image = sitk.ReadImage(str(tmp_path / "v.nii.gz"))
    index = image.TransformPhysicalPointToIndex((LPS * xyz_mm).tolist())
    assert image[index] == VOLUME[1, 4, 2]
    nifti = nibabel.load(tmp_path / "v.nii.gz")
    i, j, k = np.rint(np.linalg.solve(nifti.affine, [*xyz_mm, 1.0])[:3]).astype(int)
    assert nifti.get_fdata()[i, j, k] == VOLUME[1, 4, 2]
    assert nibabel.aff2axcodes(nifti.affine) == ("R", "A", "S")
    assert nifti.header.get_xyzt_units()[0] == "mm"


@given(order=st.permutations(range(3)), flips=st.tuples(*[st.booleans()] * 3))
def test_axes_may_be_permuted_and_flipped(
    order: list[int], flips: tuple[bool, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.25))
    volume = draw(2, 3, 4, seed=1)
    image = nibabel.Nifti1Image(volume.numpy().transpose(2, 1, 0), ras_affine(grid))
    turn = np.stack([order, [-1 if flip else 1 for flip in flips]], axis=1)
    path = tmp_path_factory.mktemp("turned") / "v.nii"
    image.as_reoriented(turn).to_filename(str(path))
    found, where = read_volume(path)
    assert same(found, volume)
    assert where == grid


def test_integers_become_float32(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    nibabel.Nifti1Image(values, np.eye(4)).to_filename(str(tmp_path / "v.nii"))
    found, _ = read_volume(tmp_path / "v.nii")
    assert same(found, torch.from_numpy(values.transpose(2, 1, 0).astype(np.float32)))


def _without_place(image: Any) -> None:
    image.set_sform(None)
    image.set_qform(None)


def _turned(image: Any) -> None:
    image.set_sform([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], code=1)


def _flat(image: Any) -> None:
    image.set_sform(np.diag([0.0, 1, 1, 1]), code=1)


@pytest.mark.parametrize(
    ("change", "shape", "message"),
    [
        (_without_place, (2, 3, 4), r"expected an sform or a qform; got neither"),
        (_turned, (2, 3, 4), r"expected axes along the machine's; got the directions .*Resample the image"),
        (_flat, (2, 3, 4), r"expected finite voxels of some size; got the affine"),
        (lambda _: None, (2, 3, 4, 5), r"expected an image of 3 dimensions and 1 component; got 4 and 1\."),
    ],
)
def test_other_images_are_refused(
    change: Callable[[Any], None], shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    image = nibabel.Nifti1Image(np.ones(shape, dtype=np.float32), np.eye(4))
    change(image)
    image.to_filename(str(tmp_path / "v.nii"))
    with pytest.raises(FileError, match=rf"read_volume: .*v\.nii: .*{message}"):
        read_volume(tmp_path / "v.nii")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float, tmp_path: Path) -> None:
    path = tmp_path / "v.nii.gz"
    write_volume(path, VOLUME, GRID)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(
        FileError, match=r"read_volume: .*: expected .*; got.*Check that the file is complete"
    ):
        read_volume(path)


def test_wrong_volumes_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"write_volume: expected volume \(z, y, x\) = \(4, 6, 5\)"):
        write_volume(tmp_path / "v.nii", VOLUME.permute(2, 1, 0), GRID)
    with pytest.raises(NonFiniteError, match=r"write_volume: expected volume to be finite"):
        write_volume(tmp_path / "v.nii", VOLUME / 0, GRID)
    assert os.listdir(tmp_path) == []


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(FileError, match=r"expected nibabel to be installed; .* pip install nibabel"):
        write_volume(tmp_path / "v.nii", VOLUME, GRID)
