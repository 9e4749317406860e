"""Volumes from DICOM's Breast Tomosynthesis Image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.dicom.frames import check_pixels, frame_count, read_frames
from duotomo.io.dicom.header import ViewAttributes, read_dataset, reading_dicom, title
from duotomo.io.dicom.sop_classes import TOMOSYNTHESIS
from duotomo.io.paths import AnyPath, FileError, reason, source
from duotomo.io.patient_frame import Placement, lps, place
from duotomo.io.size_check import MAX_BYTES

UNIT = "/mm"
"""UCUM's code for 1/mm."""

EVEN_MM = 1e-3
"""Frames may be this far from where equal steps would have them."""

ROUNDING = 1e-6
"""Of direction cosines, which are decimal strings."""

Floats = NDArray[np.float64]


def read_tomosynthesis(
    path: AnyPath, *, voxel_mm: tuple[float, float, float] | None = None, max_bytes: int = MAX_BYTES
) -> tuple[torch.Tensor, VolumeGrid]:
    """Return the volume in a Breast Tomosynthesis Image.

    Values are in 1/mm where the Real World Value Mapping says so, and otherwise whatever the machine's
    rescaled levels mean; where it padded, they are the lowest. Frames may be in any order, but lie evenly and
    along the machine's axes. Nothing is guessed: a file without pixel spacing or positions is refused, unless
    `voxel_mm` says what it does not; without positions of their own the frames go up in the order of the
    file.

    Parameters
    ----------
    path : str or path
        Of any name.
    voxel_mm : tuple of float, optional
        From frame to frame, row to row and column to column, in mm. A file that says otherwise is refused.
    max_bytes : int
        The most memory that the file may ask for.

    Returns
    -------
    volume : torch.Tensor
        (z, y, x), float32, on the CPU.
    grid : VolumeGrid
        Where its voxels are.

    Raises
    ------
    FileError
        If the file is damaged, of another kind, oblique, or does not say where its voxels are.
    """
    where = "read_tomosynthesis"
    path = source(where, path, ("",))
    with reading_dicom(where, path, reason):
        placement = _placement(path, voxel_mm, max_bytes)
        if placement.turn is not None:
            raise FileError(
                f"expected frames along the machine's axes; got {title('ImageOrientationPatient')} with the "
                f"directions {placement.turn.round(4).tolist()}. Resample the image."
            )
    return torch.from_numpy(placement.vectors[0]), placement.grid


def _placement(path: Path, voxel_mm: tuple[float, float, float] | None, max_bytes: int) -> Placement:
    dataset = read_dataset(path, pixels=False, max_bytes=max_bytes)
    if str(dataset.get("SOPClassUID", "")) != TOMOSYNTHESIS:
        raise FileError(
            f"expected a Breast Tomosynthesis Image, {title('SOPClassUID')} = {TOMOSYNTHESIS}; got "
            f"{str(dataset.get('SOPClassUID', ''))[:64] or 'none'}. Choose a reconstructed volume."
        )
    check_pixels(dataset, path, max_bytes=max_bytes)
    n_frames = frame_count(dataset)
    direction, first_mm, spacing_mm, order = _geometry(dataset, n_frames, voxel_mm)
    frames: NDArray[Any] = read_frames(path, max_bytes=max_bytes)[order]
    for plane, i in zip(frames, order, strict=True):
        _to_real_world(plane, dataset, int(i))
    padded = np.isnan(frames)
    if padded.any():
        frames[padded] = np.nanmin(frames)
    if not np.isfinite(frames).all():
        raise FileError(
            f"expected finite values; got some that {title('RealWorldValueSlope')} or "
            f"{title('RescaleSlope')} takes beyond float32, or padding alone. Correct the file."
        )
    return place(
        vectors=frames[None],
        direction=lps(direction.T).T,
        first_mm=lps(first_mm),
        spacing_mm=spacing_mm,
        rounding=ROUNDING,
    )


