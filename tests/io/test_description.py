"""What a file is, what is missing, and never whose it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from duotomo.io import FileError, ScanOptions, describe, recognise
from duotomo.io.scan_geometry import MAX_BYTES
from tests.io.files_of_all_kinds import BENT, KINDS, SECRETS, damaged_dicom, scan, write_all
from tests.io.saved_helpers import GRID, SCAN, edited_index


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_recognised_and_described(name: str, files: Path) -> None:
    assert recognise(files / name).value == KINDS[name]
    facts = describe(files / name)
    assert next(iter(facts.items())) == ("kind", KINDS[name])
    # Of these scans nobody says how thick the breast was, nor are they of one.
    assert ("missing" in facts) == (KINDS[name] == "scan")
    told = json.dumps(facts)
    assert not any(secret in told for secret in SECRETS)


def test_what_is_told(files: Path) -> None:
    found = describe(files / "scan.h5")
    assert (found["n_views"], found["pixel_spacing_mm"]) == (SCAN.n_views, list(SCAN.pixel_spacing_mm))
    np.testing.assert_allclose(found["angles_deg"], np.degrees(SCAN.angles_rad), atol=1e-3)
    assert (found["values"], found["warnings"]) == ("line integrals", [])
    assert describe(files / "volume.nii.gz")["shape"] == list(GRID.shape)
    assert len(describe(files / "study.h5")["visits"]) == 3
    result = describe(files / "result")
    assert (result["method"], result["status"]) == ("simultaneous", "converged")
    (motion,) = result["motions"]
    assert (motion["visit"], motion["file"]) == (2, "visit_2_to_reference.tfm")
    assert motion["physical"]["translation_mm"] == pytest.approx([0.1, 0.2, 0.3])
    assert result["files"]["volume.nii.gz"] == "volume"
    assert describe(files / "rigid.tfm")["model"] == "Affine"
    assert "physical" not in describe(files / "bent.tfm")
    longest = float(BENT.displacement(GRID).norm(dim=0).max())
    assert describe(files / "displacement.mha")["largest_displacement_mm"] == pytest.approx(longest)
    assert describe(files / "rigid.dcm")["format"] == "DICOM Spatial Registration"
    assert describe(files / "bent.dcm")["format"] == "DICOM Deformable Spatial Registration"
    assert describe(files / "geometry.json")["n_views"] == SCAN.n_views
    assert describe(files / "grid.json")["shape"] == list(GRID.shape)


def test_a_scan_without_geometry_is_described_with_what_is_missing(tmp_path: Path) -> None:
    path, geometry = tmp_path / "views.npy", tmp_path / "g.json"
    np.save(path, scan().projections.numpy())
    facts = describe(path)
    assert (facts["kind"], facts["n_views"], facts["detector_shape"]) == ("scan", 3, [6, 7])
    geometry_missing, thickness_missing = facts["missing"]
    assert "`geometry`" in geometry_missing
    assert "`pixel_spacing_mm`" in geometry_missing
    assert "`thickness_mm=50`" in thickness_missing
    geometry.write_text(SCAN.to_json())
    assert not any("geometry" in one for one in describe(path, ScanOptions(geometry=(geometry,)))["missing"])


def test_an_image_is_a_volume_unless_it_has_a_geometry(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "volume.nii.gz"
    path.write_bytes((files / "volume.nii.gz").read_bytes())
    assert describe(path)["kind"] == "volume"
    assert recognise(path, with_geometry=True).value == "scan"
    (tmp_path / "volume.json").write_text(SCAN.to_json())
    assert "as the geometry says; got (4, 6, 5)" in describe(path)["missing"][0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing.txt2", b"?", r"recognise: expected DICOM, a result folder, or a name that ends in"),
        ("broken.h5", b"not hdf5", r"recognise: .*broken\.h5: expected HDF5 that can be read"),
        ("broken.nii.gz", b"not gzip", r"recognise: .*: expected a file that can be read"),
        ("broken.npy", b"not numpy", r"read_scan: "),
        ("broken.json", b"{", r"describe: .*: expected JSON text|Acquisition"),
        ("broken.dcm", b"\0" * 128 + b"DICM" + b"?" * 40, r"read_dicom_scan: "),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=message):
        describe(tmp_path / name)


def test_a_result_with_another_grid_is_refused(files: Path, tmp_path: Path) -> None:
    shutil.copy(files / "result" / "result.json", tmp_path)
    edited_index(tmp_path, lambda index: index | {"grid": {}})
    with pytest.raises(FileError, match=r"describe: .*grid\.kind"):
        describe(tmp_path)


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"recognise: expected a file or a folder at .*none; got nothing"):
        describe(tmp_path / "none")


def test_a_geometry_beyond_all_measure_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(FileError, match=rf"expected at most {MAX_BYTES} bytes of geometry; got "):
        describe(path)


def test_what_a_library_says_of_damaged_dicom_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = damaged_dicom(tmp_path, monkeypatch)
    with pytest.raises(FileError, match=r"a DICOM file that can be read; got: RuntimeError") as raised:
        recognise(path)
    assert "Doe" not in str(raised.value)
