"""Files: scans, studies, checkpoints and results, and what other programs read and write.

Images and transforms are in patient coordinates, as `duotomo.io.patient_frame` says. `docs/file_formats.md`
describes what is read, `docs/result_folder.md` what duotomo keeps for itself; DICOM is in `duotomo.io.dicom`.
"""

from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.displacement import read_displacement, write_displacement
from duotomo.io.file_error import FileError
from duotomo.io.fingerprint import fingerprint
from duotomo.io.itk_reader import read_transform
from duotomo.io.itk_writer import write_transform
from duotomo.io.line_integrals import LogSettings, to_line_integrals
from duotomo.io.result_folder import SavedResult, read_result, write_result
from duotomo.io.scan import Scan, Supplied, Values
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_hdf5 import write_scan
from duotomo.io.study_file import read_study, write_study
from duotomo.io.volume_file import read_volume, write_volume

__all__ = [
    "CheckpointFile",
    "FileError",
    "LogSettings",
    "SavedResult",
    "Scan",
    "Supplied",
    "Values",
    "fingerprint",
    "read_displacement",
    "read_result",
    "read_scan",
    "read_study",
    "read_transform",
    "read_volume",
    "to_line_integrals",
    "write_displacement",
    "write_result",
    "write_scan",
    "write_study",
    "write_transform",
    "write_volume",
]
