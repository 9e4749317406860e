"""What a file or a folder is, from its name and its first bytes."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from duotomo.io.dicom.header import is_dicom, quiet, read_dataset, reading_dicom
from duotomo.io.dicom.sop_classes import DEFORMABLE, SPATIAL, TOMOSYNTHESIS
from duotomo.io.hdf5 import SUFFIXES as HDF5
from duotomo.io.hdf5 import has, opened, stated_format
from duotomo.io.images import READERS, n_components
from duotomo.io.paths import AnyPath, FileError, geometries_beside, naming
from duotomo.io.result_index import has_result

IMAGES = tuple(READERS)
"""Images that can be a volume, displacements, or the views of a scan."""

_MAGIC_BYTES = 132
_ITK_IN_MATLAB = b"Transform_"


class FileKind(Enum):
    """What a path holds."""

    RESULT = "result folder"
    SCAN = "scan"
    STUDY = "study"
    CHECKPOINT = "checkpoint"
    VOLUME = "volume"
    TRANSFORM = "transform"
    DISPLACEMENT = "displacements"
    REGISTRATION = "DICOM registration"
    GEOMETRY = "geometry"


_OWN = {"duotomo study": FileKind.STUDY, "duotomo checkpoint": FileKind.CHECKPOINT}


def recognise(path: AnyPath, *, with_geometry: bool = False) -> FileKind:
    """Return what a path holds, from its name and its header.

    Parameters
    ----------
    path : str or path
        Of a file or a folder.
    with_geometry : bool
        Whether a geometry is given elsewhere: an image with a geometry, given or beside it, is a scan;
        without one it is a volume.

    Returns
    -------
    FileKind
        Whether the content is whole is not looked at.

    Raises
    ------
    FileError
        If nothing is there, or nothing known.
    """
    where, path = "recognise", Path(path)
    if path.is_dir():
        return FileKind.RESULT if has_result(path) else FileKind.SCAN
    if not path.is_file():
        raise FileError(f"{where}: expected a file or a folder at {path}; got nothing there. Check the path.")
    if is_dicom(path):
        return _dicom(where, path)
    name = path.name.lower()
    if name.endswith(IMAGES):
        return _image(where, path, with_geometry=with_geometry)
    by_suffix: dict[str, FileKind | Callable[[str, Path], FileKind]] = {
        ".tfm": FileKind.TRANSFORM,
        ".txt": FileKind.TRANSFORM,
        ".json": FileKind.GEOMETRY,
        ".xml": FileKind.GEOMETRY,
        **dict.fromkeys(HDF5, _hdf5),
        ".mat": _mat,
        ".npy": FileKind.SCAN,
        ".tif": FileKind.SCAN,
        ".tiff": FileKind.SCAN,
    }
    suffix = path.suffix.lower()
    if suffix not in by_suffix:
        known = ", ".join(sorted({*by_suffix, *IMAGES, ".dcm"}))
        raise FileError(
            f"{where}: expected DICOM, a result folder, or a name that ends in {known}; got {path.name!r}. "
            f"Convert the file to one of these."
        )
    found = by_suffix[suffix]
    return found if isinstance(found, FileKind) else found(where, path)


def is_study(path: Path) -> bool:
    """Return whether a file says of itself that it is a study."""
    if not path.name.endswith(HDF5) or not path.is_file():
        return False
    try:
        return _hdf5("is_study", path) is FileKind.STUDY
    except FileError:
        return False


def dicom_header(where: str, path: Path) -> Any:
    """Return the attributes of a DICOM file, without its pixels."""
    with reading_dicom(where, path, lambda error: type(error).__name__):
        return read_dataset(path, pixels=False)


def sop_class(header: Any) -> str:
    """Return the UID that says what a DICOM file is; "" if it has none."""
    # pydicom looks at a value when it is asked for, and warns then.
    with quiet():
        return str(header.get("SOPClassUID", ""))


def _dicom(where: str, path: Path) -> FileKind:
    return {
        TOMOSYNTHESIS: FileKind.VOLUME,
        SPATIAL: FileKind.REGISTRATION,
        DEFORMABLE: FileKind.REGISTRATION,
    }.get(sop_class(dicom_header(where, path)), FileKind.SCAN)


def _mat(where: str, path: Path) -> FileKind:
    with path.open("rb") as file:
        return FileKind.TRANSFORM if _ITK_IN_MATLAB in file.read(_MAGIC_BYTES) else FileKind.SCAN


def _hdf5(where: str, path: Path) -> FileKind:
    with naming(where, path), opened(path) as file:
        stated = stated_format(file)
        if stated in _OWN:
            return _OWN[stated]
        return FileKind.TRANSFORM if has(file, "TransformGroup") else FileKind.SCAN


def _image(where: str, path: Path, *, with_geometry: bool) -> FileKind:
    if with_geometry or geometries_beside(path, IMAGES):
        return FileKind.SCAN
    with naming(where, path):
        return FileKind.DISPLACEMENT if n_components(path) == 3 else FileKind.VOLUME
