"""Whom a DICOM file, or a folder of them, is of."""

from __future__ import annotations

from pathlib import Path

from duotomo.io.dicom.header import is_dicom, read_dataset, reading_dicom
from duotomo.io.dicom.identity import Identity
from duotomo.io.paths import FileError


def read_identity(where: str, path: Path) -> Identity:
    """Return the identity in a DICOM file, or in the first of a folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    found = next((file for file in files if file.is_file() and is_dicom(file)), None)
    if found is None:
        raise FileError(f"{where}: expected a DICOM file at {path}; got none. Check the path.")
    with reading_dicom(where, found, lambda error: type(error).__name__):
        return Identity.of(read_dataset(found, pixels=False))
