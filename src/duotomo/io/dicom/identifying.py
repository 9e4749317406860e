"""Attributes of DICOM files that say of whom a file is, and of which study."""

from __future__ import annotations

import copy
from typing import Any

from duotomo.io.dicom.header import quiet
from duotomo.io.libraries import pydicom
from duotomo.io.paths import FileError

PATIENT = (
    "PatientName",
    "PatientID",
    "IssuerOfPatientID",
    "IssuerOfPatientIDQualifiersSequence",
    "PatientBirthDate",
    "PatientSex",
    "PatientIdentityRemoved",
    "DeidentificationMethod",
    "DeidentificationMethodCodeSequence",
    "ClinicalTrialSponsorName",
    "ClinicalTrialProtocolID",
    "ClinicalTrialProtocolName",
    "ClinicalTrialSiteID",
    "ClinicalTrialSiteName",
    "ClinicalTrialSubjectID",
    "ClinicalTrialSubjectReadingID",
)
"""Of the modules Patient and Clinical Trial Subject."""

STUDY = (
    "StudyInstanceUID",
    "StudyDate",
    "StudyTime",
    "StudyID",
    "StudyDescription",
    "AccessionNumber",
    "IssuerOfAccessionNumberSequence",
    "ReferringPhysicianName",
    "PatientAge",
)
"""Of the modules General Study and Patient Study."""

REQUIRED = (
    "PatientName",
    "PatientID",
    "PatientBirthDate",
    "PatientSex",
    "StudyDate",
    "StudyTime",
    "StudyID",
    "AccessionNumber",
    "ReferringPhysicianName",
)
"""What DICOM wants in every file, if only empty."""


def identifying(attributes: Any) -> Any:
    """Return a dataset with copies of these attributes alone, empty ones where DICOM wants them."""
    dataset = pydicom().Dataset()
    for name in (*PATIENT, *STUDY):
        if name in attributes:
            dataset[name] = readable(attributes, name)
    for name in REQUIRED:
        if name not in dataset:
            setattr(dataset, name, "")
    return dataset


def readable(dataset: Any, name: str) -> Any:
    """Return a copy of an element; raise if it is damaged, without a word of what it holds."""
    try:
        # What other programs wrote against the rules is handed on as it is.
        with quiet():
            return copy.deepcopy(dataset[name])
    except Exception:  # pydicom has many; none may be shown, for its text may name the patient
        raise FileError(
            f"Identity: expected the attribute {name} as DICOM has it; got bytes that cannot be read. "
            f"Correct it or remove it."
        ) from None
