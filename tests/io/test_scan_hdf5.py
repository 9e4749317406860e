"""A scan survives its HDF5 file bit for bit, and other programs can write one by the documented layout."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from duotomo.geometry import Acquisition
from duotomo.io.paths import FileError
from duotomo.io.scan import Scan
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_hdf5 import read_scan_hdf5, write_scan
from duotomo.io.scan_options import Supplied, Values
from duotomo.io.study_file import write_study
from tests.io.saved_helpers import SCAN, draw, edited, n_refused, same, study

FLAT = {
    "none": None,
    "number": torch.tensor(1000.0),
    "detector": 900 + draw(*SCAN.detector_shape, seed=1),
    "views": 900 + draw(SCAN.n_views, 1, 1, seed=1),
    "pixels": 900 + draw(*SCAN.shape, seed=1),
}


def scan(flat: str = "none", dtype: torch.dtype = torch.float32) -> Scan:
    return Scan(
        projections=100 * draw(*SCAN.shape, seed=0, dtype=dtype),
        values=Values.COUNTS,
        acquisition=SCAN,
        flat_field=FLAT[flat],
        thickness_mm=51.3,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_scan(tmp_path / "s.h5", scan("detector"))
    return tmp_path / "s.h5"


@pytest.mark.parametrize("flat", FLAT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(flat: str, dtype: torch.dtype, tmp_path: Path) -> None:
    write_scan(tmp_path / "s.h5", scan(flat, dtype))
    assert os.listdir(tmp_path) == ["s.h5"]
    found = read_scan(tmp_path / "s.h5")
    assert same(found.projections, scan(flat, dtype).projections)
    assert (found.acquisition, found.values, found.thickness_mm) == (SCAN, Values.COUNTS, 51.3)
    expected = FLAT[flat]
    assert (found.flat_field is None) == (expected is None)
    assert expected is None or same(found.flat_field, expected)


def test_other_programs_can_write_one(tmp_path: Path) -> None:
    """As MATLAB's h5create, h5write and h5writeatt do it: text in an array of one, all numbers double."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.attrs["format"], file.attrs["version"] = "duotomo scan", 1.0
        file.attrs["values"] = np.array([b"counts"])
        file.attrs["thickness_mm"] = [48.0]
        file["projections"] = np.arange(np.prod(SCAN.shape), dtype=">u2").reshape(SCAN.shape)
        for name in ("source_mm", "detector_center_mm", "u_axis", "v_axis"):
            file[name] = getattr(SCAN, name)
        file["pixel_spacing_mm"] = [[0.8, 0.6]]
        file["flat_field"] = 4000.0
    found = read_scan(tmp_path / "s.h5")
    assert found.acquisition == SCAN
    assert found.thickness_mm == 48.0
    assert same(found.flat_field, torch.tensor(4000.0, dtype=torch.float64))
    assert same(found.projections, torch.arange(126, dtype=torch.float32).reshape(SCAN.shape))


def test_no_damaged_byte_goes_unnoticed(path: Path) -> None:
    def check(which: str) -> None:
        found = read_scan_hdf5(path)
        assert same(found.projections, scan().projections), which
        assert found.acquisition == SCAN

    assert n_refused(path, check, every=37) > 50


Change = Callable[[h5py.File], None]


def _put(name: str, values: Any) -> Change:
    def put(file: h5py.File) -> None:
        if name in file:
            del file[name]
        file[name] = values

    return put


def _set(name: str, value: Any) -> Change:
    return lambda file: file.attrs.__setitem__(name, value)


