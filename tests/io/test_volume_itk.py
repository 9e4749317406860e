"""Volumes survive MetaImage and NRRD bit for bit; headers cannot lead elsewhere, or ask for too much."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.io import FileError, read_volume, write_volume
from tests.io.itk_helpers import directions, is_aligned, sitk
from tests.io.saved_helpers import GRID, draw, written_and_read

VOLUME = draw(*GRID.shape, seed=0)

each = pytest.mark.parametrize("name", ["v.mha", "v.nrrd"])


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    grid = written_and_read(tmp_path, name, dtype)
    assert grid.shape == GRID.shape
    np.testing.assert_allclose(grid.spacing_mm, GRID.spacing_mm, rtol=1e-12)
    np.testing.assert_allclose(grid.center_mm, GRID.center_mm, rtol=1e-12)


@each
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("which", directions())
def test_images_that_simpleitk_wrote(name: str, packed: bool, which: str, tmp_path: Path) -> None:
    direction = directions()[which]
    values = np.random.default_rng(0).integers(0, 99, size=(3, 4, 5)).astype(np.int16)
    image = sitk.GetImageFromArray(values)
    image.SetSpacing((0.5, 0.75, 2.0))
    image.SetOrigin((1.0, -2.0, 3.0))
    image.SetDirection(direction.ravel().tolist())
    path = tmp_path / name
    sitk.WriteImage(image, str(path), useCompression=packed)
    if not is_aligned(direction):
        with pytest.raises(FileError, match="expected axes along the machine's; got the directions"):
            read_volume(path)
        return
    volume, grid = read_volume(path)
    assert volume.dtype == torch.float32
    # The brightest voxels lie where ITK has them.
    write_volume(tmp_path / "again.mha", volume, grid)
    again = sitk.Resample(
        sitk.ReadImage(str(tmp_path / "again.mha")), image, sitk.Transform(), sitk.sitkLinear
    )
    np.testing.assert_allclose(sitk.GetArrayFromImage(again), values, atol=1e-4)


@each
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.99])
def test_images_cut_short_are_refused(name: str, share: float, tmp_path: Path) -> None:
    path = tmp_path / name
    write_volume(path, VOLUME, GRID)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(
        FileError, match=rf"read_volume: .*{name}: expected .*Check that the file is complete"
    ):
        read_volume(path)


@each
def test_vectors_are_no_volume(name: str, tmp_path: Path) -> None:
    sitk.WriteImage(sitk.GetImageFromArray(np.zeros((2, 3, 4, 3)), isVector=True), str(tmp_path / name))
    with pytest.raises(FileError, match="expected an image of 3 dimensions and 1 component; got 3 and 3"):
        read_volume(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("v.mha", rb"ElementDataFile = LOCAL", b"ElementDataFile = /etc/hostname"),
        ("v.nrrd", rb"encoding: raw", b"encoding: raw\ndata file: /etc/hostname"),
    ],
)
def test_voxels_in_another_file_are_not_looked_for(name: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    write_volume(path, VOLUME, GRID)
    data, n = re.subn(old, new, path.read_bytes(), count=1)
    assert n == 1
    path.write_bytes(data)
    with pytest.raises(FileError, match="expected header and voxels in one file; got the name of another"):
        read_volume(path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("v.mha", rb"DimSize = .*", b"DimSize = 100000 100000 100000"),
        ("v.nrrd", rb"sizes: .*", b"sizes: 100000 100000 100000"),
    ],
)
def test_absurd_sizes_are_refused_before_memory_is_taken(
    name: str, old: bytes, new: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name
    write_volume(path, VOLUME, GRID)
    data, n = re.subn(old, new, path.read_bytes(), count=1)
    assert n == 1
    path.write_bytes(data)
    with pytest.raises(FileError, match=rf"{name} to need at most the .*; got a header that asks for 4000"):
        read_volume(path)


@each
def test_a_missing_library_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    with pytest.raises(FileError, match=r"expected SimpleITK to be installed; .* pip install SimpleITK"):
        write_volume(tmp_path / name, VOLUME, GRID)
    assert os.listdir(tmp_path) == []
