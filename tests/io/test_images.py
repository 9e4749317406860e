"""What is wrong with the header of an image is said, whatever the image is read as."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duotomo.io import FileError, read_displacement, read_volume, recognise
from tests.io.itk_helpers import sitk

VECTORS = np.zeros((2, 3, 4, 3))


@pytest.mark.parametrize("channels", [b"0", b"1.5", b"many"])
def test_a_number_of_channels_that_cannot_be(channels: bytes, tmp_path: Path) -> None:
    path = tmp_path / "u.mha"
    sitk.WriteImage(sitk.GetImageFromArray(VECTORS, isVector=True), str(path))
    data = path.read_bytes()
    changed = data.replace(b"ElementNumberOfChannels = 3", b"ElementNumberOfChannels = " + channels)
    assert changed != data
    path.write_bytes(changed)
    for read in (read_displacement, recognise):
        with pytest.raises(
            FileError, match=r"expected (ElementNumberOfChannels of 1|1 whole number in Elem)"
        ):
            read(path)


def test_numbers_of_other_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.nrrd"
    sitk.WriteImage(sitk.GetImageFromArray(VECTORS[..., 0].astype(np.complex64)), str(path))
    with pytest.raises(FileError, match=r"v\.nrrd of whole or floating-point numbers; got the type .complex"):
        read_volume(path)


@pytest.mark.parametrize("name", ["v.nrrd", "v.nii", "v.mha"])
def test_other_bytes_are_no_image(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"something else")
    for read in (read_volume, recognise):
        with pytest.raises(FileError, match=rf"(read_volume|recognise): .*{name}: expected .* complete"):
            read(tmp_path / name)
