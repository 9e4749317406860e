"""Files: scans, studies, checkpoints and results, and what other programs read and write.

Images and transforms are in patient coordinates, as `duotomo.io.patient_frame` says. `docs/file_formats.md`
describes what is read, `docs/result_folder.md` what duotomo keeps for itself; DICOM is in `duotomo.io.dicom`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

if TYPE_CHECKING:
    from duotomo.io.acquisitions import Acquired, read_acquisitions
    from duotomo.io.agreement import Agreement, Allowed, compare_visits, comparison_refusal
    from duotomo.io.change_folder import read_change, write_change
    from duotomo.io.checkpoint_file import CheckpointFile
    from duotomo.io.conversion import convert
    from duotomo.io.description import describe
    from duotomo.io.displacement import read_displacement, write_displacement
    from duotomo.io.file_kind import FileKind, recognise
    from duotomo.io.itk_reader import read_transform
    from duotomo.io.itk_writer import write_transform
    from duotomo.io.line_integrals import LogSettings, to_line_integrals
    from duotomo.io.paths import FileError
    from duotomo.io.result_folder import write_result
    from duotomo.io.result_format import ResultFormat
    from duotomo.io.result_reader import SavedResult, read_result
    from duotomo.io.run_fingerprint import fingerprint
    from duotomo.io.scan import Scan
    from duotomo.io.scan_file import read_scan
    from duotomo.io.scan_hdf5 import write_scan
    from duotomo.io.scan_options import ScanOptions, Values
    from duotomo.io.study_file import read_study, write_study
    from duotomo.io.uncertainty_files import SavedUncertainty
    from duotomo.io.visits import ScannedStudy, read_visits
    from duotomo.io.volume_file import read_volume, write_volume
    from duotomo.io.volume_pair import VolumePair, read_volume_pair

__all__ = [
    "Acquired",
    "Agreement",
    "Allowed",
    "CheckpointFile",
    "FileError",
    "FileKind",
    "LogSettings",
    "ResultFormat",
    "SavedResult",
    "SavedUncertainty",
    "Scan",
    "ScanOptions",
    "ScannedStudy",
    "Values",
    "VolumePair",
    "compare_visits",
    "comparison_refusal",
    "convert",
    "describe",
    "fingerprint",
    "read_acquisitions",
    "read_change",
    "read_displacement",
    "read_result",
    "read_scan",
    "read_study",
    "read_transform",
    "read_visits",
    "read_volume",
    "read_volume_pair",
    "recognise",
    "to_line_integrals",
    "write_change",
    "write_displacement",
    "write_result",
    "write_scan",
    "write_study",
    "write_transform",
    "write_volume",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "acquisitions": ("Acquired", "read_acquisitions"),
        "agreement": ("Agreement", "Allowed", "compare_visits", "comparison_refusal"),
        "change_folder": ("read_change", "write_change"),
        "checkpoint_file": ("CheckpointFile",),
        "conversion": ("convert",),
        "description": ("describe",),
        "displacement": ("read_displacement", "write_displacement"),
        "file_kind": ("FileKind", "recognise"),
        "itk_reader": ("read_transform",),
        "itk_writer": ("write_transform",),
        "line_integrals": ("LogSettings", "to_line_integrals"),
        "paths": ("FileError",),
        "result_folder": ("write_result",),
        "result_format": ("ResultFormat",),
        "result_reader": ("SavedResult", "read_result"),
        "run_fingerprint": ("fingerprint",),
        "scan": ("Scan",),
        "scan_file": ("read_scan",),
        "scan_hdf5": ("write_scan",),
        "scan_options": ("ScanOptions", "Values"),
        "study_file": ("read_study", "write_study"),
        "uncertainty_files": ("SavedUncertainty",),
        "visits": ("ScannedStudy", "read_visits"),
        "volume_file": ("read_volume", "write_volume"),
        "volume_pair": ("VolumePair", "read_volume_pair"),
    },
)
