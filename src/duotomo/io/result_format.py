"""Formats of a result beside NIfTI and ITK's transforms."""

from __future__ import annotations

from enum import Enum


class ResultFormat(Enum):
    """A format in which `write_result` writes volumes too; DICOM also has the motions."""

    MHA = "mha"
    NRRD = "nrrd"
    DICOM = "dicom"
