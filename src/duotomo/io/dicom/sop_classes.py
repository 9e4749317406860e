"""DICOM's names of what files hold."""

from __future__ import annotations

PROCESSING = "1.2.840.10008.5.1.4.1.1.13.1.5"
PRESENTATION = "1.2.840.10008.5.1.4.1.1.13.1.4"
TOMOSYNTHESIS = "1.2.840.10008.5.1.4.1.1.13.1.3"
SPATIAL, DEFORMABLE = "1.2.840.10008.5.1.4.1.1.66.1", "1.2.840.10008.5.1.4.1.1.66.3"
