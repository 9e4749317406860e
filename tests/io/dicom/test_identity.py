"""An identity goes from one DICOM dataset to another, and shows itself nowhere else."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydicom
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import FileError
from duotomo.io.dicom.breast_view import VIEWS, BreastView
from duotomo.io.dicom.identifying import PATIENT, STUDY
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis

SECRETS = ("Roe", "Jane", "PID-4711", "19610203", "ACC-0815", "1.2.826.0.1.4711")


def a_scan(**changes: Any) -> pydicom.Dataset:
    scan = pydicom.Dataset()
    scan.SOPInstanceUID = "1.2.826.0.1.4711.1"
    scan.SeriesInstanceUID = "1.2.826.0.1.4711.2"
    scan.StudyInstanceUID = "1.2.826.0.1.4711.3"
    scan.PatientName = "Roe^Jane"
    scan.PatientID = "PID-4711"
    scan.PatientBirthDate = "19610203"
    scan.PatientSex = "F"
    scan.AccessionNumber = "ACC-0815"
    scan.StudyDate = "20240229"
    scan.InstitutionName = "Some Hospital"
    scan.KVP = "31"
    for name, value in changes.items():
        setattr(scan, name, value)
    return scan


def put(identity: Identity) -> pydicom.Dataset:
    result = pydicom.Dataset()
    identity.put(result)
    return result


@dataclass
class Holder:
    identity: Identity


def test_patient_and_study_travel_and_nothing_else() -> None:
    scan = a_scan()
    result = put(Identity.of(scan))
    names = {element.keyword for element in result}
    assert names <= {*PATIENT, *STUDY}
    for name in ("PatientName", "PatientID", "PatientBirthDate", "AccessionNumber", "StudyInstanceUID"):
        assert result[name].value == scan[name].value


def test_what_is_missing_is_empty_but_there() -> None:
    result = put(Identity.of(pydicom.Dataset()))
    assert result.PatientID == ""
    assert result.StudyDate == ""
    assert result.StudyInstanceUID.is_valid


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r:>40}".format, lambda i: repr(Holder(i))])
def test_it_shows_nothing(show: Any) -> None:
    shown = show(Identity.of(a_scan()))
    assert "Identity(hidden)" in shown
    assert not any(secret in shown for secret in SECRETS)


def test_it_has_no_dictionary_and_is_no_json() -> None:
    identity = Identity.of(a_scan())
    assert not hasattr(identity, "__dict__")
    with pytest.raises(TypeError):
        json.dumps({"identity": identity})
    with pytest.raises(AttributeError):
        identity.study_uid = "1.2"


def test_it_cannot_be_pickled_but_copies_of_its_holder_work() -> None:
    identity = Identity.of(a_scan())
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(FileError, match="Identity: expected to stay in memory; got pickled"):
            pickle.dumps(Holder(identity), protocol=protocol)
    assert copy.deepcopy(Holder(identity)).identity is identity
    assert copy.copy(identity) is identity


def test_later_changes_of_either_side_do_not_reach_it() -> None:
    scan = a_scan()
    identity = Identity.of(scan)
    scan["PatientID"].value = "another"
    first = put(identity)
    first["PatientID"].value = "a third"
    assert put(identity).PatientID == "PID-4711"


def test_one_visit_has_one_frame_and_another_visit_another() -> None:
    mine, again = Identity.of(a_scan()), Identity.of(a_scan())
    other = Identity.of(a_scan(SOPInstanceUID="1.2.826.0.1.4711.9"))
    assert mine.frame_of_reference_uid == again.frame_of_reference_uid != other.frame_of_reference_uid
    assert mine.uid("a") != mine.uid("b")
    assert pydicom.uid.UID(mine.frame_of_reference_uid).is_valid
    # An input's own frame has other axes, so its UID is not taken over.
    theirs = Identity.of(a_scan(FrameOfReferenceUID="1.2.826.0.1.4711.5"))
    assert theirs.frame_of_reference_uid != "1.2.826.0.1.4711.5"


def test_the_uids_of_results_do_not_hold_those_of_the_scan() -> None:
    assert "4711" not in Identity.of(a_scan()).frame_of_reference_uid[:12]
    assert Identity.of(a_scan()).frame_of_reference_uid.startswith("2.25.")


def test_nobody_is_nobody() -> None:
    result = put(Identity.anonymous())
    assert result.PatientIdentityRemoved == "YES"
    assert Identity.anonymous().study_uid != Identity.anonymous().study_uid
    assert Identity.anonymous("x").study_uid == Identity.anonymous("x").study_uid
    assert Identity.anonymous("x").study_uid != Identity.anonymous("y").study_uid


@pytest.mark.parametrize(
    ("attribute", "mine", "theirs", "same"),
    [
        ("PatientID", "PID-4711", "PID-4711 ", True),
        ("PatientID", "PID-4711", "PID-4712", False),
        ("PatientID", "PID-4711", "", None),
        ("IssuerOfPatientID", "here", "elsewhere", False),
        ("IssuerOfPatientID", "here", None, None),
        ("PatientName", "Roe^Jane", "ROE^JANE^^", True),
        ("PatientName", "Roe^Jane", "Roe^Jane=other^letters", True),
        ("PatientName", "Roe^Jane", "Doe^Jane", False),
        ("PatientBirthDate", "19610203", "19610204", False),
        ("PatientSex", "F", "M", False),
        ("SOPInstanceUID", "1.2.3", "1.2.3", True),
        ("SOPInstanceUID", "1.2.3", "1.2.4", False),
        ("ImageLaterality", "L", "R", False),
        ("ImageLaterality", "L", None, None),
    ],
)
def test_visits_are_compared_attribute_by_attribute(
    attribute: str, mine: str, theirs: str | None, same: bool | None
) -> None:
    one = Identity.of(a_scan(**{attribute: mine}))
    other = a_scan(**{attribute: theirs or ""})
    if theirs is None:
        del other[attribute]
    assert one.agreement(Identity.of(other))[attribute] is same
    assert one.agreement(Identity.of(a_scan()))["PatientID"] is True


def test_views_are_compared_by_code_or_name() -> None:
    older = pydicom.Dataset()
    older.CodeValue, older.CodingSchemeDesignator, older.CodeMeaning = "R-10226", "SRT", "oblique"
    oblique = Identity.of(a_scan(ViewCodeSequence=[older]))
    assert oblique.breast.view == "MLO"
    for position, same in (("MLO", True), ("CC", False), ("", None)):
        assert oblique.agreement(Identity.of(a_scan(ViewPosition=position)))["ViewCodeSequence"] is same


def test_a_damaged_attribute_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged(pydicom.Dataset):
        def __getitem__(self, key: Any) -> Any:
            if key == "PatientBirthDate":
                raise ValueError("Roe^Jane 19610203")
            return super().__getitem__(key)

    with pytest.raises(FileError, match="Identity: expected the attribute PatientBirthDate") as caught:
        Identity.of(Damaged(a_scan()))
    assert not any(secret in str(caught.value) for secret in SECRETS)
    assert caught.value.__cause__ is None


def test_names_in_other_alphabets_survive_the_change_of_alphabet(tmp_path: Path) -> None:
    scan = a_scan(SpecificCharacterSet="ISO_IR 100", PatientName="M\u00fcller^J\u00f6rg")
    scan.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    scan.file_meta = pydicom.dataset.FileMetaDataset()
    scan.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    scan.save_as(tmp_path / "in.dcm", enforce_file_format=True)
    assert "M\u00fcller".encode("latin-1") in (tmp_path / "in.dcm").read_bytes()
    identity = Identity.of(pydicom.dcmread(tmp_path / "in.dcm"))
    grid = VolumeGrid.on_detector((1, 2, 2), (1, 1, 1))
    write_tomosynthesis(tmp_path / "out.dcm", torch.ones(1, 2, 2), grid, identity=identity)
    found = pydicom.dcmread(tmp_path / "out.dcm")
    assert found.SpecificCharacterSet == "ISO_IR 192"
    assert str(found.PatientName) == "M\u00fcller^J\u00f6rg"


def test_the_breast_is_known_and_identifies_nobody() -> None:
    code = pydicom.Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = (
        "399368009",
        "SCT",
        "medio-lateral oblique",
    )
    scan = a_scan(ImageLaterality="L", ViewCodeSequence=[code], BreastImplantPresent="YES")
    assert Identity.of(scan).breast == BreastView(laterality="L", view="MLO", implant=True)
    assert Identity.of(a_scan()).breast == BreastView()


def test_the_side_of_a_frame_counts_too() -> None:
    anatomy, groups = pydicom.Dataset(), pydicom.Dataset()
    anatomy.FrameLaterality = "R"
    groups.FrameAnatomySequence = [anatomy]
    for sequence in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        assert BreastView.of(a_scan(**{sequence: [groups]})).laterality == "R"


def test_a_damaged_view_is_as_if_it_were_not_there() -> None:
    class Damaged(pydicom.Dataset):
        def get(self, key: Any, default: Any = None) -> Any:
            if key == "ViewCodeSequence":
                raise ValueError("damaged")
            return super().get(key, default)

    assert Identity.of(Damaged(a_scan(ImageLaterality="L"))).breast == BreastView()


def test_views_have_the_codes_of_the_standard() -> None:
    from pydicom.sr.codedict import codes

    known = {codes.cid4014.__getattr__(name).value for name in codes.cid4014.dir()}
    assert {value for value, _ in VIEWS.values()} <= known


def test_other_sides_and_views_are_refused() -> None:
    with pytest.raises(FileError, match="BreastView: expected laterality as one of L, R; got 'left'"):
        BreastView(laterality="left")
    with pytest.raises(FileError, match=r"BreastView: expected view as one of CC, MLO, .*; got 'TOP'"):
        BreastView(view="TOP")
