"""Scans, volumes, results and transforms in a few facts; nothing in them names a patient."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duotomo.cli._recognise import Kind, dicom_header, sop_class

if TYPE_CHECKING:
    import torch

    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.io.scan import Scan, Supplied

Facts = dict[str, Any]

WHERE = "duotomo info"


def describe(path: Path, kind: Kind, supplied: Supplied) -> Facts:
    """Return what a path holds."""
    if kind is Kind.SCAN:
        return scan_facts(path, supplied)
    describers: dict[Kind, Callable[[Path], Facts]] = {
        Kind.RESULT: result_facts,
        Kind.STUDY: study_facts,
        Kind.CHECKPOINT: lambda _: {"holds": "the state of a run that can go on with --resume"},
        Kind.VOLUME: volume_facts,
        Kind.TRANSFORM: transform_facts,
        Kind.DISPLACEMENT: displacement_facts,
        Kind.REGISTRATION: registration_facts,
        Kind.GEOMETRY: geometry_facts,
    }
    return describers[kind](path)


def scan_facts(path: Path, supplied: Supplied) -> Facts:
    """Return the facts of a scan; where the geometry is missing, what there is, and what is missing."""
    from duotomo.io.file_error import FileError
    from duotomo.io.scan_file import read_scan

    try:
        scan = read_scan(path, supplied)
    except FileError as error:
        found = _without_geometry(path, supplied)
        if found is None:
            raise
        return {**found, "missing": str(error)}
    return _of_scan(scan)


def _of_scan(scan: Scan) -> Facts:
    facts: Facts = {
        "format": scan.format,
        **acquisition_facts(scan.acquisition),
        "values": scan.values.value,
        "value_range": _range(scan.projections),
    }
    if scan.flat_field is not None:
        facts["flat_field"] = _range(scan.flat_field)
    if scan.thickness_mm is not None:
        facts["thickness_mm"] = round(scan.thickness_mm, 3)
    if scan.facts:
        facts["facts"] = dict(scan.facts)
    facts["warnings"] = list(scan.warnings)
    return facts


def _without_geometry(path: Path, supplied: Supplied) -> Facts | None:
    """Return what a scan says without its geometry; None if it cannot even be read."""
    from duotomo.errors import DuotomoError

    try:
        return _header_facts(path) if path.is_dir() or _is_dicom(path) else _stack_facts(path, supplied)
    except (DuotomoError, OSError):
        return None


def _stack_facts(path: Path, supplied: Supplied) -> Facts | None:
    import numpy as np
    import torch

    from duotomo.io.size_check import MAX_BYTES
    from duotomo.io.stacks import READERS, Request

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
        "value_range": _range(torch.from_numpy(numbers)),
    }
    if stack.place is not None:
        facts["pixel_spacing_in_header_mm"] = [round(float(d), 6) for d in stack.place.spacing_mm[::-1]]
    return facts


def _header_facts(path: Path) -> Facts | None:
    from duotomo.io.dicom.frames import frame_count, frame_shape
    from duotomo.io.dicom.header import is_dicom
    from duotomo.io.libraries import pydicom

    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    files = [file for file in files if is_dicom(file)]
    if not files:
        return None
    header = dicom_header(WHERE, files[0])
    n_rows, n_columns = frame_shape(header)
    uid = pydicom().uid.UID(sop_class(header))
    return {
        "format": f"DICOM {uid.name if uid in pydicom()._uid_dict.UID_dictionary else 'of an unknown kind'}",
        "n_views": frame_count(header) if len(files) == 1 else len(files),
        "rows_columns": [n_rows, n_columns],
    }


def acquisition_facts(acquisition: Acquisition) -> Facts:
    """Return the geometry of a scan."""
    import numpy as np

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


def grid_facts(grid: VolumeGrid) -> Facts:
    """Return where a grid is."""
    return {
        "shape": list(grid.shape),
        "spacing_mm": list(grid.spacing_mm),
        "low_mm": [round(low, 6) + 0.0 for low in grid.low_mm],
        "high_mm": [round(high, 6) + 0.0 for high in grid.high_mm],
    }


def volume_facts(path: Path) -> Facts:
    """Return the facts of a volume."""
    from duotomo.cli._volumes import read_any_volume

    volume, grid = read_any_volume(path)
    return {**grid_facts(grid), "value_range": _range(volume), "dtype": str(volume.dtype).split(".")[-1]}


def study_facts(path: Path) -> Facts:
    """Return the facts of a study."""
    from duotomo.io import read_study

    study = read_study(path)
    return {
        "grid": grid_facts(study.grid),
        "visits": [
            {
                **acquisition_facts(visit.acquisition),
                "value_range": _range(visit.projections),
                "weights": visit.weights is not None,
            }
            for visit in study.visits
        ],
    }


def result_facts(path: Path) -> Facts:
    """Return the facts of a result, from its index alone."""
    from duotomo.errors import DuotomoError
    from duotomo.geometry import VolumeGrid
    from duotomo.io.file_error import FileError
    from duotomo.io.result_index import read_index

    index = read_index(WHERE, path)
    try:
        grid = VolumeGrid.from_json(json.dumps(index.get("grid")))
    except DuotomoError as error:
        raise FileError(f"{WHERE}: {path}: {error}") from error
    facts: Facts = {
        name: index[name]
        for name in ("method", "status", "reason", "applications", "seconds")
        if index.get(name) is not None
    }
    facts["grid"] = grid_facts(grid)
    told = ("model", "physical")
    facts["transforms"] = [
        {name: one[name] for name in told if name in one} for one in index.get("transforms", [])
    ]
    facts["files"] = {name: entry["file"] for name, entry in index["files"].items()}
    if "quality" in index:
        facts["quality"] = index["quality"]
    return facts


def transform_facts(path: Path) -> Facts:
    """Return the facts of a transform, whose parameters are told in mm."""
    from duotomo.geometry import VolumeGrid
    from duotomo.io import read_transform

    # The grid scales the parameters only.
    transform, params = read_transform(path, VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
    facts: Facts = {"model": type(transform).__name__, "n_params": transform.n_params}
    if transform.n_params <= 12:
        facts["physical"] = _plain(transform.physical(params))
    return facts


def displacement_facts(path: Path) -> Facts:
    """Return the facts of an image of displacements."""
    from duotomo.io import read_displacement

    field, params = read_displacement(path)
    length_mm = field.displacement(params).norm(dim=0)
    return {
        **grid_facts(field.grid),
        "mean_displacement_mm": float(length_mm.mean()),
        "largest_displacement_mm": float(length_mm.max()),
    }


def registration_facts(path: Path) -> Facts:
    """Return which kind of registration a DICOM file has."""
    from duotomo.io.dicom.registration import SPATIAL

    spatial = sop_class(dicom_header(WHERE, path)) == SPATIAL
    return {"format": "DICOM Spatial Registration" if spatial else "DICOM Deformable Spatial Registration"}


def geometry_facts(path: Path) -> Facts:
    """Return the facts of a geometry JSON, a grid JSON or RTK's XML."""
    from duotomo.errors import DuotomoError, GeometryError
    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.io.file_error import FileError
    from duotomo.io.scan_geometry import geometry_text
    from duotomo.io.scan_rtk import read_rtk_geometry

    try:
        if path.suffix.lower() == ".xml":
            return {"format": "RTK geometry", "n_views": len(read_rtk_geometry(path).source_mm)}
        text = geometry_text(path)
        try:
            return {"format": "geometry JSON", **acquisition_facts(Acquisition.from_json(text))}
        except GeometryError:
            if '"VolumeGrid"' not in text:
                raise
            return {"format": "grid JSON", **grid_facts(VolumeGrid.from_json(text))}
    except DuotomoError as error:
        raise FileError(f"{WHERE}: {path}: {error}") from error