def _geometry(
    dataset: Any, n_frames: int, voxel_mm: tuple[float, float, float] | None
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """Return the directions (a column for column, row and frame index), the first corner, spacings and order.

    All in LPS, as the file has them.
    """
    cosines = _shared(dataset, n_frames, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
    along_row, along_column = cosines[:3], cosines[3:]
    lengths = np.linalg.norm(along_row), np.linalg.norm(along_column)
    if abs(np.array(lengths) - 1).max() > 1e-3 or abs(along_row @ along_column) > 1e-3:
        raise FileError(
            f"expected {title('ImageOrientationPatient')} as two directions at a right angle; got "
            f"{cosines.tolist()}. Correct the file."
        )
    normal = np.cross(along_row, along_column)
    said = None if voxel_mm is None else _checked(voxel_mm)
    row_mm, column_mm = _pixel(dataset, n_frames, None if said is None else said[1:])
    corners_mm = np.array(
        [_numbers(dataset, i, "PlanePositionSequence", "ImagePositionPatient", 3) for i in range(n_frames)]
    )
    heights_mm = corners_mm @ normal
    order = np.argsort(heights_mm, kind="stable")
    first_mm = corners_mm[order[0]]
    if said is not None and np.ptp(corners_mm, axis=0).max() < EVEN_MM:
        # One place for all frames: it is that of the first.
        step_mm = said[0]
        corners_mm = corners_mm + np.arange(n_frames)[:, None] * step_mm * normal
    elif n_frames == 1:
        (step_mm,) = _shared(dataset, 1, "PixelMeasuresSequence", "SliceThickness", 1)
    else:
        step_mm = (heights_mm[order[-1]] - heights_mm[order[0]]) / (n_frames - 1)
        step_mm = _as_said(dataset, step_mm)
    even_mm = first_mm + np.arange(n_frames)[:, None] * step_mm * normal
    off_mm = float(np.abs(corners_mm[order] - even_mm).max())
    if not step_mm > EVEN_MM or off_mm > EVEN_MM:
        raise FileError(
            f"expected {title('ImagePositionPatient')} to go up by equal steps from frame to frame; got "
            f"steps of {step_mm:.4g} mm on average, and {off_mm:.4g} mm off them. "
            f"Have the machine export where each frame lies, or give `voxel_mm`, (frames, rows, columns)."
        )
    if said is not None and abs(said[0] - step_mm) > EVEN_MM:
        raise FileError(
            f"expected `voxel_mm` to agree with {title('ImagePositionPatient')}, whose frames are "
            f"{step_mm:.6g} mm apart; got {said[0]:g} mm. Leave `voxel_mm` out, or correct it."
        )
    direction = np.stack([along_row, along_column, normal], axis=1)
    return direction, first_mm, np.array([column_mm, row_mm, step_mm]), order


def _checked(voxel_mm: tuple[float, float, float]) -> Floats:
    given = np.array(voxel_mm, dtype=np.float64)
    if given.shape != (3,) or not (np.isfinite(given) & (given > 0)).all():
        raise FileError(
            f"expected three positive lengths in mm, from frame to frame, row to row and column to column; "
            f"got {voxel_mm}. Correct `voxel_mm`."
        )
    return given


def _pixel(dataset: Any, n_frames: int, said_mm: Floats | None) -> Floats:
    """Return the distances of rows and columns: the file's, or what a person says where it has none."""
    has = any(
        (group := _group(dataset, frame, "PixelMeasuresSequence")) is not None and "PixelSpacing" in group
        for frame in range(n_frames)
    )
    if said_mm is not None and not has:
        return said_mm
    found = _shared(dataset, n_frames, "PixelMeasuresSequence", "PixelSpacing", 2)
    if said_mm is not None and np.abs(said_mm - found).max() > EVEN_MM:
        raise FileError(
            f"expected `voxel_mm` to agree with {title('PixelSpacing')} = {found.tolist()} mm; got "
            f"{said_mm.tolist()}. Leave `voxel_mm` out, or correct it."
        )
    return found


def _as_said(dataset: Any, step_mm: float) -> float:
    """Return Spacing Between Slices if positions agree with it: it has not lost digits in a difference."""
    said = _group(dataset, 0, "PixelMeasuresSequence")
    (said_mm,) = (None if said is None else ViewAttributes(said, 0).numbers("SpacingBetweenSlices", 1)) or (
        step_mm,
    )
    return said_mm if abs(said_mm - step_mm) < ROUNDING * step_mm else step_mm


def _to_real_world(plane: NDArray[np.float32], dataset: Any, frame: int) -> None:
    """Turn the rescaled levels of a frame into 1/mm, if it has a mapping for that."""
    for mapping in _groups(dataset, frame, "RealWorldValueMappingSequence"):
        units = mapping.get("MeasurementUnitsCodeSequence") or ()
        if not any(unit.get("CodeValue") == UNIT for unit in units):
            continue
        slope = ViewAttributes(mapping, 0).numbers("RealWorldValueSlope", 1)
        intercept = ViewAttributes(mapping, 0).numbers("RealWorldValueIntercept", 1)
        if slope is None or intercept is None:
            continue
        view = ViewAttributes(dataset, frame)
        (rescale_slope,) = view.numbers("RescaleSlope", 1) or (1.0,)
        (rescale_intercept,) = view.numbers("RescaleIntercept", 1) or (0.0,)
        stored = (plane.astype(np.float64) - rescale_intercept) / rescale_slope
        plane[...] = slope[0] * stored + intercept[0]
        return


def _groups(dataset: Any, frame: int, group: str) -> list[Any]:
    """Return the items of a functional group: the frame's own, or those of all frames."""
    for sequence, index in (
        ("PerFrameFunctionalGroupsSequence", frame),
        ("SharedFunctionalGroupsSequence", 0),
    ):
        groups = dataset.get(sequence) or ()
        items = (groups[index].get(group) or ()) if index < len(groups) else ()
        if len(items):
            return list(items)
    return []


def _group(dataset: Any, frame: int, group: str) -> Any | None:
    return next(iter(_groups(dataset, frame, group)), None)


def _numbers(dataset: Any, frame: int, group: str, keyword: str, n: int) -> Floats:
    found = _group(dataset, frame, group)
    numbers = None if found is None else ViewAttributes(found, 0).numbers(keyword, n)
    if numbers is None:
        raise FileError(
            f"expected {title(keyword)} in {title(group)}; got none for frame {frame + 1}. "
            f"Have the machine export it, or give `voxel_mm`, (frames, rows, columns): where voxels "
            f"lie is not guessed."
        )
    return np.array(numbers)


def _shared(dataset: Any, n_frames: int, group: str, keyword: str, n: int) -> Floats:
    """Return numbers that all frames have alike."""
    first = _numbers(dataset, 0, group, keyword, n)
    for frame in range(1, n_frames):
        other = _numbers(dataset, frame, group, keyword, n)
        if np.abs(other - first).max() > ROUNDING:
            raise FileError(
                f"expected the same {title(keyword)} for all frames; got {first.tolist()} for the first and "
                f"{other.tolist()} for frame {frame + 1}. Split the file."
            )
    return first
