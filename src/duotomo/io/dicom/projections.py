"""Scans from DICOM: Breast Projection X-Ray images, and folders with one file for each view."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition
from duotomo.io.dicom.comparable import COMPARED
from duotomo.io.dicom.frames import check_pixels, frame_count, frame_shape, read_frames
from duotomo.io.dicom.gantry import gantry_deg
from duotomo.io.dicom.header import (
    ViewAttributes,
    common,
    common_text,
    is_dicom,
    missing,
    read_dataset,
    reading_dicom,
    title,
)
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.isocentre import has_isocentre, isocentre_geometry
from duotomo.io.dicom.orientation import Turn, laterality, patient_turn, view_position
from duotomo.io.dicom.private_block import Scale, block_flat_field, block_geometry, block_scale, has_block
from duotomo.io.dicom.projections_geometry import (
    arc_geometry,
    check_distances,
    file_spacing,
    machine_geometry,
)
from duotomo.io.dicom.sop_classes import PRESENTATION, TOMOSYNTHESIS
from duotomo.io.file_set import check_whole
from duotomo.io.paths import AnyPath, FileError, reason
from duotomo.io.scan_arrays import ScanArrays
from duotomo.io.scan_geometry import read_geometry
from duotomo.io.scan_options import Supplied, Values
from duotomo.io.size_check import MAX_BYTES
from duotomo.io.stacks import Stack

if TYPE_CHECKING:
    from duotomo.io.scan import Scan

MOST_VIEWS = 4096
"""A file or folder with more is not one scan."""

NO_ORIENTATION = "No Patient Orientation (0020,0020)"
"""How the warning begins that the file does not say how the breast lies."""

_FACTS = {
    "kVp": "KVP",
    "anode": "AnodeTargetMaterial",
    "filter": "FilterMaterial",
    "exposure (mAs)": "ExposureInmAs",
    "compressed thickness (mm)": "BodyPartThickness",
    "compression force (N)": "CompressionForce",
    "manufacturer": "Manufacturer",
    "model": "ManufacturerModelName",
}


def read_dicom_scan(path: AnyPath, supplied: Supplied | None = None, *, max_bytes: int = MAX_BYTES) -> Scan:
    """Return the scan in a DICOM file with a frame for each view, or in a folder with a file for each.

    What the file does not say, and `supplied` neither, is an error that names the attribute and the
    parameter: nothing is guessed. `docs/dicom_projections.md` says which attributes are read, and how.

    Parameters
    ----------
    path, supplied, max_bytes
        As for `duotomo.io.read_scan`.

    Returns
    -------
    Scan
        With the identity of the patient.

    Raises
    ------
    FileError
        If the file is damaged, of another kind, or does not say enough.
    """
    path = Path(path)
    with _reading(path):
        return _arrays(path, supplied, max_bytes).scan()


def read_dicom_arrays(
    path: AnyPath, supplied: Supplied | None = None, *, max_bytes: int = MAX_BYTES
) -> ScanArrays:
    """Return what `read_dicom_scan` makes a scan of, if it can be one."""
    path = Path(path)
    with _reading(path):
        arrays = _arrays(path, supplied, max_bytes)
        arrays.check()
        return arrays


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading_dicom(
        "read_dicom_scan", path, lambda error: f"{type(error).__name__}, {reason(error)[:120]}"
    )


def _arrays(path: Path, supplied: Supplied | None, max_bytes: int) -> ScanArrays:
    files = _files(path)
    headers = [_header(file, max_bytes) for file in files]
    return _scan(files, headers, supplied or Supplied(), max_bytes)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileError("expected a file or a folder; got nothing there. Check the path.")
    check_whole(path)
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if len(files) > MOST_VIEWS:
        raise FileError(
            f"expected at most {MOST_VIEWS} files; got {len(files)}. Choose the folder of one scan."
        )
    found = [file for file in files if file.name != "DICOMDIR" and is_dicom(file)]
    if not found:
        raise FileError("expected DICOM files in the folder; got none. Check the path.")
    return found


def _header(path: Path, max_bytes: int) -> Any:
    header = read_dataset(path, pixels=False, max_bytes=max_bytes)
    kind = str(header.get("SOPClassUID", ""))
    if kind == TOMOSYNTHESIS:
        raise FileError(
            f"expected projections; got {path.name}, a reconstructed volume: {title('SOPClassUID')} is "
            f"Breast Tomosynthesis Image. Choose the file of Breast Projection X-Ray images."
        )
    check_pixels(header, path, max_bytes=max_bytes)
    if frame_count(header) > MOST_VIEWS:
        raise FileError(
            f"expected {title('NumberOfFrames')} of at most {MOST_VIEWS}; got {frame_count(header)}. "
            f"Choose another file."
        )
    return header


def _scan(files: list[Path], headers: list[Any], supplied: Supplied, max_bytes: int) -> ScanArrays:
    files, views = _ordered(files, headers)
    shapes = {frame_shape(header) for header in headers}
    if len(shapes) > 1:
        raise FileError(
            f"expected the same {title('Rows')} and {title('Columns')} in all views; got {sorted(shapes)}. "
            f"Choose the files of one scan."
        )
    shape, first = shapes.pop(), views[0]
    warnings: list[str] = []
    acquisition, turn = _geometry(views, shape, supplied, warnings)
    scale = _scale(views, supplied.values)
    frames = np.concatenate([read_frames(file, max_bytes=max_bytes) for file in files])
    turned = np.ascontiguousarray(turn.apply(frames))
    if (scale.step, scale.offset) != (1.0, 0.0):
        turned = (turned * np.float64(scale.step) + scale.offset).astype(np.float32)
    if scale.values is Values.LINE_INTEGRALS and np.isnan(turned).any():
        n_padded = int(np.isnan(turned).sum())
        warnings.append(f"{n_padded} padded pixels have no line integral; they are taken as air, 0.")
        turned = np.nan_to_num(turned, nan=0.0)
    kind = str(first.dataset.get("SOPClassUID", ""))
    if kind == PRESENTATION or first.text("PresentationIntentType") == "FOR PRESENTATION":
        warnings.append("For Presentation: the machine processed these values for viewing.")
    if first.text("LossyImageCompression") == "01":
        warnings.append("The pixels were compressed with loss.")
    thickness = first.numbers("BodyPartThickness", 1)
    return ScanArrays(
        projections=turned,
        values=scale.values,
        acquisition=acquisition,
        flat_field=block_flat_field(views) if has_block(first) else None,
        format=_format(first, len(files)),
        facts=_facts(first),
        thickness_mm=thickness[0] if thickness is not None and thickness[0] > 0 else None,
        gantry_deg=gantry_deg(views),
        warnings=tuple(warnings),
        identity=Identity.of(first.dataset),
    )


def _ordered(files: list[Path], headers: list[Any]) -> tuple[list[Path], list[ViewAttributes]]:
    """Return files and views in the order of the scan."""
    counts = [frame_count(header) for header in headers]
    if len(files) == 1:
        return files, [ViewAttributes(headers[0], frame) for frame in range(counts[0])]
    if max(counts) > 1:
        raise FileError(
            f"expected one file with all views, or files of one view each; got {len(files)} files with up to "
            f"{max(counts)} frames. Choose one file."
        )
    views = [ViewAttributes(header, 0) for header in headers]
    first = Identity.of(headers[0])
    for agreement in (first.agreement(Identity.of(header)) for header in headers[1:]):
        other = next((name for name in COMPARED if agreement[name] is False), None)
        if other is not None:
            raise FileError(
                f"expected the views of one scan; got files with another {title(other)}. "
                f"Put each scan into a folder of its own."
            )
    if len({(laterality(view), view_position(view)) for view in views}) > 1:
        raise FileError(
            "expected the views of one breast; got files of several sides or positions. "
            "Put each scan into a folder of its own."
        )
    numbers = [view.numbers("InstanceNumber", 1) for view in views]
    if None not in numbers and len(set(numbers)) == len(numbers):
        order = sorted(range(len(views)), key=lambda index: numbers[index] or (0.0,))
        return [files[index] for index in order], [views[index] for index in order]
    return files, views


def _geometry(
    views: Sequence[ViewAttributes], shape: tuple[int, int], supplied: Supplied, warnings: list[str]
) -> tuple[Acquisition, Turn]:
    """Return the first geometry that there is: supplied, private block, isocentre, or an arc's numbers."""
    told, by_isocentre = _told(supplied), has_isocentre(views)
    spacing_vu = supplied.pixel_spacing_mm
    turn = patient_turn(views, needed=told or not by_isocentre)
    if has_block(views[0]) and not told and spacing_vu is None:
        turn = turn or Turn()
        return block_geometry(views, turn.shape(shape)), turn
    in_file = None
    if supplied.geometry is None:
        check_distances(views)
        in_file = None if spacing_vu else file_spacing(views)
    if by_isocentre and not told:
        spacing = (turn or Turn()).shape(spacing_vu) if spacing_vu else in_file
        placed = isocentre_geometry(views, shape, spacing)
        _check_turns(turn, placed[1])
        return placed
    if turn is None:
        if not (supplied.geometry or supplied.machine):
            raise missing(("PatientOrientation", "`geometry`; rows are then taken as v, columns as u"))
        warnings.append(f"{NO_ORIENTATION}: rows are taken as v, chest wall to nipple, and columns as u.")
        turn = Turn()
    spacing_vu = turn.shape(in_file) if in_file is not None else spacing_vu
    shape_vu = turn.shape(shape)
    if supplied.geometry is not None:
        acquisition = _from_file(supplied.geometry, (len(views), *shape_vu))
    elif supplied.machine is not None:
        acquisition = machine_geometry(supplied.machine, len(views), shape_vu, spacing_vu)
    else:
        acquisition = arc_geometry(views, supplied, shape_vu, spacing_vu)
    return acquisition, turn


