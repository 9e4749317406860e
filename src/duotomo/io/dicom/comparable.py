"""What of a DICOM file is compared, to tell whether two visits belong together."""

from __future__ import annotations

from typing import Any

from duotomo.io.dicom.breast_view import BreastView, stated_view
from duotomo.io.dicom.header import quiet

COMPARED = ("PatientID", "IssuerOfPatientID", "PatientName", "PatientBirthDate", "PatientSex")
"""By which two visits are told to be of one patient, or not."""

SIDE, VIEW, INSTANCE = "ImageLaterality", "ViewCodeSequence", "SOPInstanceUID"
"""What else of two visits is compared."""


def comparable(patient: Any, dataset: Any, breast: BreastView) -> dict[str, str]:
    """Return by keyword a text that is the same where values mean the same, "" where there is none.

    patient: the attributes of the patient in the dataset.
    """
    return {
        **{name: _text(name, patient.get(name)) for name in COMPARED},
        SIDE: breast.laterality or "",
        VIEW: _or_nothing(stated_view, dataset),
        INSTANCE: _or_nothing(lambda dataset: dataset.get(INSTANCE), dataset),
    }


def _text(name: str, value: Any) -> str:
    text = " ".join(str(value or "").split())
    if name != "PatientName":
        return text
    # Of the ways to write a name, the first is the alphabetic one; empty parts at its end say nothing.
    alphabetic = text.partition("=")[0] or text
    return "^".join(part.strip() for part in alphabetic.split("^")).rstrip("^").casefold()


def _or_nothing(get: Any, dataset: Any) -> str:
    try:
        with quiet():
            return str(get(dataset) or "")
    except Exception:  # damaged: as if it were not there
        return ""
