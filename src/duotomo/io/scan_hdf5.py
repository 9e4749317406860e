"""A scan in one HDF5 file, with the geometry inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duotomo.geometry import Acquisition
from duotomo.io.hdf5 import FileFormat, attribute, has, part, put, put_text, reading, writing
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.scan_arrays import ScanArrays
from duotomo.io.scan_options import Values
from duotomo.io.seal import UNSEALED, is_sealed
from duotomo.io.size_check import MAX_BYTES, check_numbers
from duotomo.io.stacks.hdf5 import check_inside, checked_read

if TYPE_CHECKING:
    from duotomo.io.scan import Scan

FORMAT = FileFormat(name="duotomo scan", version=2, older=(1,))

_WHERE = "read_scan_hdf5"
_PER_VIEW = ("source_mm", "detector_center_mm", "u_axis", "v_axis")
_MOST_VECTOR_BYTES = 2**26


def write_scan(path: AnyPath, scan: Scan) -> None:
    """Write a scan to one `.h5` file; nothing in it identifies a patient.

    Datasets: `projections` (view, v, u); `source_mm`, `detector_center_mm`, `u_axis` and `v_axis` (view,
    xyz), in the machine frame, float64; `pixel_spacing_mm` (v, u); where known, `flat_field`. Attributes of
    the root: `format`, `version`, `values` ("line integrals" or "counts") and, where known, `thickness_mm`.
    An older file is replaced once the new one is complete.

    Parameters
    ----------
    path : str or path
        Ends in `.h5` or `.hdf5`.
    scan : Scan
        Of any kind.

    Raises
    ------
    FileError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import torch
    >>> from duotomo.geometry import paper
    >>> from duotomo.io import Scan
    >>> geometry = paper(detector_shape=(8, 8), pixel_mm=16.0)
    >>> scan = Scan(projections=torch.ones(11, 8, 8), values=Values.LINE_INTEGRALS, acquisition=geometry)
    >>> with TemporaryDirectory() as folder:
    ...     write_scan(f"{folder}/scan.h5", scan)
    ...     again = read_scan_hdf5(f"{folder}/scan.h5")
    >>> again.acquisition == geometry, bool((again.projections == 1).all())
    (True, True)
    """
    geometry = scan.acquisition
    with writing("write_scan", path, FORMAT) as file:
        put_text(file, "values", scan.values.value)
        if scan.thickness_mm is not None:
            file.attrs["thickness_mm"] = scan.thickness_mm
        for name in _PER_VIEW:
            put(file, name, np.array(getattr(geometry, name)))
        put(file, "pixel_spacing_mm", np.array(geometry.pixel_spacing_mm))
        put(file, "projections", scan.projections)
        if scan.flat_field is not None:
            put(file, "flat_field", scan.flat_field)


def read_scan_hdf5(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Return the scan in a file with the layout of `write_scan`, whoever wrote it.

    Whole numbers become float32; float32 and float64 stay as they are.
    """
    arrays = _arrays(path, max_bytes)
    with naming(_WHERE, path):
        return arrays.scan()


def read_arrays_hdf5(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> ScanArrays:
    """Return what `read_scan_hdf5` makes a scan of, if it can be one."""
    arrays = _arrays(path, max_bytes)
    with naming(_WHERE, path):
        arrays.check()
    return arrays


def _arrays(path: AnyPath, max_bytes: int) -> ScanArrays:
    with reading(_WHERE, path, FORMAT) as file:
        values = _values(file)
        geometry = {name: _vectors(file, name) for name in _PER_VIEW}
        spacing = _vectors(file, "pixel_spacing_mm").ravel().tolist()
        projections = _numbers(file, "projections", max_bytes)
        flat = _numbers(file, "flat_field", max_bytes) if has(file, "flat_field") else None
        if projections.ndim != 3 or len(spacing) != 2:
            raise FileError(
                f"expected projections (view, v, u) and pixel_spacing_mm (v, u); got shapes "
                f"{tuple(projections.shape)} and ({len(spacing)},). Write them anew."
            )
        thickness_mm = _thickness_mm(file)
    with naming(_WHERE, path):
        _, n_v, n_u = projections.shape
        return ScanArrays(
            projections=projections,
            values=values,
            acquisition=Acquisition(
                source_mm=geometry["source_mm"],
                detector_center_mm=geometry["detector_center_mm"],
                u_axis=geometry["u_axis"],
                v_axis=geometry["v_axis"],
                pixel_spacing_mm=(spacing[0], spacing[1]),
                detector_shape=(n_v, n_u),
            ),
            flat_field=flat.reshape(()) if flat is not None and flat.size == 1 else flat,
            format="duotomo scan (HDF5)",
            thickness_mm=thickness_mm,
            warnings=() if is_sealed(Path(path)) else (UNSEALED,),
        )


def _values(file: Any) -> Values:
    words = attribute(file, "values") or ""
    if words not in [kind.value for kind in Values]:
        allowed = " or ".join(repr(kind.value) for kind in Values)
        raise FileError(
            f"expected the attribute values of / as {allowed}; got {str(words)[:80]!r}. Say which they are."
        )
    return Values(words)


def _thickness_mm(file: Any) -> float | None:
    found = attribute(file, "thickness_mm")
    if found is not None and not isinstance(found, (int, float)):
        raise FileError(
            f"expected the attribute thickness_mm as one number; got {str(found)[:80]!r}. Write it anew."
        )
    return None if found is None else float(found)


def _dataset(file: Any, name: str) -> Any:
    data = part(file, name)
    if getattr(data, "shape", None) is None:
        raise FileError(f"expected an array of numbers at /{name}; got something else. Write it anew.")
    return data


def _vectors(file: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return checked_read(_dataset(file, name), name, max_bytes=_MOST_VECTOR_BYTES).astype(np.float64)


def _number(data: Any, name: str) -> np.ndarray[Any, Any]:
    check_numbers(data.dtype, name)
    check_inside(data, name)
    return np.asarray(data[()])


def _numbers(file: Any, name: str, max_bytes: int) -> np.ndarray[Any, Any]:
    data = _dataset(file, name)
    array = checked_read(data, name, max_bytes=max_bytes) if data.shape else _number(data, name)
    precise = array.dtype == np.float64
    return array if precise else array.astype(np.float32)
