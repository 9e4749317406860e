"""One DICOM file that duotomo writes: what all of them have in common, and how they get to the disk."""

from __future__ import annotations

import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from duotomo.io.dicom.deidentification import deidentify
from duotomo.io.dicom.header import item
from duotomo.io.dicom.identity import REMARKED, Identity
from duotomo.io.durable import durable
from duotomo.io.libraries import pydicom
from duotomo.io.paths import FileError, reason

SUFFIXES = (".dcm",)

EXPLICIT = "1.2.840.10008.1.2.1"
"""The transfer syntax Explicit VR Little Endian: not compressed."""

MOST_CHARACTERS = 64
"""Of a description."""

MOST_BYTES = 2**32 - 2
"""Of one element that is not compressed: its length is written in 32 bits."""


def new_dataset(sop_class: str, modality: str, identity: Identity, description: str) -> Any:
    """Return a dataset with the modules that all files have: patient, study, series, equipment and frame.

    The series is the same for one identity, modality and description; the instance is always a new one.
    """
    # Imported here: the version is known only once the package is.
    from duotomo import __version__

    now = datetime.now()
    dataset = item(
        {
            "SpecificCharacterSet": "ISO_IR 192",
            "SOPClassUID": sop_class,
            "SOPInstanceUID": new_uid(),
            "InstanceCreationDate": now.strftime("%Y%m%d"),
            "InstanceCreationTime": now.strftime("%H%M%S"),
            "ContentDate": now.strftime("%Y%m%d"),
            "ContentTime": now.strftime("%H%M%S"),
            "Modality": modality,
            "SeriesInstanceUID": identity.uid(f"series {modality} {description}"),
            "SeriesNumber": 1,
            "SeriesDescription": description,
            "InstanceNumber": 1,
            "FrameOfReferenceUID": identity.frame_of_reference_uid,
            "PositionReferenceIndicator": "",
            "Manufacturer": "duotomo",
            "ManufacturerModelName": "duotomo",
            "DeviceSerialNumber": "none",
            "SoftwareVersions": __version__,
        }
    )
    identity.put(dataset)
    return dataset


def new_uid() -> str:
    """Return a UID that nobody has, of the arc 2.25."""
    return f"2.25.{uuid.uuid4().int}"


def check_description(where: str, description: str) -> None:
    """Raise unless a description fits into DICOM's Series Description."""
    if not 0 < len(description) <= MOST_CHARACTERS or "\\" in description or not description.isprintable():
        raise FileError(
            f"{where}: expected a description of 1 to 64 printable characters without a backslash; got "
            f"{len(description)} characters, {description[:64]!r}. Change it."
        )


def save(where: str, path: Path, dataset: Any, identity: Identity, transfer_syntax: str = EXPLICIT) -> None:
    """Write a dataset of an identity; an older file is replaced once the new one is complete."""
    if identity.remark:
        _put_remark(dataset, identity.remark)
    if identity.is_deidentified:
        deidentify(dataset)
    meta = pydicom().dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = dataset.SOPClassUID
    meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    meta.TransferSyntaxUID = pydicom().uid.UID(EXPLICIT)
    dataset.file_meta = meta
    if transfer_syntax != EXPLICIT:
        _compress(where, dataset, transfer_syntax)
    with durable(where, path) as fresh:
        dataset.save_as(str(fresh), enforce_file_format=True)


def _put_remark(dataset: Any, remark: str) -> None:
    """Say a remark where viewers show it: before the series, and with what is not a report."""
    dataset.SeriesDescription = f"{remark}: {dataset.SeriesDescription}"[:MOST_CHARACTERS]
    if "ContentDescription" in dataset:
        dataset.ContentDescription = dataset.SeriesDescription
    elif "Rows" in dataset:
        dataset.ImageComments = f"{remark}. {REMARKED}"


def _compress(where: str, dataset: Any, transfer_syntax: str) -> None:
    uid = pydicom().uid.UID(transfer_syntax)
    try:
        if uid.is_deflated:
            dataset.file_meta.TransferSyntaxUID = uid
        else:
            dataset.compress(uid, generate_instance_uid=False)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        raise FileError(
            f"{where}: expected a transfer syntax that can be written here; got {transfer_syntax} and: "
            f"{reason(error)}. Use {EXPLICIT}, which is not compressed."
        ) from error
