"""De-identified files follow the table of attributes of DICOM PS3.15, Annex E."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pydicom
import pytest
import torch
from dicomanonymizer.dicom_anonymization_databases import dicomfields_2026c as table

from duotomo.geometry import VolumeGrid, paper
from duotomo.io import FileError
from duotomo.io.dicom import Pseudonyms
from duotomo.io.dicom.deidentification import DUMMIES, REMOVED
from duotomo.io.dicom.findings_report import write_findings_report
from duotomo.io.dicom.findings_segmentation import write_findings_segmentation
from duotomo.io.dicom.identifying import PATIENT, STUDY
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.scan import Scan, Values
from duotomo.transforms import Motion, Translation
from tests.cli.patients import SECRETS, WHO, patient
from tests.io.change_helpers import a_change
from tests.io.dicom.test_dciodvfy import KINDS, complaints

GRID = VolumeGrid.on_detector((2, 8, 9), (1.0, 0.5, 0.5))

CLEANED = ("SeriesDescription", "ImageComments")
"""Removed by the profile, and kept by its Clean Descriptors Option: the words are duotomo's own."""

EMPTY = ("AcquisitionContextSequence", "StudyDate", "StudyTime", "StudyID", "AccessionNumber")
PSEUDONYMS = ("PatientName", "PatientID")


def action(tag: pydicom.tag.BaseTag) -> str:
    """Return what the table says of an attribute, such as X/Z/D; "" where it is not in it."""
    kinds = ("D", "Z", "X", "U", "Z_D", "X_Z", "X_D", "X_Z_D", "X_Z_U_STAR")
    found = [kind for kind in kinds if (tag.group, tag.element) in getattr(table, f"{kind}_TAGS")]
    return found[0].replace("_", "/") if found else ""


def write_all(folder: Path, identity: Identity) -> Iterator[Path]:
    """Write a file of every kind."""
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=(1.0, 2.0, 3.0)))
    volume = torch.linspace(0, 0.05, GRID.n_voxels).reshape(GRID.shape)
    other = patient(PatientID="PID-4712").deidentified(Pseudonyms())
    write_tomosynthesis(folder / "volume.dcm", volume, GRID, identity=identity)
    change = a_change(GRID, volume=volume)
    write_findings_segmentation(folder / "segments.dcm", change, folder / "volume.dcm", identity=identity)
    write_findings_report(
        folder / "report.dcm",
        change,
        folder / "volume.dcm",
        segmentation=folder / "segments.dcm",
        identity=identity,
    )
    write_spatial_registration(folder / "matrix.dcm", motion, fixed=identity, moving=other)
    write_deformable_registration(folder / "vectors.dcm", motion, GRID, fixed=identity, moving=other)
    counts = torch.full((11, 4, 4), 7.0)
    counts[0, 0, 0] = float("nan")
    scan = Scan(
        projections=counts,
        values=Values.COUNTS,
        acquisition=paper().bin(32),
        flat_field=torch.tensor(9.0),
        facts={"laterality": "L"},
    )
    write_dicom_projections(folder / "scan.dcm", scan, identity=identity)
    write_dicom_projections(folder / "views", scan, identity=identity, single_files=True)
    yield from sorted(folder.rglob("*.dcm"))


@pytest.fixture
def nobody() -> Identity:
    return patient().deidentified(Pseudonyms())


def test_every_attribute_that_is_written_has_the_action_of_the_table(
    nobody: Identity, tmp_path: Path
) -> None:
    seen = set()
    for path in write_all(tmp_path, nobody.remarked("DIFFERENT SIDES")):
        for element in pydicom.dcmread(path).iterall():
            allowed = action(element.tag)
            if not allowed:
                continue
            seen.add(element.keyword)
            if element.keyword == "ContentSequence" or (element.VR == "SQ" and "U" in allowed):
                # Kept by the Clean Structured Content Option, or with other UIDs: items are looked at.
                continue
            if allowed == "U":
                assert element.value.startswith("2.25."), element.keyword
            elif element.keyword in DUMMIES:
                assert "D" in allowed
                assert element.value == DUMMIES[element.keyword]
            elif element.keyword in PSEUDONYMS:
                assert "Z" in allowed
            elif element.keyword in CLEANED:
                assert allowed == "X"
            else:
                assert "Z" in allowed, element.keyword
                assert not element.value, element.keyword
    assert {*DUMMIES, *PSEUDONYMS, *CLEANED, *EMPTY} <= seen
    assert not {*REMOVED, "StudyDescription", "PatientAge", "IssuerOfPatientID"} & seen


