"""Files: studies, checkpoints and results, and what other programs read and write.

Needs `pip install 'duotomo[io]'`. Images and transforms are in patient coordinates, as
`duotomo.io.patient_frame` says; `docs/result_folder.md` describes the formats of duotomo's own.
"""

from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.displacement import read_displacement, write_displacement
from duotomo.io.file_error import FileError
from duotomo.io.fingerprint import fingerprint
from duotomo.io.itk_reader import read_transform
from duotomo.io.itk_writer import write_transform
from duotomo.io.result_folder import SavedResult, read_result, write_result
from duotomo.io.study_file import read_study, write_study
from duotomo.io.volume_file import read_volume, write_volume

__all__ = [
    "CheckpointFile",
    "FileError",
    "SavedResult",
    "fingerprint",
    "read_displacement",
    "read_result",
    "read_study",
    "read_transform",
    "read_volume",
    "write_displacement",
    "write_result",
    "write_study",
    "write_transform",
    "write_volume",
]
