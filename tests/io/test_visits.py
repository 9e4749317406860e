"""Scans of any kind become a study, whose grids are what the views see."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry.field_of_view import grid_in_view
from duotomo.io import Allowed, Scan, ScanOptions, Values, read_visits, visits, write_scan, write_study
from duotomo.io.dicom.identity import Identity
from duotomo.io.libraries import pydicom
from duotomo.io.scan_file import read_scan
from tests.cases.scans import arc
from tests.io.saved_helpers import SCAN, draw, study

OTHER = arc((8, 9), (0.8, 0.6), n_views=2, degrees=23.0, source_to_detector_mm=700.0)
SPACING_MM = (1.0, 0.8, 0.6)


def write_scans(folder: Path, *, counts: bool = False, **changes: object) -> list[Path]:
    """Write two visits of different geometry, and return their paths."""
    paths = []
    for number, acquisition in enumerate((SCAN, OTHER), start=1):
        views = draw(*acquisition.shape, seed=number)
        scan = Scan(
            projections=1e4 * torch.exp(-views) if counts else views,
            values=Values.COUNTS if counts else Values.LINE_INTEGRALS,
            acquisition=acquisition,
            thickness_mm=5.0 - number,
        )
        paths.append(folder / f"{number}.h5")
        write_scan(paths[-1], replace(scan, **changes))  # type: ignore[arg-type]
    return paths


def test_every_visit_has_what_its_views_see(tmp_path: Path) -> None:
    notes: list[str] = []
    found = read_visits(write_scans(tmp_path), ScanOptions(voxel_mm=SPACING_MM), on_note=notes.append)
    assert found.grid == grid_in_view(SCAN, thickness_mm=4.0, spacing_mm=SPACING_MM)
    assert found.moving[0].grid == grid_in_view(OTHER, thickness_mm=3.0, spacing_mm=SPACING_MM)
    assert torch.equal(found.reference.projections, draw(*SCAN.shape, seed=1))
    assert found.identities == (None, None)
    assert [one["format"] for one in found.described] == ["duotomo scan (HDF5)"] * 2
    assert notes == ["The breast is taken to lie on the detector; `gap_mm` says how far above it it lies."]


def test_options_say_what_the_files_do_not(tmp_path: Path) -> None:
    for name, acquisition in (("one", SCAN), ("two", OTHER)):
        np.save(tmp_path / f"{name}.npy", np.ones(acquisition.shape, dtype=np.float32))
        (tmp_path / f"{name}_geometry.json").write_text(acquisition.to_json())
    options = ScanOptions(
        geometry=(tmp_path / "one_geometry.json", tmp_path / "two_geometry.json"),
        thickness_mm=(4.0, 3.5),
        gap_mm=2.0,
    )
    notes: list[str] = []
    found = read_visits([tmp_path / "one.npy", tmp_path / "two.npy"], options, on_note=notes.append)
    # Voxels are pixels, and a millimetre thick, unless said.
    assert found.grid == grid_in_view(SCAN, thickness_mm=4.0, gap_mm=2.0, spacing_mm=SPACING_MM)
    assert found.moving[0].acquisition == OTHER
    assert notes == []


def test_counts_become_line_integrals_and_say_so(tmp_path: Path) -> None:
    paths = write_scans(tmp_path, counts=True)
    notes: list[str] = []
    found = read_visits(paths, ScanOptions(flat_field=1e4), on_note=notes.append)
    torch.testing.assert_close(found.moving[0].projections, draw(*OTHER.shape, seed=2), atol=1e-5, rtol=0)
    assert notes[0] == "Visit 1: flat field: 10000 counts, as given"
    assert all(one["preparation"] for one in found.described)
    with pytest.raises(
        DuotomoError, match=r"read_visits: .*1\.h5: .*expected the flat field of counts; .* `flat_field`"
    ):
        read_visits(paths)


def test_a_study_stands_alone(tmp_path: Path) -> None:
    write_study(tmp_path / "study.h5", study())
    found = read_visits([tmp_path / "study.h5"])
    assert (found.grid, len(found.visits)) == (study().grid, 3)
    assert found.identities == (None,) * 3
    assert found.described[0]["shape"] == list(SCAN.shape)
    with pytest.raises(DuotomoError, match=r"expected scans, or one study alone; got 2 files, a study among"):
        read_visits([tmp_path / "study.h5", *write_scans(tmp_path)[:1]])
    options = ScanOptions(thickness_mm=(4.0,), keep_dead=True)
    with pytest.raises(DuotomoError, match=r"say all about its scans; got `keep_dead`, `thickness_mm` too"):
        read_visits([tmp_path / "study.h5"], options)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    paths = write_scans(tmp_path, thickness_mm=None)
    with pytest.raises(
        DuotomoError, match=r"read_visits: expected the thickness .* of visit 1\. .*`thickness_mm=50`"
    ):
        read_visits(paths)
    with pytest.raises(DuotomoError, match=r"read_visits: visit 2: .*expected the top of the breast below"):
        read_visits(paths, ScanOptions(thickness_mm=(5.0, 900.0)))
    with pytest.raises(DuotomoError, match=r"read_visits: expected scans, or a study; got none"):
        read_visits([])


@pytest.mark.parametrize("name", ["machine", "geometry", "thickness_mm"])
def test_what_is_given_is_given_once_or_for_each_visit(name: str) -> None:
    options = ScanOptions(**{name: (1.0, 2.0, 3.0)})  # type: ignore[arg-type]
    with pytest.raises(
        DuotomoError, match=rf"expected `{name}` once, or once for each of 2 visits; got it 3 times"
    ):
        options.thickness_of_visit(1, 2) if name == "thickness_mm" else options.of_visit(1, 2)
    assert options.given == (name,)


def test_strangers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients = cycle((("1234", "L"), ("5678", "R")))

    def reading(*arguments: object) -> Scan:
        dataset = pydicom().Dataset()
        dataset.PatientName = "Roe^Mary"
        dataset.PatientID, dataset.ImageLaterality = next(patients)
        return replace(read_scan(*arguments), identity=Identity.of(dataset))  # type: ignore[arg-type]

    monkeypatch.setattr(visits, "read_scan", reading)
    with pytest.raises(
        DuotomoError, match=r"got different patients and different sides: .*Patient ID"
    ) as raised:
        read_visits(write_scans(tmp_path))
    assert not any(word in str(raised.value) for word in ("Roe", "1234", "5678"))
    allowed = Allowed(allow_different_patients=True, allow_different_sides=True)
    found = read_visits(write_scans(tmp_path), allowed=allowed)
    assert [one.remark for one in found.identities if one] == ["DIFFERENT PATIENTS, DIFFERENT SIDES"] * 2
    assert "Roe" not in repr(found)


def test_one_scan_twice_is_refused(tmp_path: Path) -> None:
    one, _ = write_scans(tmp_path)
    with pytest.raises(
        DuotomoError, match=r"got the same scan twice: visit 1 and visit 2 have the same Pixel"
    ):
        read_visits([one, one])
    found = read_visits([one, one], allowed=Allowed(allow_same_scan=True))
    assert [conflict.attributes for conflict in found.agreement.conflicts] == [("PixelData",)]
    twice = replace(study(), visits=(study().reference, *study().visits))
    write_study(tmp_path / "study.h5", twice)
    with pytest.raises(DuotomoError, match="got the same scan twice: visit 1 and visit 2 have"):
        read_visits([tmp_path / "study.h5"])


def test_options_are_light() -> None:
    code = (
        "import sys, duotomo.io.scan_options, duotomo.io.result_format\n"
        "print([name for name in ('torch', 'numpy', 'h5py') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
