"""Scans, volumes, results and transforms in a few facts; nothing in them names a patient."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.io.dicom.frames import frame_count, frame_shape
from duotomo.io.dicom.header import is_dicom, reading_dicom
from duotomo.io.dicom.sop_classes import SPATIAL
from duotomo.io.file_kind import FileKind, dicom_header, recognise, sop_class
from duotomo.io.hdf5 import reading
from duotomo.io.libraries import pydicom
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.result_index import read_index
from duotomo.io.scan_arrays import ScanArrays
from duotomo.io.scan_file import read_scan_arrays
from duotomo.io.scan_geometry import geometry_text
from duotomo.io.scan_missing import missing_of, thickness_missing
from duotomo.io.scan_options import ScanOptions, Supplied
from duotomo.io.scan_rtk import read_rtk_geometry
from duotomo.io.size_check import MAX_BYTES
from duotomo.io.stacks import READERS, Request

Facts = dict[str, Any]

_WHERE = "describe"


def describe(
    path: AnyPath, options: ScanOptions | None = None, *, number: int = 1, n_visits: int = 1
) -> dict[str, Any]:
    """Return what a file or a folder of any kind holds; nothing that names a patient.

    Parameters
    ----------
    path : str or path
        A scan, volume, study, transform, geometry or result folder.
    options : ScanOptions, optional
        What a scan does not say itself.
    number, n_visits : int
        Which visit of how many a scan is: options may be given once for each.

    Returns
    -------
    dict
        The `kind`, as `FileKind` has it, and facts that JSON can hold, units in their names. A scan without
        a geometry is described as far as its file goes. Where `read_visits` would ask for more than that,
        or refuse a scan, `missing` lists why.

    Raises
    ------
    FileError
        If nothing is there, or it cannot be read.
    """
    path, options = Path(path), options or ScanOptions()
    kind = recognise(path, with_geometry=options.has_geometry)
    describers: dict[FileKind, Callable[[Path], Facts]] = {
        FileKind.SCAN: lambda scan: _scan(scan, options, number, n_visits),
        FileKind.RESULT: _result,
        FileKind.STUDY: _study,
        FileKind.CHECKPOINT: _checkpoint,
        FileKind.VOLUME: _volume,
        FileKind.TRANSFORM: _transform,
        FileKind.DISPLACEMENT: _displacement,
        FileKind.REGISTRATION: _registration,
        FileKind.GEOMETRY: _geometry,
    }
    return {"kind": kind.value, **describers[kind](path)}


def _scan(path: Path, options: ScanOptions, number: int, n_visits: int) -> Facts:
    """Return the facts of a scan, and what is missing; without a geometry, what there is."""
    supplied = options.of_visit(number, n_visits)
    try:
        scan = read_scan_arrays(path, supplied)
        missing = missing_of(scan, options, number=number, n_visits=n_visits)
        return {**_of_scan(scan), **({"missing": missing} if missing else {})}
    except FileError as error:
        try:
            found = _header(path) if path.is_dir() or is_dicom(path) else _stack(path, supplied)
        except (DuotomoError, OSError):
            found = None
        if found is None:
            raise
        missing = [str(error)]
        if not path.is_dir() and not is_dicom(path) and not options.thickness_of_visit(number, n_visits):
            # No other format says it.
            missing.append(thickness_missing(number))
        return {**found, "missing": missing}


def _of_scan(scan: ScanArrays) -> Facts:
    facts: Facts = {
        "format": scan.format,
        **_acquisition(scan.acquisition),
        "values": scan.values.value,
        "value_range": _range(scan.projections),
    }
    if scan.flat_field is not None:
        facts["flat_field"] = _range(scan.flat_field)
    if scan.thickness_mm is not None:
        facts["thickness_mm"] = round(scan.thickness_mm, 3)
    if scan.identity is not None:
        facts["side"] = scan.identity.breast.laterality or "not said"
    if scan.facts:
        facts["facts"] = dict(scan.facts)
    facts["warnings"] = list(scan.warnings)
    return facts


def _stack(path: Path, supplied: Supplied) -> Facts | None:
    read = next((read for suffix, read in READERS.items() if path.name.lower().endswith(suffix)), None)
    if read is None:
        return None
    stack = read(Request(path=path, variable=supplied.variable, max_bytes=MAX_BYTES))
    n_views, n_v, n_u = stack.array.shape
    # Damaged numbers may be NaNs that warn when they are looked at.
    with np.errstate(all="ignore"):
        numbers = stack.array.astype(np.float64)
    facts: Facts = {
        "format": stack.format,
        "n_views": n_views,
        "detector_shape": [n_v, n_u],
        "dtype": str(stack.array.dtype),
        "value_range": _range(numbers),
    }
    if stack.place is not None:
        facts["pixel_spacing_in_header_mm"] = [round(float(d), 6) for d in stack.place.spacing_mm[::-1]]
    return facts


def _header(path: Path) -> Facts | None:
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    files = [file for file in files if is_dicom(file)]
    if not files:
        return None
    header = dicom_header(_WHERE, files[0])
    # pydicom looks at a value when it is asked for, and warns or raises then.
    with reading_dicom(_WHERE, files[0], lambda error: type(error).__name__):
        kind, *_ = pydicom()._uid_dict.UID_dictionary.get(sop_class(header), ("of an unknown kind",))
        return {
            "format": f"DICOM {kind}",
            "n_views": frame_count(header) if len(files) == 1 else len(files),
            "rows_columns": list(frame_shape(header)),
        }


def _acquisition(acquisition: Acquisition) -> Facts:
    angles_deg = np.degrees(acquisition.angles_rad)
    normals = acquisition.normals
    tilt_deg = float(np.ptp(np.degrees(np.arctan2(normals[:, 0], normals[:, 2]))))
    heights_mm = acquisition.sources_mm[:, 2]
    n_v, n_u = acquisition.detector_shape
    d_v, d_u = acquisition.pixel_spacing_mm
    return {
        "n_views": acquisition.n_views,
        "angles_deg": [round(float(angle), 3) for angle in angles_deg],
        "detector_shape": [n_v, n_u],
        "pixel_spacing_mm": [d_v, d_u],
        "detector_size_mm": [round(n_v * d_v, 3), round(n_u * d_u, 3)],
        "source_height_mm": [round(float(heights_mm.min()), 3), round(float(heights_mm.max()), 3)],
        "detector_tilt_deg": round(tilt_deg, 3),
    }


def _grid(grid: VolumeGrid) -> Facts:
    return {
        "shape": list(grid.shape),
        "spacing_mm": list(grid.spacing_mm),
        "low_mm": [round(low, 6) + 0.0 for low in grid.low_mm],
        "high_mm": [round(high, 6) + 0.0 for high in grid.high_mm],
    }


def _volume(path: Path) -> Facts:
    from duotomo.io.volume_file import read_volume

    volume, grid = read_volume(path)
    return {**_grid(grid), "value_range": _range(volume.numpy()), "dtype": str(volume.dtype).split(".")[-1]}


def _study(path: Path) -> Facts:
    from duotomo.io.study_file import read_study

    study = read_study(path)
    return {
        "grid": _grid(study.grid),
        "visits": [
            {
                **_acquisition(visit.acquisition),
                "value_range": _range(visit.projections.numpy()),
                "weights": visit.weights is not None,
            }
            for visit in study.visits
        ],
    }


def _checkpoint(path: Path) -> Facts:
    from duotomo.io.checkpoint_file import FORMAT

    with reading(_WHERE, path, FORMAT):
        return {"holds": "the state of a run, which can go on from there"}


def _result(path: Path) -> Facts:
    """Return the facts of a result, from its index alone."""
    index = read_index(_WHERE, path)
    with naming(_WHERE, path):
        grid = VolumeGrid.from_json(json.dumps(index.get("grid")))
    facts: Facts = {
        name: index[name]
        for name in ("method", "status", "reason", "applications", "seconds")
        if index.get(name) is not None
    }
    told = ("visit", "model", "physical", "file")
    motions = [{name: one[name] for name in told if name in one} for one in index["motions"]]
    files = {file: entry["kind"] for file, entry in index["files"].items()}
    return {**facts, "grid": _grid(grid), "motions": motions, "files": files, "quality": index["quality"]}


def _transform(path: Path) -> Facts:
    from duotomo.io.itk_reader import read_transform
    from duotomo.io.result_folder import FEW, plain

    # The grid scales the parameters only.
    motion = read_transform(path, VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
    facts: Facts = {"model": type(motion.transform).__name__, "n_params": motion.transform.n_params}
    if motion.transform.n_params <= FEW:
        facts["physical"] = plain(motion.physical())
    return facts


def _displacement(path: Path) -> Facts:
    from duotomo.io.displacement import read_displacement

    motion = read_displacement(path)
    length_mm = motion.displacement().norm(dim=0)
    return {
        **_grid(motion.grid),
        "mean_displacement_mm": float(length_mm.mean()),
        "largest_displacement_mm": float(length_mm.max()),
    }


def _registration(path: Path) -> Facts:
    if sop_class(dicom_header(_WHERE, path)) != SPATIAL:
        return {"format": "DICOM Deformable Spatial Registration"}
    from duotomo.io.dicom.registration_reader import read_registration
    from duotomo.io.result_folder import plain

    physical = plain(read_registration(path).motion.physical())
    return {"format": "DICOM Spatial Registration", "physical": physical}


def _geometry(path: Path) -> Facts:
    """Return the facts of a geometry JSON, a grid JSON or RTK's XML."""
    with naming(_WHERE, path):
        if path.suffix.lower() == ".xml":
            return {"format": "RTK geometry", "n_views": len(read_rtk_geometry(path).source_mm)}
        text = geometry_text(path)
        try:
            return {"format": "geometry JSON", **_acquisition(Acquisition.from_json(text))}
        except GeometryError:
            if '"VolumeGrid"' not in text:
                raise
            return {"format": "grid JSON", **_grid(VolumeGrid.from_json(text))}


def _range(values: NDArray[Any]) -> list[float]:
    finite = values[np.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if finite.size else []
