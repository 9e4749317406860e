"""The geometry of a scan from single DICOM attributes: spacing, distances and angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from duotomo.errors import GeometryError
from duotomo.geometry import MACHINES, Acquisition
from duotomo.io.dicom.gantry import SWING_DEG
from duotomo.io.dicom.header import ViewAttributes, common, missing, title
from duotomo.io.dicom.orientation import VERTICAL, view_position
from duotomo.io.paths import FileError
from duotomo.io.scan_geometry import sweep
from duotomo.io.scan_options import Supplied

SAME = 1e-3
"""Spacings that differ by less than this part are the same."""

STEEPEST_DEG = 45.0
"""Tubes of tomosynthesis lean less over their detectors; larger angles are those of the whole gantry."""

_ANGLE = ("PositionerPrimaryAngle", "PositionerPrimaryAngleDirection")
_ANGLES = "`angles_deg`"


def file_spacing(views: Sequence[ViewAttributes]) -> tuple[float, float] | None:
    """Return the pixel spacing at the detector (row, column) in mm, or None; raise where attributes disagree.

    Imager Pixel Spacing; Pixel Spacing; Detector Element Spacing times Detector Binning.
    """
    found = {keyword: common(views, keyword, 2) for keyword in ("ImagerPixelSpacing", "PixelSpacing")}
    elements, binning = (
        common(views, keyword, 2) for keyword in ("DetectorElementSpacing", "DetectorBinning")
    )
    if elements is not None:
        by_row, by_column = binning or (1.0, 1.0)
        found["DetectorElementSpacing"] = (elements[0] * by_row, elements[1] * by_column)
    known = {keyword: spacing for keyword, spacing in found.items() if spacing is not None}
    if not known:
        return None
    (first, chosen), *others = known.items()
    for keyword, spacing in others:
        if not np.allclose(chosen, spacing, rtol=SAME, atol=0):
            raise FileError(
                f"expected one pixel spacing; got {chosen} mm in {title(first)} and {spacing} mm in "
                f"{title(keyword)}{', with binning' if keyword == 'DetectorElementSpacing' else ''}. "
                f"Give `pixel_spacing_mm`."
            )
    if min(chosen) <= 0:
        raise FileError(f"expected {title(first)} above zero; got {chosen} mm. Give `pixel_spacing_mm`.")
    return chosen[0], chosen[1]


def check_distances(views: Sequence[ViewAttributes]) -> None:
    """Raise where an object would be farther from the source than the detector is."""
    for number, view in enumerate(views):
        detector = view.numbers("DistanceSourceToDetector", 1)
        if detector is not None and detector[0] <= 0:
            raise FileError(
                f"expected {title('DistanceSourceToDetector')} above zero; got {detector[0]} mm in view "
                f"{number}. Give `source_to_detector_mm`."
            )
        for keyword in ("DistanceSourceToPatient", "DistanceSourceToIsocenter"):
            nearer = view.numbers(keyword, 1)
            if detector is not None and nearer is not None and nearer[0] > detector[0] * (1 + SAME):
                raise FileError(
                    f"expected {title(keyword)} below {title('DistanceSourceToDetector')}; got {nearer[0]} "
                    f"and {detector[0]} mm in view {number}. Correct the file, or give `geometry`."
                )


def arc_geometry(
    views: Sequence[ViewAttributes],
    supplied: Supplied,
    shape_vu: tuple[int, int],
    spacing_vu_mm: tuple[float, float] | None,
) -> Acquisition:
    """Return the scan of a tube that turns over a detector that stays, as `sweep` does.

    One angle per view: Positioner Primary Angle, positive towards the patient's right in a cranio-caudal
    view. Distance Source to Detector, and Distance Source to Isocenter as that to the pivot.
    """
    distance_mm = _number(supplied.source_to_detector_mm, views, "DistanceSourceToDetector")
    radius_mm = _number(supplied.source_to_pivot_mm, views, "DistanceSourceToIsocenter")
    angles = supplied.angles_deg
    lacking = []
    if spacing_vu_mm is None:
        lacking.append(("ImagerPixelSpacing", "`pixel_spacing_mm`"))
    if distance_mm is None:
        lacking.append(("DistanceSourceToDetector", "`source_to_detector_mm`"))
    if radius_mm is None:
        lacking.append(("DistanceSourceToIsocenter", "`source_to_pivot_mm`"))
    if angles is None:
        lacks = [name for name in _ANGLE if any(view.get(name) is None for view in views)]
        lacking += [(name, _ANGLES) for name in lacks[:1]]
        angles = () if lacks else _angles_deg(views)
    if spacing_vu_mm is None or distance_mm is None or radius_mm is None or lacking:
        raise missing(*lacking, instead="; or `machine` or `geometry` alone")
    if len(angles) != len(views):
        raise FileError(
            f"expected {len(views)} angles, one for each view, as {title('NumberOfFrames')} or the number of "
            f"files says; got {len(angles)} from `angles_deg`. Give as many."
        )
    if not 0 < radius_mm <= distance_mm:
        raise FileError(
            f"expected a distance from source to pivot (`source_to_pivot_mm`, "
            f"{title('DistanceSourceToIsocenter')}) above zero and up to that from source to detector "
            f"(`source_to_detector_mm`, {title('DistanceSourceToDetector')}); got {radius_mm} and "
            f"{distance_mm} mm. Give both."
        )
    return sweep(
        angles_deg=angles,
        source_to_detector_mm=distance_mm,
        source_to_pivot_mm=radius_mm,
        pixel_spacing_mm=spacing_vu_mm,
        detector_shape=shape_vu,
    )


def machine_geometry(
    name: str, n_views: int, shape_vu: tuple[int, int], spacing_vu_mm: tuple[float, float] | None
) -> Acquisition:
    """Return a published machine's scan with the pixels of the file, which lie at the chest-wall edge.

    spacing_vu_mm: of the file; None takes the machine's.
    """
    if name not in MACHINES:
        raise GeometryError(
            f"expected a machine of {', '.join(MACHINES)}; got {name!r}. Choose one, or give `geometry`."
        )
    machine = MACHINES[name]()
    if machine.n_views != n_views:
        raise FileError(
            f"expected the {machine.n_views} views of {name}; got {n_views}, as {title('NumberOfFrames')} or "
            f"the number of files says. Give another `machine`, or `geometry`."
        )
    d_v, d_u = spacing_vu_mm or machine.pixel_spacing_mm
    grown_mm = shape_vu[0] * d_v - machine.detector_shape[0] * machine.pixel_spacing_mm[0]
    return replace(
        machine,
        detector_center_mm=(machine.detector_centers_mm + grown_mm / 2 * machine.v_axes).tolist(),
        pixel_spacing_mm=(d_v, d_u),
        detector_shape=shape_vu,
    )


def _number(given: float | None, views: Sequence[ViewAttributes], keyword: str) -> float | None:
    if given is not None:
        return given
    found = common(views, keyword, 1)
    return None if found is None else found[0]


def _angles_deg(views: Sequence[ViewAttributes]) -> tuple[float, ...]:
    """Return the tube's angles from Positioner Primary Angle, and the direction in which it is positive.

    Angles of the gantry, as in oblique views, do not say where the tube stands over its detector.
    """
    angles = []
    for number, view in enumerate(views):
        (angle,) = view.need("PositionerPrimaryAngle", 1, _ANGLES)
        direction = view.text("PositionerPrimaryAngleDirection")
        if direction not in ("CW", "CC"):
            raise FileError(
                f"expected {title('PositionerPrimaryAngleDirection')} CW or CC; got {direction!r} in view "
                f"{number}. Give {_ANGLES}."
            )
        if abs(angle) > STEEPEST_DEG:
            raise FileError(
                f"expected {title('PositionerPrimaryAngle')} of the tube over its detector, within "
                f"{STEEPEST_DEG:g} degrees; got {angle} in view {number}: of the whole gantry? "
                f"Give {_ANGLES}."
            )
        angles.append(angle if direction == "CW" else -angle)
    middle = (min(angles) + max(angles)) / 2
    if abs(middle) > SWING_DEG and view_position(views[0]) not in ("", *VERTICAL):
        raise FileError(
            f"expected {title('PositionerPrimaryAngle')} of the tube over its detector; got {middle:g} "
            f"degrees in the middle of an oblique view: with the gantry's own? Give {_ANGLES}."
        )
    if len(angles) > 1 and len(set(angles)) == 1:
        raise FileError(
            f"expected {title('PositionerPrimaryAngle')} to differ between views; got {angles[0]} in all. "
            f"Give {_ANGLES}."
        )
    return tuple(angles)
