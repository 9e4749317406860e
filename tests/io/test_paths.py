"""Files are whole or not there, and what cannot be read or written is said before work is done."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import pytest
import torch

import duotomo
from duotomo.errors import DuotomoError, NonFiniteError
from duotomo.io import FileError, read_displacement, read_transform, write_displacement, write_transform
from duotomo.transforms import Motion, Translation
from tests.io.itk_helpers import GRID, sitk

SHIFT = Translation(GRID)
PARAMS = SHIFT.params(translation_mm=(1.0, 2.0, 3.0))

Write = Callable[[Path, torch.Tensor], None]
Read = Callable[[Path], Any]


def write_t(path: Path, params: torch.Tensor = PARAMS) -> None:
    write_transform(path, Motion(SHIFT, params))


def write_u(path: Path, params: torch.Tensor = PARAMS) -> None:
    write_displacement(path, Motion(SHIFT, params), GRID)


def read_t(path: Path) -> Any:
    return read_transform(path, GRID)


WRITERS = [(write_t, ".tfm"), (write_t, ".h5"), (write_u, ".nii"), (write_u, ".nii.gz"), (write_u, ".mha")]
READERS = [(read_t, ".tfm"), (read_t, ".h5"), (read_displacement, ".nii.gz"), (read_displacement, ".mha")]
writers = pytest.mark.parametrize(("write", "suffix"), WRITERS, ids=[s for _, s in WRITERS])
readers = pytest.mark.parametrize(("read", "suffix"), READERS, ids=[s for _, s in READERS])


def test_file_errors_are_errors_of_duotomo() -> None:
    assert issubclass(FileError, DuotomoError)


@writers
def test_only_the_file_appears(write: Write, suffix: str, tmp_path: Path) -> None:
    write(tmp_path / f"a name{suffix}", PARAMS)
    assert os.listdir(tmp_path) == [f"a name{suffix}"]
    assert (tmp_path / f"a name{suffix}").stat().st_mode & 0o777 == 0o600


@writers
def test_a_new_file_replaces_an_older_one(write: Write, suffix: str, tmp_path: Path) -> None:
    path, alone = tmp_path / f"t{suffix}", tmp_path / f"alone{suffix}"
    write(path, PARAMS)
    write(path, 2 * PARAMS)
    write(alone, 2 * PARAMS)
    read = read_t if suffix in (".tfm", ".h5") else read_displacement
    torch.testing.assert_close(read(path).params, read(alone).params, rtol=0, atol=0)


@writers
def test_a_failure_half_way_leaves_everything_as_it_was(
    write: Write, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(sitk, "WriteTransform", lambda _, path: half(path))
    monkeypatch.setattr(sitk, "WriteImage", lambda _, path: half(path))
    monkeypatch.setattr(nibabel.Nifti1Image, "to_filename", lambda _, path: half(path))
    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(FileError, match=rf"expected to write .*t{suffix}; got: No space left on device"):
        write(path, PARAMS)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"old"


@writers
def test_an_interrupt_leaves_everything_as_it_was(
    write: Write, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / f"t{suffix}", PARAMS)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
@writers
def test_a_folder_that_cannot_be_written_to(write: Write, suffix: str, tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(FileError, match=r"expected to write .*Check that the folder can be written to"):
        write(tmp_path / f"t{suffix}", PARAMS)


@writers
def test_a_library_that_cannot_open_the_file(
    write: Write, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder that vanishes after it was looked for behaves like one that cannot be written to.
    monkeypatch.setattr(Path, "is_dir", lambda path: path == tmp_path / "gone")
    with pytest.raises(FileError, match=r"expected to write .*Check that the folder can be written to"):
        write(tmp_path / "gone" / f"t{suffix}", PARAMS)


@writers
def test_missing_folders_and_folders_are_refused(write: Write, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"write_\w+: expected a folder at .*missing; got none\. Make it"):
        write(tmp_path / "missing" / f"t{suffix}", PARAMS)
    (tmp_path / f"t{suffix}").mkdir()
    with pytest.raises(FileError, match=r"write_\w+: expected the path of a file; got .*, which is a folder"):
        write(tmp_path / f"t{suffix}", PARAMS)


@pytest.mark.parametrize("name", ["t", "t.mat", "t.tfm.zip", ".tfm", "t.TFM", "t.nii"])
def test_other_suffixes_are_not_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"write_transform: expected a name that ends in \.tfm, \.h5; got '"):
        write_t(tmp_path / name)


@pytest.mark.parametrize("name", ["u", "u.tfm", "u.gz", ".nii.gz"])
def test_other_suffixes_of_images_are_not_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected a name that ends in \.nii\.gz, \.nii, \.mha; got '"):
        write_u(tmp_path / name)


@writers
def test_wrong_parameters_write_nothing(write: Write, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match="Translation: expected params to be finite"):
        write(tmp_path / f"t{suffix}", torch.tensor([0.0, float("nan"), 0.0]))
    assert os.listdir(tmp_path) == []


@readers
def test_missing_files_and_folders_are_not_read(read: Read, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=rf"read_\w+: expected a file at .*t{suffix}; got nothing there"):
        read(tmp_path / f"t{suffix}")
    (tmp_path / f"t{suffix}").mkdir()
    with pytest.raises(FileError, match=rf"read_\w+: expected a file at .*t{suffix}; got a folder"):
        read(tmp_path / f"t{suffix}")


@pytest.mark.parametrize("read", [read_t, read_displacement])
def test_other_suffixes_are_not_read(read: Read, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(FileError, match=r"expected a name that ends in \..*; got 't\.json'"):
        read(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("write", "suffix", "library"),
    [(write_t, ".tfm", "SimpleITK"), (write_u, ".mha", "SimpleITK"), (write_u, ".nii", "nibabel")],
)
def test_a_missing_library_is_named(
    write: Write, suffix: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in its place makes an import fail as if the library were not there.
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(FileError, match=rf"expected {library} to be installed; .* pip install {library}"):
        write(tmp_path / f"t{suffix}", PARAMS)
    assert os.listdir(tmp_path) == []


def test_importing_loads_no_library() -> None:
    code = "import sys, duotomo.io; print([n for n in ('SimpleITK', 'nibabel') if n in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(Path(duotomo.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
