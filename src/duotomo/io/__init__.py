"""Files of other programs: what duotomo reads and writes.

Needs `pip install 'duotomo[io]'`. Files are in patient coordinates, as `duotomo.io.patient_frame` says.
"""

from duotomo.io.displacement import read_displacement, write_displacement
from duotomo.io.file_error import FileError
from duotomo.io.itk_reader import read_transform
from duotomo.io.itk_writer import write_transform

__all__ = ["FileError", "read_displacement", "read_transform", "write_displacement", "write_transform"]