def _told(supplied: Supplied) -> bool:
    """Return whether a person says where source and detector were; raise if in more than one way."""
    numbers = (supplied.angles_deg, supplied.source_to_detector_mm, supplied.source_to_pivot_mm)
    ways = {
        "`geometry`": supplied.geometry is not None,
        "`machine`": supplied.machine is not None,
        "`angles_deg`, `source_to_detector_mm` or `source_to_pivot_mm`": any(n is not None for n in numbers),
    }
    given = [way for way, said in ways.items() if said]
    if supplied.geometry is not None and supplied.pixel_spacing_mm is not None:
        given.append("`pixel_spacing_mm`")
    if len(given) > 1:
        raise GeometryError(
            f"expected the geometry in one way; got {' and '.join(given)}. Leave out all but one."
        )
    return bool(given)


def _from_file(path: Path, shape: tuple[int, int, int]) -> Acquisition:
    pixels = Stack(array=np.broadcast_to(np.uint8(0), shape), format="DICOM scan")
    acquisition = read_geometry(Path(path), pixels).acquisition
    if acquisition.shape != shape:
        raise FileError(
            f"expected a geometry of (view, v, u) = {shape}, as {title('NumberOfFrames')} or the number of "
            f"files, {title('Rows')} and {title('Columns')} say; got {acquisition.shape} from `geometry`. "
            f"Choose the geometry of this scan."
        )
    return acquisition


