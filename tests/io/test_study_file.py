"""A study survives its file bit for bit, or the file is refused with a reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from duotomo.geometry import Acquisition
from duotomo.io import FileError, read_study, write_study
from duotomo.methods.study import Study, Visit
from tests.io.saved_helpers import GRID, SCAN, SEEN, draw, edited, n_refused, same, study


def same_study(one: Study, other: Study) -> bool:
    return (
        one.grid == other.grid
        and len(one.visits) == len(other.visits)
        and all(same_visit(a, b) for a, b in zip(one.visits, other.visits, strict=True))
    )


def same_visit(one: Visit, other: Visit) -> bool:
    weights = (one.weights, other.weights)
    return (
        one.acquisition == other.acquisition
        and one.grid == other.grid
        and same(one.projections, other.projections)
        and (weights == (None, None) or (None not in weights and same(*weights)))
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a study that has been written."""
    write_study(tmp_path / "study.h5", study())
    return tmp_path / "study.h5"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["a study.h5", "s.hdf5"])
def test_what_is_written_is_read(dtype: torch.dtype, name: str, tmp_path: Path) -> None:
    write_study(tmp_path / name, study(dtype))
    assert os.listdir(tmp_path) == [name]
    assert same_study(read_study(str(tmp_path / name)), study(dtype))


def test_a_scan_of_many_views_fits(tmp_path: Path) -> None:
    angles = np.linspace(-0.4, 0.4, 800)
    source = np.stack([660 * np.sin(angles), np.full(800, np.pi), 660 * np.cos(angles)], axis=1)
    views = {"detector_center_mm": (0, 2, 0), "u_axis": (1, 0, 0), "v_axis": (0, 1, 0)}
    scan = Acquisition(
        source_mm=source,
        **{name: [vector] * 800 for name, vector in views.items()},
        pixel_spacing_mm=(1, 1),
        detector_shape=(4, 4),
    )
    assert len(scan.to_json()) > 2**16
    many = Study(grid=GRID, visits=(Visit(projections=draw(800, 4, 4, seed=1), acquisition=scan),))
    write_study(tmp_path / "many.h5", many)
    assert same_study(read_study(tmp_path / "many.h5"), many)


def test_strides_do_not_matter(tmp_path: Path) -> None:
    turned = draw(*SCAN.shape[::-1], seed=1).permute(2, 1, 0)
    write_study(tmp_path / "s.h5", Study(grid=GRID, visits=(Visit(projections=turned, acquisition=SCAN),)))
    assert same(read_study(tmp_path / "s.h5").reference.projections, turned)


def test_a_failure_half_way_leaves_everything_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"write_study: expected to write .*study\.h5; got: No space left"):
        write_study(path, study(torch.float64))
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before


def test_no_damaged_byte_goes_unnoticed(path: Path) -> None:
    def check(which: str) -> None:
        assert same_study(read_study(path), study()), which

    assert n_refused(path, check, every=31) > 100


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(FileError, match=r"read_study: .*: expected .*; got"):
        read_study(path)


def _set(name: str, where: str, value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file[where].attrs.__setitem__(name, value)


def _drop(where: str) -> Callable[[h5py.File], None]:
    return lambda file: file.__delitem__(where)


def _put(where: str, values: Any) -> Callable[[h5py.File], None]:
    def put(file: h5py.File) -> None:
        del file[where]
        file[where] = values

    return put


def _group(where: str) -> Callable[[h5py.File], None]:
    def put(file: h5py.File) -> None:
        del file[where]
        file.create_group(where)

    return put


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("format", "/", "other"), r"expected a file of format 'duotomo study'; got 'other'"),
        (_set("format", "/", 3), r"expected text in the attribute 'format' of /; got int"),
        (
            _set("version", "/", 3),
            r"expected version 1 or 2 of the format 'duotomo study'; got 3\. Read it with",
        ),
        (_drop("grid"), r"expected /grid in the file; got \['visits'\] there"),
        (_set("json", "grid", "{}"), r"VolumeGrid\.from_json: expected kind 'VolumeGrid'"),
        (_drop("visits/1"), r"expected members 0, 1, \.\.\. without a gap in /visits; got \['0', '2'\]"),
        (_drop("visits/1/projections"), r"expected /visits/1/projections in the file"),
        (
            lambda file: file["visits/0"].attrs.__delitem__("acquisition"),
            r"expected text in the attribute 'acquisition' of /visits/0; got none",
        ),
        (
            _put("visits/0/projections", np.ones(SCAN.shape, dtype=np.int16)),
            r"expected float32 or float64 \(view, v, u\) at /visits/0/projections; got int16 of shape",
        ),
        (_put("visits/0/projections", np.ones((2, 2), dtype=np.float32)), r"got float32 of shape \(2, 2\)"),
        (_group("visits/0/projections"), r"got a group\. Convert it"),
        (
            _put("visits/0/projections", np.ones((3, 7, 6), dtype=np.float32)),
            r"Visit: expected projections \(view, v, u\) = \(3, 6, 7\); got \(3, 7, 6\)",
        ),
        (
            _put("visits/0/projections", np.ones(SCAN.shape, dtype=np.float64)),
            r"Study, visit 2: expected projections of torch\.float64; got torch\.float32",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    change: Callable[[h5py.File], None], message: str, path: Path
) -> None:
    with edited(path) as file:
        change(file)
    with pytest.raises(FileError, match=rf"read_study: .*study\.h5: .*{message}"):
        read_study(path)


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.attrs["format"], file.attrs["version"] = "duotomo study", 1
        file.create_group("grid").attrs["json"] = GRID.to_json()
        for number in range(2):
            visit = file.create_group(f"visits/{number}")
            visit["projections"] = draw(*SCAN.shape, seed=number).numpy().astype(">f4")
            visit.attrs["acquisition"] = np.bytes_(SCAN.to_json())
        visit.attrs["grid"] = SEEN.to_json()
    found = read_study(tmp_path / "s.h5")
    assert same(found.reference.projections, draw(*SCAN.shape, seed=0))
    assert (found.grid, found.reference.grid, found.moving[0].grid) == (GRID, None, SEEN)


def test_paths_are_checked(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"read_study: expected a file at .*none\.h5; got nothing there"):
        read_study(tmp_path / "none.h5")
    with pytest.raises(
        FileError, match=r"write_study: expected a name that ends in \.h5, \.hdf5; got 's\.mat'"
    ):
        write_study(tmp_path / "s.mat", study())
    with pytest.raises(FileError, match=r"write_study: expected a folder at .*none; got none"):
        write_study(tmp_path / "none" / "s.h5", study())


def test_a_missing_library_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(FileError, match=r"expected h5py to be installed; .* pip install h5py"):
        read_study(path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_study_is_read_to_the_gpu(path: Path) -> None:
    assert read_study(path, "cuda").reference.projections.is_cuda
