"""DICOM: projections in and out, volumes and registrations out, and whose they are."""

from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.projections import read_dicom_scan
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.dicom.tomosynthesis_reader import read_tomosynthesis

__all__ = [
    "BreastView",
    "Identity",
    "read_dicom_scan",
    "read_tomosynthesis",
    "write_deformable_registration",
    "write_dicom_projections",
    "write_spatial_registration",
    "write_tomosynthesis",
]
