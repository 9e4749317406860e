"""The standard's own checker finds no error in what is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pydicom
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.breast_view import VIEWS, BreastView
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.transforms import Affine, BSpline, Motion, Rigid, Translation
from tests.cases.transforms import draw_params

pytestmark = pytest.mark.skipif(
    shutil.which("dciodvfy") is None, reason="dciodvfy is not installed (Debian's package dicom3tools)"
)

GRID = VolumeGrid(shape=(3, 40, 36), spacing_mm=(1.0, 0.3, 0.2), center_mm=(21.5, 12.1, -3.3))
VOLUME = 0.03 * torch.linspace(-1, 7, GRID.n_voxels).sin().reshape(GRID.shape)

UNKNOWN = ("Study Date", "Study Time", "Laterality")
"""What nobody's files leave empty, because it is not known; the checker would like it."""


def complaints(path: Path) -> list[str]:
    """Return errors and warnings."""
    run = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, timeout=60, check=False)
    lines = (run.stdout + run.stderr).splitlines()
    # Without this line it has not looked.
    assert any(line.strip() in KINDS for line in lines), lines
    return [line for line in lines if line.startswith(("Error", "Warning", "Abort"))]


KINDS = (
    *("BreastTomosynthesisImage", "SpatialRegistration", "DeformableSpatialRegistration"),
    *("Segmentation", "Comprehensive3DSR"),
)


def a_patient() -> Identity:
    scan = pydicom.Dataset()
    scan.SOPInstanceUID, scan.StudyInstanceUID = "1.2.826.0.1.3680043.10.1", "1.2.826.0.1.3680043.10.2"
    scan.PatientName, scan.PatientID, scan.PatientBirthDate = "Roe^Jane", "4711", "19610203"
    scan.PatientSex, scan.PatientAge, scan.StudyDate = "F", "062Y", "20240229"
    scan.StudyTime, scan.StudyID, scan.AccessionNumber = "101112", "7", "A1"
    scan.ReferringPhysicianName, scan.ImageLaterality, scan.ViewPosition = "Doe^John", "L", "MLO"
    return Identity.of(scan)


@pytest.mark.parametrize(
    "syntax",
    ["1.2.840.10008.1.2.1", "1.2.840.10008.1.2.5", "1.2.840.10008.1.2.4.80", "1.2.840.10008.1.2.4.90"],
    ids=["explicit", "RLE", "JPEG-LS", "JPEG 2000"],
)
def test_a_patients_volume_has_neither_errors_nor_warnings(syntax: str, tmp_path: Path) -> None:
    write_tomosynthesis(tmp_path / "v.dcm", VOLUME, GRID, identity=a_patient(), transfer_syntax=syntax)
    assert complaints(tmp_path / "v.dcm") == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accepted(view: str, tmp_path: Path) -> None:
    breast = BreastView(laterality="R", view=view, implant=True)
    write_tomosynthesis(tmp_path / "v.dcm", VOLUME, GRID, identity=a_patient(), breast=breast)
    assert complaints(tmp_path / "v.dcm") == []


def only_unknown(found: list[str]) -> bool:
    return all(line.startswith("Warning") and any(name in line for name in UNKNOWN) for line in found)


def test_nobodys_volume_has_no_errors(tmp_path: Path) -> None:
    write_tomosynthesis(tmp_path / "v.dcm", VOLUME, GRID)
    assert only_unknown(complaints(tmp_path / "v.dcm"))
    write_tomosynthesis(
        tmp_path / "v.dcm", torch.zeros(1, 1, 1), VolumeGrid.on_detector((1, 1, 1), (1, 1, 1))
    )
    assert only_unknown(complaints(tmp_path / "v.dcm"))


@pytest.mark.parametrize("kind", [Translation, Rigid, Affine])
@pytest.mark.parametrize("fixed", [a_patient, lambda: None], ids=["a patient's", "nobody's"])
def test_matrices_have_no_errors(kind: Any, fixed: Any, tmp_path: Path) -> None:
    transform = kind(GRID)
    write_spatial_registration(
        tmp_path / "r.dcm", Motion(transform, draw_params(transform, seed=1)), fixed=fixed()
    )
    found = complaints(tmp_path / "r.dcm")
    assert only_unknown(found)
    assert fixed() is None or found == []


@pytest.mark.parametrize("fixed", [a_patient, lambda: None], ids=["a patient's", "nobody's"])
def test_vectors_have_no_errors(fixed: Any, tmp_path: Path) -> None:
    spline = BSpline.over(GRID, (4, 4, 4))
    params = draw_params(spline, seed=1, size_voxels=0.2)
    grid = GRID.coarsen((1, 8, 8))
    write_deformable_registration(tmp_path / "d.dcm", Motion(spline, params), grid, fixed=fixed())
    found = complaints(tmp_path / "d.dcm")
    assert only_unknown(found)
    assert fixed() is None or found == []


def test_the_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    write_tomosynthesis(tmp_path / "v.dcm", VOLUME, GRID, identity=a_patient())
    dataset = pydicom.dcmread(tmp_path / "v.dcm")
    del dataset.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence
    dataset.save_as(tmp_path / "v.dcm")
    assert any(line.startswith("Error") for line in complaints(tmp_path / "v.dcm"))
