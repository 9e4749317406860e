"""Whose scan it is: attributes that travel from DICOM inputs to DICOM outputs, and nowhere else."""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from typing import Any, NoReturn

from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.comparable import comparable
from duotomo.io.dicom.deidentification import Pseudonyms, deidentified_attributes
from duotomo.io.dicom.header import quiet
from duotomo.io.dicom.identifying import identifying, readable
from duotomo.io.libraries import pydicom
from duotomo.io.paths import FileError

REMARKED = "The inputs do not belong together, and somebody allowed it."
"""Follows a remark in Image Comments."""

FAMILY = uuid.UUID("5f0b6c1e-8d0a-4c53-9d0e-3f6a1c2b7d94")
"""Sets all UIDs that are computed here apart from anybody else's."""


class Identity:
    """The patient and study attributes of one visit, and a frame of reference for what is made of it.

    It shows nothing of what it holds, be it as text or in a traceback, and it cannot be pickled. Only `put`
    gives the attributes away, to a DICOM dataset. UIDs are computed from the visit's own, so one visit has
    the same frame of reference in every file.

    Parameters
    ----------
    attributes : pydicom.Dataset
        What counts of it is copied.
    key : str
        Names the visit, and it alone.
    breast : BreastView
        Which breast, and its view.

    Examples
    --------
    >>> Identity.anonymous()
    Identity(hidden)
    """

    __slots__ = ("__attributes", "__breast", "__deidentified", "__key", "__remark", "__said")

    def __init__(self, attributes: Any, *, key: str, breast: BreastView) -> None:
        dataset = identifying(attributes)
        if not dataset.get("StudyInstanceUID"):
            dataset.StudyInstanceUID = _uid(key, "study")
        self.__attributes, self.__key, self.__breast = dataset, key, breast
        self.__remark, self.__deidentified = "", False
        self.__said = comparable(dataset, attributes, breast)

    @classmethod
    def of(cls, dataset: Any) -> Identity:
        """Return the identity in a DICOM dataset: for a visit of many files, in the first of them.

        Parameters
        ----------
        dataset : pydicom.Dataset
            Of any kind.

        Returns
        -------
        Identity
            Which shows nothing of what it holds.

        Raises
        ------
        FileError
            If an attribute is damaged; the message has no word of its value.

        Examples
        --------
        >>> scan, result = pydicom().Dataset(), pydicom().Dataset()
        >>> scan.PatientName, scan.SOPInstanceUID = "Doe^Jane", "1.2.3"
        >>> Identity.of(scan).put(result)
        >>> str(result.PatientName), str(Identity.of(scan))
        ('Doe^Jane', 'Identity(hidden)')
        """
        names = [name for name in ("SOPInstanceUID", "SeriesInstanceUID") if name in dataset]
        key = next((str(value) for name in names if (value := readable(dataset, name).value)), None)
        identity = cls(dataset, key=key or secrets.token_hex(16), breast=_breast(dataset))
        # What a result was made of does not change when it becomes another file.
        said = re.fullmatch(rf"([A-Z ,]+)\. {re.escape(REMARKED)}", _comments(dataset))
        return identity if said is None else identity.remarked(said[1])

    @classmethod
    def anonymous(cls, seed: str | None = None) -> Identity:
        """Return the identity of nobody, with UIDs of its own.

        Parameters
        ----------
        seed : str, optional
            UIDs are always the same for a seed, and random without one.

        Returns
        -------
        Identity
            Named ANONYMOUS.

        Examples
        --------
        >>> Identity.anonymous("a").study_uid == Identity.anonymous("a").study_uid
        True
        """
        nobody = pydicom().Dataset()
        nobody.PatientName, nobody.PatientID, nobody.StudyID = "ANONYMOUS^", "ANONYMOUS", "1"
        nobody.PatientIdentityRemoved, nobody.DeidentificationMethod = "YES", "No identity was given"
        key = secrets.token_hex(16) if seed is None else f"seed {seed}"
        return cls(nobody, key=key, breast=BreastView())

    @property
    def breast(self) -> BreastView:
        """Which breast, and its view: this identifies nobody."""
        return self.__breast

    @property
    def study_uid(self) -> str:
        """The Study Instance UID."""
        return str(self.__attributes.StudyInstanceUID)

    @property
    def frame_of_reference_uid(self) -> str:
        """The Frame of Reference UID of whatever lies in the frame of this visit's machine.

        It is not the input's: duotomo's patient coordinates are the machine's axes, and only files that
        agree in them may share the UID.
        """
        return self.uid("frame of reference")

    def uid(self, purpose: str) -> str:
        """Return a UID that is always the same for this visit and purpose.

        Parameters
        ----------
        purpose : str
            Such as that of a series.

        Returns
        -------
        str
            Of the arc 2.25.
        """
        return _uid(self.__key, purpose)

    def put(self, dataset: Any) -> None:
        """Set the patient and study attributes of a DICOM dataset.

        Parameters
        ----------
        dataset : pydicom.Dataset
            Is changed.
        """
        for element in self.__attributes:
            dataset[element.tag] = copy.deepcopy(element)

    def agreement(self, other: Identity) -> dict[str, bool | None]:
        """Return in what two visits agree, without a word of what it is.

        Names may differ in case, and in what pads them.

        Parameters
        ----------
        other : Identity
            Of the other visit.

        Returns
        -------
        dict of str to bool or None
            By DICOM's keyword: the attributes of the patient, `ImageLaterality` for the side,
            `ViewCodeSequence` for the view, and `SOPInstanceUID`. None where one visit does not say it.

        Examples
        --------
        >>> agreement = Identity.anonymous().agreement(Identity.anonymous())
        >>> agreement["PatientID"], agreement["PatientBirthDate"]
        (True, None)
        """
        return {
            name: mine == other.__said[name] if mine and other.__said[name] else None
            for name, mine in self.__said.items()
        }

    @property
    def remark(self) -> str:
        """What every file written with this identity says of it, "" for nothing."""
        return self.__remark

    def remarked(self, remark: str, *, again: int = 0) -> Identity:
        """Return the same identity with a remark that every file written with it carries.

        Parameters
        ----------
        remark : str
            In a few words, with commas between several; nothing in it identifies a patient. It is added to an
            earlier one.
        again : int
            Where one scan is several visits: how many of them came before. Each has a frame of its own.

        Returns
        -------
        Identity
            Another object.

        Examples
        --------
        >>> Identity.anonymous().remarked("DIFFERENT SIDES").remark
        'DIFFERENT SIDES'
        """
        key = f"{self.__key} {again}" if again else self.__key
        parts = dict.fromkeys(part for said in (self.__remark, remark) for part in said.split(", ") if part)
        return self.__with(self.__attributes, key, ", ".join(parts), deidentified=self.__deidentified)

    @property
    def is_deidentified(self) -> bool:
        """Whether files written with this identity are made by the standard's confidentiality profile."""
        return self.__deidentified

    def deidentified(self, pseudonyms: Pseudonyms) -> Identity:
        """Return a pseudonym of this identity, with other UIDs and without dates.

        Parameters
        ----------
        pseudonyms : Pseudonyms
            One patient, study or visit has one pseudonym with one of these.

        Returns
        -------
        Identity
            By the Basic Application Level Confidentiality Profile of DICOM PS3.15.

        Examples
        --------
        >>> scan, result = pydicom().Dataset(), pydicom().Dataset()
        >>> scan.PatientName, scan.PatientID = "Doe^Jane", "4711"
        >>> Identity.of(scan).deidentified(Pseudonyms()).put(result)
        >>> "Doe" in str(result), result.PatientIdentityRemoved
        (False, 'YES')
        """
        study_uid = _uid(pseudonyms.of(self.study_uid), "study")
        attributes = deidentified_attributes(self.__attributes, pseudonyms, study_uid)
        return self.__with(attributes, pseudonyms.of(self.__key), self.__remark, deidentified=True)

    def __with(self, attributes: Any, key: str, remark: str, *, deidentified: bool) -> Identity:
        other = Identity(attributes, key=key, breast=self.__breast)
        other.__remark, other.__deidentified, other.__said = remark, deidentified, self.__said
        return other

    def __repr__(self) -> str:
        return "Identity(hidden)"

    def __copy__(self) -> Identity:
        return self

    def __deepcopy__(self, memo: Any) -> Identity:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise FileError(
            "Identity: expected to stay in memory; got pickled. "
            "Write it to a DICOM file, where it belongs, or leave it out."
        )


def _comments(dataset: Any) -> str:
    try:
        with quiet():
            return str(dataset.get("ImageComments") or "")
    except Exception:  # damaged: as if there were none
        return ""


def _breast(dataset: Any) -> BreastView:
    try:
        return BreastView.of(dataset)
    except Exception:  # a damaged sequence: as if it were not there
        return BreastView()


def _uid(key: str, purpose: str) -> str:
    """Return a UID of the arc 2.25, for which nobody needs to be asked: a UUID as a decimal number."""
    return f"2.25.{uuid.uuid5(FAMILY, f'{key} {purpose}').int}"