def _check_turns(patient: Turn | None, detector: Turn) -> None:
    if patient is not None and patient != detector:
        raise FileError(
            f"expected {title('PatientOrientation')} and {title('DetectorActiveAreaOrientation')} to agree; "
            f"got {patient} and {detector}. Correct the file, or give `geometry`."
        )


def _scale(views: Sequence[ViewAttributes], told: Values | None) -> Scale:
    """Return what stored values stand for; only what is proportional to the X-rays are counts."""
    if has_block(views[0]):
        scale = block_scale(views[0])
        if told not in (None, scale.values):
            raise FileError(
                f"expected {scale.values.value}, as the private block of the file says; got "
                f"`values={told}`. Leave that out."
            )
        return scale
    if told is not None:
        return Scale(values=told)
    option = (
        "`values=Values.COUNTS`, if values grow in proportion to the X-rays, or "
        "`values=Values.LINE_INTEGRALS`"
    )
    kind, sign = "PixelIntensityRelationship", "PixelIntensityRelationshipSign"
    relationship, growing = common_text(views, kind), common(views, sign, 1)
    if not relationship or growing is None:
        raise missing((kind if not relationship else sign, option))
    if relationship != "LIN" or growing != (1.0,):
        raise FileError(
            f"expected {title(kind)} LIN and {title(sign)} 1, which are counts; got {relationship} and "
            f"{growing[0]:g}. Give {option}."
        )
    return Scale(values=Values.COUNTS)


def _format(view: ViewAttributes, n_files: int) -> str:
    kind = view.dataset.get("SOPClassUID")
    name = getattr(kind, "name", "unknown").replace(" Image Storage -", ",").replace(" Image Storage", "")
    return f"DICOM {name}{f', {n_files} files' if n_files > 1 else ''}"


def _facts(view: ViewAttributes) -> dict[str, str]:
    facts = {"laterality": laterality(view), "view": view_position(view)}
    facts |= {name: view.text(keyword) for name, keyword in _FACTS.items()}
    # Zero stands for a number that nobody measured.
    return {name: value for name, value in facts.items() if value and value.strip("0.")}
