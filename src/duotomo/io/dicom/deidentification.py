"""De-identified DICOM files: the Basic Application Level Confidentiality Profile of PS3.15, Annex E.

Files of duotomo hold what `Identity` gives them, and what duotomo computed. So the profile is an allow-list:
`deidentified_attributes` makes all that a file says of patient and study, and `deidentify` replaces the dates
of the computation. Actions are those of Table E.1-1; a test holds every attribute that is written to them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Any

from duotomo.io.dicom.header import code, item
from duotomo.io.paths import AnyPath, FileError

LEAST_BYTES, MOST_BYTES = 16, 4096
"""Of a key: fewer could be guessed, more are no key."""

PROFILE = ("113100", "Basic Application Confidentiality Profile")
CLEAN_DESCRIPTORS = ("113105", "Clean Descriptors Option")
CLEAN_CONTENT = ("113104", "Clean Structured Content Option")
SAFE_PRIVATE = ("113111", "Retain Safe Private Option")
"""Codes of CID 7050 that say what was done. Descriptions are duotomo's own words, which name nobody."""

METHOD = "DICOM PS3.15 Basic Profile, Clean Descriptors; duotomo"

DUMMIES = {
    "AcquisitionDateTime": "19000101000000",
    "FrameAcquisitionDateTime": "19000101000000",
    "FrameReferenceDateTime": "19000101000000",
    "ContentDate": "19000101",
    "ContentTime": "000000",
    "ContentCreatorName": "duotomo^",
    "DeviceSerialNumber": "none",
}
"""Values that stand for what a file must have; D in the table."""

REMOVED = ("InstanceCreationDate", "InstanceCreationTime", "ContributingEquipmentSequence")
"""X in the table, or of such attributes."""


class Pseudonyms:
    """Turns what identifies into what does not, the same each time for one key: HMAC-SHA-256.

    Parameters
    ----------
    key : bytes, optional
        A secret of at least 16 bytes. Whoever has it can repeat the pseudonyms, and nobody else; drawn at
        random, and forgotten, unless given.

    Raises
    ------
    FileError
        If the key is too short.

    Examples
    --------
    >>> key = bytes(range(16))
    >>> Pseudonyms(key).of("4711") == Pseudonyms(key).of("4711"), Pseudonyms().of("4711") == "4711"
    (True, False)
    """

    __slots__ = ("__key",)

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and not LEAST_BYTES <= len(key) <= MOST_BYTES:
            raise FileError(
                f"Pseudonyms: expected a key of {LEAST_BYTES} to {MOST_BYTES} bytes; got {len(key)}. Draw "
                f"one at random: head -c 32 /dev/urandom > KEY."
            )
        self.__key = secrets.token_bytes(32) if key is None else key

    @classmethod
    def of_file(cls, path: AnyPath) -> Pseudonyms:
        """Return those of the key in a file, of which every byte counts.

        Parameters
        ----------
        path : str or path
            That others cannot read.

        Returns
        -------
        Pseudonyms
            Which do not show the key.

        Raises
        ------
        FileError
            If the file cannot be read, or is no key.
        """
        try:
            with Path(path).open("rb") as file:
                key = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise FileError(
                f"Pseudonyms: expected a key in the file {path}; got: {error.strerror}. Check the path."
            ) from error
        return cls(key)

    def of(self, text: str) -> str:
        """Return the pseudonym of a text.

        Parameters
        ----------
        text : str
            Such as a Patient ID.

        Returns
        -------
        str
            32 hexadecimal digits.
        """
        return hmac.new(self.__key, text.encode(), hashlib.sha256).hexdigest()[:32]

    def __repr__(self) -> str:
        return "Pseudonyms(hidden)"


def deidentified_attributes(attributes: Any, pseudonyms: Pseudonyms, study_uid: str) -> Any:
    """Return what a de-identified file says of patient and study: pseudonyms, and nothing else."""
    who = [str(attributes.get(name) or "") for name in ("PatientID", "IssuerOfPatientID")]
    # Who has no ID is nobody else: the pseudonym is that of the study.
    pseudonym = pseudonyms.of("\0".join(who) if who[0] else str(attributes.StudyInstanceUID))
    return item(
        {
            "PatientName": f"{pseudonym}^",
            "PatientID": pseudonym,
            "StudyInstanceUID": study_uid,
            "PatientIdentityRemoved": "YES",
            "DeidentificationMethod": METHOD,
            "DeidentificationMethodCodeSequence": [_code(PROFILE), _code(CLEAN_DESCRIPTORS)],
        }
    )


def deidentify(dataset: Any) -> None:
    """Replace the dates of a computation in a file with a de-identified identity, and say what was done.

    Private attributes are duotomo's own block of geometry and scale, which is declared safe.
    """
    for name in REMOVED:
        if name in dataset:
            del dataset[name]
    dataset.walk(_replace)
    dataset.LongitudinalTemporalInformationModified = "REMOVED"
    if "ContentSequence" in dataset:
        dataset.DeidentificationMethodCodeSequence.append(_code(CLEAN_CONTENT))
    creators = [element for element in dataset if element.tag.is_private_creator]
    if creators:
        dataset.PrivateDataElementCharacteristicsSequence = [_safe(element) for element in creators]
        dataset.DeidentificationMethodCodeSequence.append(_code(SAFE_PRIVATE))


def _replace(dataset: Any, element: Any) -> None:
    if element.keyword in DUMMIES:
        element.value = DUMMIES[element.keyword]


def _safe(creator: Any) -> Any:
    return item(
        {
            "PrivateGroupReference": creator.tag.group,
            "PrivateCreatorReference": creator.value,
            "BlockIdentifyingInformationStatus": "SAFE",
        }
    )


def _code(said: tuple[str, str]) -> Any:
    value, meaning = said
    return code(value, "DCM", meaning)