def test_the_table_has_what_identities_carry() -> None:
    """What is left out of the check above because the table does not have it identifies nobody."""
    own = ("PatientIdentityRemoved", "DeidentificationMethod", "DeidentificationMethodCodeSequence")
    named = [pydicom.tag.Tag(name) for name in WHO if name in (*PATIENT, *STUDY) and name not in own]
    assert all(action(tag) for tag in named)


def test_the_profile_and_its_options_are_named(nobody: Identity, tmp_path: Path) -> None:
    for path in write_all(tmp_path, nobody):
        found = pydicom.dcmread(path)
        codes = [part.CodeValue for part in found.DeidentificationMethodCodeSequence]
        private = [element for element in found if element.tag.is_private]
        cleaned = ["113104"] if "ContentSequence" in found else []
        assert codes == ["113100", "113105", *cleaned, *(["113111"] if private else [])]
        assert (found.PatientIdentityRemoved, found.LongitudinalTemporalInformationModified) == (
            "YES",
            "REMOVED",
        )
        safe = found.get("PrivateDataElementCharacteristicsSequence") or []
        assert [(one.PrivateCreatorReference, one.BlockIdentifyingInformationStatus) for one in safe] == (
            [("DUOTOMO", "SAFE")] if private else []
        )
        assert not any(secret in str(found) for secret in SECRETS if secret != "4711")


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dciodvfy is not installed")
@pytest.mark.parametrize("remark", ["", "DIFFERENT PATIENTS, DIFFERENT SIDES, THE SAME SCAN TWICE"])
def test_the_standards_checker_finds_no_error(nobody: Identity, remark: str, tmp_path: Path) -> None:
    paths = [
        path
        for path in write_all(tmp_path, nobody.remarked(remark))
        if path.stem in ("volume", "matrix", "vectors", "segments", "report")
    ]
    assert len(paths) == len(KINDS)
    for path in paths:
        assert not [line for line in complaints(path) if not line.startswith("Warning")]


def test_what_was_there_before_does_not_come_through() -> None:
    """Codes of an earlier de-identification, and whatever else an input claims, are not handed on."""
    dataset = pydicom.Dataset()
    patient(DeidentificationMethod="by hand", PatientIdentityRemoved="NO").deidentified(Pseudonyms()).put(
        dataset
    )
    assert (dataset.PatientIdentityRemoved, "by hand" in str(dataset)) == ("YES", False)
    assert not any(secret in str(dataset) for secret in SECRETS)


def test_patients_without_an_id_are_not_taken_for_one_another() -> None:
    pseudonyms, found = Pseudonyms(), set()
    for study in ("1.2.3", "1.2.4"):
        dataset = pydicom.Dataset()
        patient(PatientID="", StudyInstanceUID=study).deidentified(pseudonyms).put(dataset)
        found.add(dataset.PatientID)
    assert len(found) == 2


def test_a_key_is_secret_and_long_enough(tmp_path: Path) -> None:
    assert repr(Pseudonyms(b"0123456789abcdef")) == "Pseudonyms(hidden)"
    with pytest.raises(FileError, match="Pseudonyms: expected a key of 16 to 4096 bytes; got 15"):
        Pseudonyms(b"0123456789abcde")
    with pytest.raises(FileError, match=r"Pseudonyms: expected a key in the file .*none; got: No such file"):
        Pseudonyms.of_file(tmp_path / "none")
