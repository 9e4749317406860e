"""DICOM: projections in and out, volumes, registrations and findings out, and whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.io.dicom.breast_view import BreastView
    from duotomo.io.dicom.deidentification import Pseudonyms
    from duotomo.io.dicom.findings_report import write_findings_report
    from duotomo.io.dicom.findings_segmentation import write_findings_segmentation
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.dicom.projections import read_dicom_scan
    from duotomo.io.dicom.projections_writer import write_dicom_projections
    from duotomo.io.dicom.registration import (
        write_deformable_registration,
        write_registration,
        write_spatial_registration,
    )
    from duotomo.io.dicom.registration_reader import Registration, read_registration
    from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
    from duotomo.io.dicom.tomosynthesis_reader import read_tomosynthesis

__all__ = [
    "BreastView",
    "Identity",
    "Pseudonyms",
    "Registration",
    "read_dicom_scan",
    "read_registration",
    "read_tomosynthesis",
    "write_deformable_registration",
    "write_dicom_projections",
    "write_findings_report",
    "write_findings_segmentation",
    "write_registration",
    "write_spatial_registration",
    "write_tomosynthesis",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "breast_view": ("BreastView",),
        "deidentification": ("Pseudonyms",),
        "findings_report": ("write_findings_report",),
        "findings_segmentation": ("write_findings_segmentation",),
        "identity": ("Identity",),
        "projections": ("read_dicom_scan",),
        "projections_writer": ("write_dicom_projections",),
        "registration": ("write_deformable_registration", "write_registration", "write_spatial_registration"),
        "registration_reader": ("Registration", "read_registration"),
        "tomosynthesis": ("write_tomosynthesis",),
        "tomosynthesis_reader": ("read_tomosynthesis",),
    },
)
