"""What DICOM calls findings: codes, identifiers, and the volume that they are seen in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duotomo.change import Change, Finding
from duotomo.io.dicom.header import read_dataset, reading_dicom
from duotomo.io.dicom.identifying import PATIENT, STUDY
from duotomo.io.dicom.identity import FAMILY, Identity
from duotomo.io.dicom.instance import new_uid
from duotomo.io.dicom.sop_classes import TOMOSYNTHESIS
from duotomo.io.libraries import highdicom
from duotomo.io.paths import FileError

ALGORITHM = "duotomo change"

SCHEME = "99DUOTOMO"
"""Designates codes for which the standard has none."""

DEVICE_UID = f"2.25.{FAMILY.int}"
"""Of duotomo, as an observer."""

Words = tuple[str, str, str]
"""A code's value, its scheme and its meaning."""

BREAST: Words = ("76752008", "SCT", "Breast")
LESION: Words = ("52988006", "SCT", "Lesion")
ABNORMAL: Words = ("49755003", "SCT", "Morphologically Abnormal Structure")
SIDES: dict[str, Words] = {"L": ("7771000", "SCT", "Left"), "R": ("24028007", "SCT", "Right")}
CHANGES: dict[str, Words] = {
    "new": ("129721008", "SCT", "New finding"),
    "gone": ("GONE", SCHEME, "No longer seen"),
}
"""What a finding is, by its kind."""

EMPTY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber"),
    *("StudyID", "StudyDate", "StudyTime", "ReferringPhysicianName"),
)
"""Attributes that highdicom wants, if only without a value."""


def coded(words: Words) -> Any:
    """Return a code as highdicom takes it."""
    return highdicom().sr.CodedConcept(*words)


def tracking(finding: Finding, identity: Identity) -> tuple[str, str]:
    """Return the identifier and the UID by which files speak of one finding."""
    return f"Finding {finding.number}", identity.uid(f"finding {finding.number} {finding.place_mm}")


@dataclass(frozen=True, kw_only=True)
class SeenIn:
    """The DICOM volume that findings are seen in.

    dataset: without pixels, and without a word of the patient: `identity` puts those.
    """

    dataset: Any
    identity: Identity


def seen_in(where: str, volume: Path, change: Change, identity: Identity | None) -> SeenIn:
    """Return the volume of a change, as `write_tomosynthesis` wrote it; raise if it is another one."""
    with reading_dicom(where, volume, lambda error: type(error).__name__):
        dataset = read_dataset(volume, pixels=False)
        known = identity or Identity.of(dataset)
        sizes = tuple(int(dataset.get(name) or 0) for name in ("NumberOfFrames", "Rows", "Columns"))
        if (dataset.get("SOPClassUID"), sizes) != (TOMOSYNTHESIS, change.grid.shape):
            raise FileError(
                f"expected the volume of the change as write_tomosynthesis wrote it, (z, y, x) = "
                f"{change.grid.shape}; got (z, y, x) = {sizes}. Choose the file of that volume."
            )
        if identity is not None and dataset.FrameOfReferenceUID != identity.frame_of_reference_uid:
            raise FileError(
                "expected the volume of the same visit; got another Frame of Reference UID than that of "
                "`identity`. Pass the identity that the volume was written with."
            )
        # A study stays one; highdicom would judge, and show, names that others wrote against the rules.
        for name in (*PATIENT, *STUDY):
            if name in dataset and name != "StudyInstanceUID":
                del dataset[name]
        for name in EMPTY:
            setattr(dataset, name, None)
    dataset.StudyInstanceUID = known.study_uid
    return SeenIn(dataset=dataset, identity=known)


def equipment() -> dict[str, str]:
    """Return what made a file, as highdicom takes it."""
    # Imported here: the version is known only once the package is.
    from duotomo import __version__

    return {
        "manufacturer": "duotomo",
        "manufacturer_model_name": "duotomo",
        "software_versions": __version__,
        "device_serial_number": "none",
    }


def instance(identity: Identity, modality: str, description: str) -> dict[str, Any]:
    """Return series and instance as `new_dataset` numbers them, as highdicom takes them."""
    return {
        "series_instance_uid": identity.uid(f"series {modality} {description}"),
        "series_number": 1,
        "series_description": description,
        "sop_instance_uid": new_uid(),
        "instance_number": 1,
        "specific_character_set": "ISO_IR 192",
        "content_qualification": "RESEARCH",
    }
