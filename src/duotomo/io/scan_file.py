"""Scans from files, whatever wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.io.hdf5 import has, opened, stated_format
from duotomo.io.paths import AnyPath, FileError, reason
from duotomo.io.scan_arrays import ScanArrays
from duotomo.io.scan_geometry import place_stack
from duotomo.io.scan_hdf5 import FORMAT, read_arrays_hdf5
from duotomo.io.scan_options import Supplied, Values
from duotomo.io.size_check import MAX_BYTES
from duotomo.io.stacks import READERS, Request, Stack

if TYPE_CHECKING:
    from duotomo.io.scan import Scan

MOST_ATTENUATION = 50.0
"""No ray is weakened by this many powers of e and still measured; counts read as line integrals are."""

_DICOM_SUFFIXES = (".dcm", ".dicom", ".ima", "")


def read_scan(path: AnyPath, supplied: Supplied | None = None, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Return one visit from a DICOM file or folder, an HDF5 file, or a stack of images with a geometry.

    Stacks are NIfTI, MHA, MHD, NRRD, TIFF, NPY, MAT or plain HDF5, with the geometry as a JSON file
    (`Acquisition.to_json`) or RTK's XML. `docs/file_formats.md` has the axes of each.

    Parameters
    ----------
    path : str or path
        Of a file, or of a folder of DICOM files.
    supplied : Supplied, optional
        What a person says that the file does not.
    max_bytes : int
        The most memory that the file may ask for.

    Returns
    -------
    Scan
        As the file has it: counts stay counts.

    Raises
    ------
    FileError
        If the file is missing, damaged, of another kind, or does not say enough.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duotomo.geometry import paper
    >>> geometry = paper(detector_shape=(8, 8), pixel_mm=16.0)
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scan.json").write_text(geometry.to_json())
    ...     np.save(f"{folder}/scan.npy", np.ones((11, 8, 8), dtype=np.float32))
    ...     scan = read_scan(f"{folder}/scan.npy")
    >>> scan.values, scan.acquisition == geometry
    (<Values.LINE_INTEGRALS: 'line integrals'>, True)
    """
    arrays = read_scan_arrays(path, supplied, max_bytes=max_bytes)
    with _naming(Path(path)):
        return arrays.scan()


def read_scan_arrays(
    path: AnyPath, supplied: Supplied | None = None, *, max_bytes: int = MAX_BYTES
) -> ScanArrays:
    """Return what `read_scan` makes a scan of, if it can be one."""
    path, supplied = Path(path), supplied or Supplied()
    with _naming(path):
        if path.is_dir() or _is_dicom(path):
            from duotomo.io.dicom.projections import read_dicom_arrays

            return read_dicom_arrays(path, supplied, max_bytes=max_bytes)
        if path.suffix.lower() in (".h5", ".hdf5") and _is_own(path):
            return _own(path, supplied, max_bytes)
        arrays = _stack(path, supplied, max_bytes)
        arrays.check()
        return arrays


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let every error name the file, once."""
    try:
        yield
    except DuotomoError as error:
        # Readers of one format have said where already.
        text = str(error)
        named = text.startswith("read_") and str(path) in text
        raise FileError(text if named else f"read_scan: {path}: {text}") from error
    except OSError as error:
        raise FileError(f"read_scan: {path}: expected to read it; got: {reason(error)}. Check it.") from error


def _is_dicom(path: Path) -> bool:
    if not path.is_file():
        raise FileError(f"read_scan: expected a file or a folder at {path}; got nothing there. Check it.")
    with path.open("rb") as file:
        start = file.read(132)
    return start[128:] == b"DICM" or path.suffix.lower() in _DICOM_SUFFIXES


def _is_own(path: Path) -> bool:
    """Whether an HDF5 file says that it is one of duotomo's own, or has a geometry as they have."""
    with opened(path) as file:
        stated = stated_format(file)
        if stated == "duotomo study":
            raise FileError(
                "expected one scan; got a study, which holds every visit. Pass it alone, without other "
                "scans, to read_visits."
            )
        return stated.startswith("duotomo ") or has(file, "source_mm")


def _own(path: Path, supplied: Supplied, max_bytes: int) -> ScanArrays:
    said = [name for name, value in vars(supplied).items() if value is not None and name != "values"]
    if said:
        raise FileError(
            f"expected nothing but the file, a {FORMAT.name} with its geometry inside; got "
            f"{', '.join(f'`{name}`' for name in said)} too. Leave that out, or change the file."
        )
    scan = read_arrays_hdf5(path, max_bytes=max_bytes)
    if supplied.values not in (None, scan.values):
        raise FileError(
            f"expected {scan.values.value}, as the file says; got `values={supplied.values}`. "
            f"Leave that out, or change the file."
        )
    return scan


def _stack(path: Path, supplied: Supplied, max_bytes: int) -> ScanArrays:
    read = next((read for suffix, read in READERS.items() if path.name.lower().endswith(suffix)), None)
    if read is None:
        raise FileError(
            f"expected DICOM, or a name that ends in {', '.join(READERS)}; got {path.name!r}. "
            f"Convert the scan to one of these."
        )
    stack = read(Request(path=path, variable=supplied.variable, max_bytes=max_bytes))
    placed = place_stack(stack, path, supplied)
    values = supplied.values or _guess(stack)
    precise = stack.array.dtype.kind == "f" and stack.array.dtype.itemsize == 8
    # What cannot be a number of this kind is looked for in the scan, not while it is converted.
    with np.errstate(all="ignore"):
        numbers = np.require(stack.array, np.float64 if precise else np.float32, ["C", "W"])
    return ScanArrays(
        projections=numbers,
        values=values,
        acquisition=placed.acquisition,
        format=stack.format,
        facts={**placed.facts, "values": "as supplied" if supplied.values else f"taken as {values.value}"},
        warnings=placed.warnings,
    )


def _guess(stack: Stack) -> Values:
    """Return line integrals where the numbers can be that; raise where a person has to say."""
    array = stack.array
    if array.dtype.kind != "f":
        raise FileError(
            f"expected to be told what whole numbers ({array.dtype}) are; got nothing. Pass "
            f"`values=Values.COUNTS` or `values=Values.LINE_INTEGRALS`."
        )
    most = float(np.max(array, initial=-np.inf, where=np.isfinite(array)))
    if most > MOST_ATTENUATION:
        raise FileError(
            f"expected line integrals, which are never above {MOST_ATTENUATION:g}; got up to {most:g}. "
            f"Pass `values=Values.COUNTS` if they are that, or divide them by their scale."
        )
    return Values.LINE_INTEGRALS
