"""NIfTI files are unpacked as far as their header goes, and no further."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel
import pytest

from duotomo.io import FileError, read_displacement, read_volume, write_volume
from duotomo.io.patient_frame import ras_affine
from tests.io.saved_helpers import GRID, draw, same

VOLUME = draw(*GRID.shape, seed=0)


def test_packed_or_not_the_volume_is_the_same(tmp_path: Path) -> None:
    write_volume(tmp_path / "v.nii", VOLUME, GRID)
    (tmp_path / "v.nii.gz").write_bytes(gzip.compress((tmp_path / "v.nii").read_bytes()))
    assert same(read_volume(tmp_path / "v.nii")[0], read_volume(tmp_path / "v.nii.gz")[0])


def test_longer_headers_are_read_too(tmp_path: Path) -> None:
    image = nibabel.Nifti2Image(VOLUME.numpy().transpose(2, 1, 0), ras_affine(GRID))
    image.to_filename(tmp_path / "v.nii")
    assert same(read_volume(tmp_path / "v.nii")[0], VOLUME)


@pytest.mark.parametrize("read", [read_volume, read_displacement])
def test_a_bomb_is_refused(read, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write_volume(tmp_path / "v.nii", VOLUME, GRID)
    data = (tmp_path / "v.nii").read_bytes()
    with gzip.open(tmp_path / "v.nii.gz", "wb") as file:
        file.write(data)
        for _ in range(64):
            file.write(bytes(2**20))
    with pytest.raises(FileError, match=r"expected v\.nii\.gz to end after its 480 bytes; got more"):
        read(tmp_path / "v.nii.gz")


@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz"])
def test_an_absurd_size_is_refused_before_memory_is_taken(name: str, tmp_path: Path) -> None:
    header = nibabel.Nifti1Header()
    header.set_data_shape((30000, 30000, 30000))
    data = header.binaryblock + bytes(100)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(FileError, match=r"to need at most .*; got a header that asks for 108\.0 TB"):
        read_volume(tmp_path / name)


def test_a_size_that_the_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    write_volume(tmp_path / "v.nii", VOLUME, GRID)
    header = nibabel.Nifti1Header((tmp_path / "v.nii").read_bytes()[:348])
    header.set_data_shape((50, 50, 50))
    (tmp_path / "v.nii").write_bytes(header.binaryblock + (tmp_path / "v.nii").read_bytes()[348:])
    with pytest.raises(FileError, match=r"expected \d+ bytes of numbers, as the header of v\.nii says"):
        read_volume(tmp_path / "v.nii")