def _group(file: h5py.File) -> None:
    del file["source_mm"]
    file.create_group("source_mm")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _set("values", "odd"),
            r"expected the attribute values of / as 'line integrals' or 'counts'; got 'odd'",
        ),
        (lambda file: file.attrs.__delitem__("values"), r"expected the attribute values of / as .*; got ''"),
        (_set("version", 7), r"expected version 1 or 2 of the format 'duotomo scan'; got 7"),
        (
            _set("format", "duotomo checkpoint"),
            r"expected a file of format 'duotomo scan'; got 'duotomo check",
        ),
        (_set("thickness_mm", "thin"), r"expected the attribute thickness_mm as one number; got 'thin'"),
        (_set("thickness_mm", -3.0), r"Scan: expected thickness_mm as a positive finite number; got -3\.0"),
        (lambda file: file.__delitem__("u_axis"), r"expected /u_axis in the file; got"),
        (_group, r"expected an array of numbers at /source_mm; got something else"),
        (_put("source_mm", np.full((3, 3), np.nan)), r"expected source_mm to be finite; got .* in view 0"),
        (_put("source_mm", np.ones((2, 3))), r"expected the same number of views in all"),
        (_put("u_axis", np.ones((3, 3))), r"expected u_axis of length 1; got length 1\.7"),
        (
            _put("pixel_spacing_mm", [0.8, -0.6]),
            r"expected pixel_spacing_mm as one positive finite number per",
        ),
        (
            _put("pixel_spacing_mm", [0.8]),
            r"expected projections .* and pixel_spacing_mm \(v, u\); got shapes",
        ),
        (
            _put("projections", np.ones((3, 6))),
            r"expected projections \(view, v, u\) and .*; got shapes \(3, 6\)",
        ),
        (
            _put("projections", np.ones((4, 6, 7))),
            r"Scan: expected projections .* = \(3, 6, 7\); got \(4, 6, 7\)",
        ),
        (
            _put("projections", np.ones((3, 6, 7), complex)),
            r"expected projections of whole or floating-point",
        ),
        (_put("projections", np.ones((3, 0, 7))), r"expected an array with something in it in projections"),
        (_put("flat_field", np.ones((2, 2))), r"Scan: expected flat_field .*; got \(2, 2\)"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change: Change, message: str, path: Path) -> None:
    with edited(path) as file:
        change(file)
    with pytest.raises(FileError, match=rf"read_scan_hdf5: .*s\.h5: .*{message}"):
        read_scan(path)


def test_a_file_that_claims_too_much_is_refused(tmp_path: Path, path: Path) -> None:
    with edited(path) as file:
        del file["projections"]
        file.create_dataset("projections", shape=(3, 10**6, 10**6), chunks=(1, 100, 100), dtype="f4")
    with pytest.raises(
        FileError, match=r"expected projections to need at most the .* got a header that asks"
    ):
        read_scan(path)


def test_a_study_is_no_scan(tmp_path: Path) -> None:
    write_study(tmp_path / "s.h5", study())
    with pytest.raises(
        FileError, match=r"expected one scan; got a study, .* Pass it alone, without other scan"
    ):
        read_scan(tmp_path / "s.h5")


def test_what_the_file_says_is_not_said_again(path: Path) -> None:
    assert read_scan(path, Supplied(values=Values.COUNTS)).acquisition == SCAN
    with pytest.raises(
        FileError, match=r"expected counts, as the file says; got `values=Values.LINE_INTEGRALS`"
    ):
        read_scan(path, Supplied(values=Values.LINE_INTEGRALS))
    with pytest.raises(
        FileError, match=r"expected nothing but the file, .* inside; got `machine`, `angles_deg` to"
    ):
        read_scan(path, Supplied(machine="victre", angles_deg=(0.0,)))


def test_scans_of_many_views_fit(tmp_path: Path) -> None:
    angles = np.linspace(-0.4, 0.4, 500)
    source = np.stack([660 * np.sin(angles), np.full(500, np.pi), 660 * np.cos(angles)], axis=1)
    many = Acquisition(
        source_mm=source,
        detector_center_mm=[(0, 2, 0)] * 500,
        u_axis=[(1, 0, 0)] * 500,
        v_axis=[(0, 1, 0)] * 500,
        pixel_spacing_mm=(1, 1),
        detector_shape=(4, 4),
    )
    write_scan(
        tmp_path / "s.h5",
        Scan(projections=torch.ones(500, 4, 4), values=Values.LINE_INTEGRALS, acquisition=many),
    )
    assert read_scan(tmp_path / "s.h5").acquisition == many