def _range(values: torch.Tensor) -> list[float]:
    import torch

    finite = values[torch.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if finite.numel() else []


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def _is_dicom(path: Path) -> bool:
    from duotomo.io.dicom.header import is_dicom

    return is_dicom(path)


def lines(facts: Mapping[str, Any], *, indent: str = "") -> list[str]:
    """Return facts as lines of text.

    >>> lines({"n_views": 3, "pixel_spacing_mm": [0.5, 0.5], "grid": {"shape": [1, 2, 3]}})
    ['n views: 3', 'pixel spacing (mm): 0.5, 0.5', 'grid:', '  shape: 1, 2, 3']
    """
    said = []
    for name, value in facts.items():
        label = _label(name)
        if isinstance(value, Mapping):
            said += [f"{indent}{label}:", *lines(value, indent=indent + "  ")] if value else []
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for number, one in enumerate(value, start=1):
                said += [f"{indent}{label} {number}:", *lines(one, indent=indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], str):
            said += [f"{indent}{label}:", *(f"{indent}  {one}" for one in value)]
        elif value != [] and value is not None:
            said.append(f"{indent}{label}: {_text(value)}")
    return said


def _label(name: str) -> str:
    for unit in ("mm", "deg"):
        if name.endswith(f"_{unit}"):
            return f"{name[: -len(unit) - 1].replace('_', ' ')} ({unit})"
    return name.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return str(value)
