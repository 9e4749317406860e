"""What a file or a folder is, from its name and its first bytes."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from duotomo.io.file_error import FileError, reason

IMAGES = (".nii.gz", ".nii", ".mha", ".mhd", ".nrrd")
"""Images that can be a volume, displacements, or the views of a scan."""

_MAGIC_BYTES = 132
_ITK_IN_MATLAB = b"Transform_"


class Kind(Enum):
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


def recognise(where: str, path: Path, *, with_geometry: bool = False) -> Kind:
    """Return what a path holds; raise if nothing is there, or nothing known.

    An image with a geometry, given or beside it, is a scan; without one it is a volume.
    """
    if path.is_dir():
        from duotomo.io.result_index import INDEX

        return Kind.RESULT if (path / INDEX).is_file() else Kind.SCAN
    if not path.is_file():
        raise FileError(f"{where}: expected a file or a folder at {path}; got nothing there. Check the path.")
    with path.open("rb") as file:
        start = file.read(_MAGIC_BYTES)
    if start[128:] == b"DICM":
        return _dicom(where, path)
    name = path.name.lower()
    if name.endswith(IMAGES):
        return _image(where, path, with_geometry=with_geometry)
    by_suffix: dict[str, Kind | Callable[[], Kind]] = {
        ".tfm": Kind.TRANSFORM,
        ".txt": Kind.TRANSFORM,
        ".json": Kind.GEOMETRY,
        ".xml": Kind.GEOMETRY,
        ".h5": lambda: _hdf5(where, path),
        ".hdf5": lambda: _hdf5(where, path),
        ".mat": lambda: Kind.TRANSFORM if _ITK_IN_MATLAB in start else Kind.SCAN,
        ".npy": Kind.SCAN,
        ".tif": Kind.SCAN,
        ".tiff": Kind.SCAN,
    }
    suffix = path.suffix.lower()
    if suffix not in by_suffix:
        known = ", ".join(sorted({*by_suffix, *IMAGES, ".dcm"}))
        raise FileError(
            f"{where}: expected DICOM, a result folder, or a name that ends in {known}; got {path.name!r}. "
            f"Convert the file to one of these."
        )
    found = by_suffix[suffix]
    return found if isinstance(found, Kind) else found()


def geometry_beside(path: Path) -> bool:
    """Return whether a geometry of the same name lies beside an image."""
    name = path.name
    for suffix in (*IMAGES, path.suffix):
        if name.lower().endswith(suffix):
            stem = name[: len(name) - len(suffix)]
            return any(path.with_name(f"{stem}.{kind}").is_file() for kind in ("json", "xml"))
    return False


def dicom_header(where: str, path: Path) -> Any:
    """Return the attributes of a DICOM file, without its pixels."""
    from duotomo.errors import DuotomoError
    from duotomo.io.dicom.header import read_dataset

    try:
        return read_dataset(path, pixels=False)
    except DuotomoError as error:
        raise FileError(f"{where}: {path}: {error}") from error
    except Exception as error:  # pydicom has many
        raise FileError(
            f"{where}: {path}: expected a DICOM file that can be read; got: {type(error).__name__}. "
            f"Check that the file is complete."
        ) from error


def sop_class(header: Any) -> str:
    """Return the UID that says what a DICOM file is; "" if it has none."""
    from duotomo.io.dicom.header import quiet

    # pydicom looks at a value when it is asked for, and warns then.
    with quiet():
        return str(header.get("SOPClassUID", ""))


def _dicom(where: str, path: Path) -> Kind:
    from duotomo.io.dicom.registration import DEFORMABLE, SPATIAL
    from duotomo.io.dicom.tomosynthesis_reader import SOP_CLASS

    return {
        SOP_CLASS: Kind.VOLUME,
        SPATIAL: Kind.REGISTRATION,
        DEFORMABLE: Kind.REGISTRATION,
    }.get(sop_class(dicom_header(where, path)), Kind.SCAN)


def _hdf5(where: str, path: Path) -> Kind:
    from duotomo.io.libraries import _library

    library = _library("h5py")
    try:
        with library.File(path, "r") as file:
            found = file.attrs.get("format")
            words = found.decode(errors="replace") if isinstance(found, bytes) else found
            if words == "duotomo study":
                return Kind.STUDY
            if words == "duotomo checkpoint":
                return Kind.CHECKPOINT
            return Kind.TRANSFORM if "TransformGroup" in file else Kind.SCAN
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{where}: {path}: expected HDF5 that can be read; got: {reason(error)}. "
            f"Check that the file is complete."
        ) from error


def _image(where: str, path: Path, *, with_geometry: bool) -> Kind:
    if with_geometry or geometry_beside(path):
        return Kind.SCAN
    return Kind.DISPLACEMENT if _n_components(where, path) == 3 else Kind.VOLUME


def _n_components(where: str, path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    from duotomo.io.libraries import nibabel, simpleitk

    try:
        if path.name.lower().endswith((".nii", ".nii.gz")):
            shape = nibabel().load(str(path)).shape
            return int(shape[4]) if len(shape) == 5 else 1
        reader = simpleitk().ImageFileReader()
        reader.SetFileName(str(path))
        reader.ReadImageInformation()
        return int(reader.GetNumberOfComponents())
    except FileError:
        raise
    except Exception as error:  # nibabel, zlib and ITK each have their own
        raise FileError(
            f"{where}: {path}: expected an image that can be read; got: {reason(error)}. "
            f"Check that the file is complete."
        ) from error
