"""`duotomo info` says what a file is, what is missing, and never whose it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from duotomo.io import write_displacement, write_result, write_study, write_transform, write_volume
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.libraries import pydicom
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_geometry import MAX_BYTES
from duotomo.io.scan_hdf5 import write_scan
from duotomo.transforms import Motion, Rigid
from tests.cli.commands import duotomo, write_scans
from tests.cli.tiny import GRID, SCAN, tiny_study
from tests.io.files_of_all_kinds import damaged_dicom
from tests.io.saved_helpers import converged

RIGID = Rigid(GRID)
TURN = Motion(RIGID, RIGID.params(rotation_deg=(0.0, 5.0, 0.0), translation_mm=(1.0, 2.0, 3.0)))


def told(path: Path, *options: object, code: int = 0) -> dict[str, object]:
    ran = duotomo("info", path, "--json", *options)
    assert ran.code == code, ran.err
    facts = ran.json
    # What a person reads has the same kind first.
    spoken = duotomo("info", path, *options)
    assert spoken.out.splitlines()[0] == facts["kind"]
    return dict(facts)


def patient() -> Identity:
    dataset = pydicom().Dataset()
    dataset.PatientName, dataset.PatientID, dataset.PatientBirthDate = "Doe^Jane", "ID-4711", "19610203"
    dataset.SOPInstanceUID, dataset.AccessionNumber = "1.2.3", "ACC-99"
    return Identity.of(dataset)


def scan() -> Scan:
    return Scan(
        projections=tiny_study().reference.projections, values=Values.LINE_INTEGRALS, acquisition=SCAN
    )


def result_folder(folder: Path) -> Path:
    study = tiny_study()
    result = converged(grid=GRID, volume=torch.rand(GRID.shape), motions=(TURN,))
    folder.mkdir()
    write_result(folder, result, study=study, settings={})
    return folder


def test_a_scan_is_described(tmp_path: Path) -> None:
    path, _ = write_scans(tmp_path)
    facts = told(path)
    assert facts["kind"] == "scan"
    assert facts["n_views"] == SCAN.n_views
    assert facts["pixel_spacing_mm"] == [3.0, 3.0]
    np.testing.assert_allclose(facts["angles_deg"], np.degrees(SCAN.angles_rad), atol=1e-3)
    assert facts["values"] == "line integrals"
    assert facts["thickness_mm"] == 48.0
    assert facts["warnings"] == []


def test_a_scan_without_geometry_is_described_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "views.npy"
    np.save(path, scan().projections.numpy())
    facts = told(path, code=2)
    assert (facts["kind"], facts["n_views"], facts["detector_shape"]) == ("scan", 7, [20, 32])
    assert "--geometry" in str(facts["missing"])
    assert "--pixel-spacing" in str(facts["missing"])
    assert "--thickness 50" in str(facts["missing"])
    geometry = tmp_path / "g.json"
    geometry.write_text(SCAN.to_json())
    found = told(path, "--geometry", geometry, "--thickness", "50")
    assert "missing" not in found
    assert found["source_height_mm"] == pytest.approx([598.163, 660.0], abs=1e-2)


@pytest.mark.parametrize(
    ("change", "option", "given"),
    [
        ({"thickness_mm": None}, "--thickness 50", ("--thickness", "48")),
        ({"values": Values.COUNTS}, "--flat-field", ("--flat-field", "1000")),
        ({"projections": torch.zeros(SCAN.shape)}, "no positive line integral", None),
    ],
)
def test_all_that_joint_will_ask_for_is_said(
    change: dict[str, Any], option: str, given: tuple[str, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "scan.h5"
    write_scan(path, replace(scan(), **({"thickness_mm": 48.0} | change)))
    facts = told(path, code=2)
    (missing,) = facts["missing"]  # type: ignore[misc]
    assert option in missing
    # A computation refuses it for the same, with the same exit code.
    ran = duotomo("reconstruct", path, "--out", tmp_path / "out")
    assert ran.code == 2
    assert option in ran.err
    if given is not None:
        assert "missing" not in told(path, *given)


def test_visits_are_compared_as_joint_does(tmp_path: Path) -> None:
    one, two = write_scans(tmp_path)
    ran = duotomo("info", one, two)
    assert ran.code == 0
    assert ran.out.endswith("visits of one breast\nReady for duotomo joint\n")
    ran = duotomo("info", one, one, "--json")
    assert ran.code == 2
    assert "the same scan twice" in ran.json["together"]
    assert "--allow-same-scan" in ran.json["together"]
    assert len(ran.json["files"]) == 2
    assert duotomo("info", one, one, "--allow-same-scan").code == 0


def test_an_image_is_a_volume_unless_a_geometry_lies_beside_it(tmp_path: Path) -> None:
    volume = tmp_path / "volume.nii.gz"
    write_volume(volume, torch.rand(GRID.shape), GRID)
    facts = told(volume)
    assert (facts["kind"], facts["shape"], facts["spacing_mm"]) == ("volume", [16, 16, 16], [3.0, 3.0, 3.0])
    (tmp_path / "volume.json").write_text(SCAN.to_json())
    ran = duotomo("info", volume, "--json")
    assert ran.code == 2
    assert ran.json["kind"] == "scan"
    assert "as the geometry says; got (16, 16, 16)" in ran.json["missing"][0]


def test_dicom_is_described_without_the_patient(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.dcm" for name in ("scan", "volume", "registration")}
    write_dicom_projections(paths["scan"], scan(), identity=patient())
    write_tomosynthesis(paths["volume"], torch.rand(GRID.shape), GRID, identity=patient())
    write_spatial_registration(paths["registration"], TURN, fixed=patient())
    kinds = {"scan": "scan", "volume": "volume", "registration": "DICOM registration"}
    for name, path in paths.items():
        assert told(path, code=2 * (name == "scan"))["kind"] == kinds[name]
        for ran in (duotomo("info", path), duotomo("info", path, "--json")):
            for secret in ("Doe", "Jane", "4711", "1961", "ACC-99"):
                assert secret not in ran.out + ran.err


def test_results_studies_transforms_and_geometries_are_described(tmp_path: Path) -> None:
    facts = told(result_folder(tmp_path / "result"))
    assert (facts["kind"], facts["method"], facts["status"]) == ("result folder", "simultaneous", "converged")
    physical = facts["motions"][0]["physical"]  # type: ignore[index]
    assert physical["translation_mm"] == pytest.approx([1.0, 2.0, 3.0])

    write_study(tmp_path / "study.h5", tiny_study())
    study = told(tmp_path / "study.h5")
    assert study["kind"] == "study"
    assert len(study["visits"]) == 2  # type: ignore[arg-type]

    for name in ("t.tfm", "t.h5"):
        write_transform(tmp_path / name, TURN)
        found = told(tmp_path / name)
        assert (found["kind"], found["model"]) == ("transform", "Affine")
    write_displacement(tmp_path / "d.nii.gz", TURN, GRID)
    moved = told(tmp_path / "d.nii.gz")
    assert moved["kind"] == "displacements"
    lengths = TURN.displacement(GRID).norm(dim=0)
    assert moved["largest_displacement_mm"] == pytest.approx(float(lengths.max()))

    (tmp_path / "g.json").write_text(SCAN.to_json())
    assert told(tmp_path / "g.json")["n_views"] == 7
    (tmp_path / "grid.json").write_text(GRID.to_json())
    assert told(tmp_path / "grid.json")["shape"] == [16, 16, 16]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_null_in_json(number: float, tmp_path: Path) -> None:
    folder = result_folder(tmp_path / "result")
    quality = {"noise": [0.5, number], "trust": {"least": number}}
    as_null = {"noise": [0.5, None], "trust": {"least": None}}
    result = converged(grid=GRID, volume=torch.rand(GRID.shape), motions=(TURN,))
    write_result(folder, result, study=tiny_study(), settings={}, quality=quality)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    # The file, and what is said of one that an earlier version wrote.
    assert json.loads((folder / "result.json").read_text(), parse_constant=refuse)["quality"] == as_null
    edited(folder, quality)
    out = duotomo("info", folder, "--json").out
    assert json.loads(out, parse_constant=refuse)["quality"] == as_null


def edited(folder: Path, quality: dict[str, object]) -> None:
    """Put numbers into the index of a result as they are, with the SHA-256 that fits."""
    path = folder / "result.json"
    content = json.loads(path.read_text()) | {"quality": quality, "sha256": "0" * 64}
    text = json.dumps(content, indent=1) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(digest.join(text.rsplit("0" * 64, 1)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing.txt2", b"?", "expected DICOM, a result folder, or a name that ends in"),
        ("broken.h5", b"not hdf5", "expected HDF5 that can be read"),
        ("broken.nii.gz", b"not gzip", "expected a file that can be read"),
        ("broken.npy", b"not numpy", "read_scan: "),
        ("broken.json", b"{", "expected JSON text"),
        ("broken.dcm", b"\0" * 128 + b"DICM" + b"?" * 40, "read_dicom_scan: "),
    ],
)
def test_damaged_files_end_with_code_2(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    ran = duotomo("info", path, "--json")
    assert ran.code == 2
    assert message in ran.err
    assert json.loads(ran.out)["status"] == "error"


def test_nothing_there_is_said(tmp_path: Path) -> None:
    ran = duotomo("info", tmp_path / "none.dcm")
    assert ran.code == 2
    assert "expected a file or a folder at" in ran.err


def test_a_geometry_beyond_all_measure_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    ran = duotomo("info", path)
    assert ran.code == 2
    assert f"expected at most {MAX_BYTES} bytes of geometry; got " in ran.err


def test_what_a_library_says_of_damaged_dicom_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = duotomo("info", damaged_dicom(tmp_path, monkeypatch))
    assert ran.code == 2
    assert "expected a DICOM file that can be read; got: RuntimeError" in ran.err
    assert "Doe" not in ran.err


def test_a_scan_is_looked_at_without_pytorch(tmp_path: Path) -> None:
    (path, *_) = write_scans(tmp_path)
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from duotomo.cli import main\n"
        "ran = CliRunner().invoke(main, ['info', *sys.argv[1:]])\n"
        "print(ran.exit_code, sorted({'torch', 'numba', 'scipy'} & set(sys.modules)))\n"
    )
    words = [sys.executable, "-c", code, str(path), "--thickness", "24"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stdout == "0 []\n"
