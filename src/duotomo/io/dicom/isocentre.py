"""Source and detector, placed from the isocentre as Breast Projection X-Ray images have it, and back.

DICOM's isocentre frame has our axes: X along the tube's travel, Y from the patient to the column, which is
chest wall to nipple, Z up. Its origin is the centre of the tube's rotation. The machine frame's is below it
on the detector's surface, at the image's chest-wall edge: as in the view in which the detector tilts least.
In an oblique view the isocentre frame stays upright, and the machine frame turns with the breast support.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import Acquisition
from duotomo.io.dicom.gantry import SWING_DEG, apart_deg, support_deg
from duotomo.io.dicom.header import ViewAttributes, missing, title
from duotomo.io.dicom.orientation import Turn
from duotomo.io.paths import FileError

Floats = NDArray[np.float64]

_SOURCE = ("XRaySourceIsocenterPrimaryAngle", "XRaySourceIsocenterSecondaryAngle")
_OPTION = "`geometry`, or `machine`"


def has_isocentre(views: Sequence[ViewAttributes]) -> bool:
    """Return whether the file places source and detector from the isocentre."""
    return views[0].get(_SOURCE[0]) is not None


def isocentre_geometry(
    views: Sequence[ViewAttributes], shape: tuple[int, int], spacing_mm: tuple[float, float] | None
) -> tuple[Acquisition, Turn]:
    """Return the scan that the Isocenter Reference System Sequence describes, and how to turn its image.

    The source is at distance D along (tan A1, tan A2, 1): Distance Source to Isocenter, and the source's
    primary and secondary angle. The detector's axes are (cos a, 0, -sin a) and (0, 1, 0), a its primary
    angle; its secondary angle has to be zero. In these axes the detector's first pixel and the directions of
    its rows and columns are given, and from these the image by Field of View Origin, Rotation and Flip.

    shape: (rows, columns). spacing_mm: between (rows, columns).
    """
    if spacing_mm is None:
        raise missing(("ImagerPixelSpacing", "`pixel_spacing_mm`"))
    vectors, turns, tilts = [], set(), []
    support = support_deg(views) or 0.0
    for number, view in enumerate(views):
        (tilt,) = view.need("DetectorIsocenterPrimaryAngle", 1, _OPTION)
        axes = detector_axes(math.radians(tilt))
        origin = np.array([view.need(f"Detector{a}PositionToIsocenter", 1, _OPTION)[0] for a in "XYZ"])
        middle, along_row, along_column = _image(view, number, shape, spacing_mm)
        turn = _turn(along_row, along_column)
        u, v = (along_column, along_row) if turn.transpose else (along_row, along_column)
        u, v = -u if turn.flip_u else u, -v if turn.flip_v else v
        placed = (_source(view, number, support), origin + middle @ axes, u @ axes, v @ axes)
        # Rows of the support's axes: what they multiply is seen from the support.
        vectors.append([detector_axes(math.radians(support)) @ one if support else one for one in placed])
        turns.add(turn)
        tilts.append(abs(apart_deg(tilt, support)))
    if len(turns) > 1:
        raise FileError(
            f"expected {title('DetectorActiveAreaOrientation')} alike in all views; got {len(turns)} "
            f"different ones. Give `geometry`."
        )
    if support and min(tilts) > SWING_DEG:
        raise FileError(
            f"expected a detector that lies on the breast support; got "
            f"{title('DetectorIsocenterPrimaryAngle')} {min(tilts):.4g} degrees or more from "
            f"{title('BreastSupportIsocenterPrimaryAngle')} of {support:g}. Give {_OPTION}."
        )
    turn = turns.pop()
    sources, centers, u_axes, v_axes = (np.array(column) for column in zip(*vectors, strict=True))
    (n_v, n_u), (d_v, d_u) = turn.shape(shape), turn.shape(spacing_mm)
    flattest = int(np.argmin(tilts))
    center, v_axis = centers[flattest], v_axes[flattest]
    edge = center - n_v * d_v / 2 * v_axis
    to_machine = np.array([0.0, -edge[1], -float(center @ np.cross(u_axes[flattest], v_axis))])
    acquisition = Acquisition(
        source_mm=sources + to_machine,
        detector_center_mm=centers + to_machine,
        u_axis=u_axes,
        v_axis=v_axes,
        pixel_spacing_mm=(d_v, d_u),
        detector_shape=(n_v, n_u),
    )
    return acquisition, turn


def detector_axes(tilt_rad: float) -> Floats:
    """Return the detector's axes as rows (Xd, Yd, Zd), for its primary angle."""
    sin, cos = math.sin(tilt_rad), math.cos(tilt_rad)
    return np.array([[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]])


def isocentre_of(acquisition: Acquisition) -> Floats:
    """Return the centre of the circle of the sources, at x = 0; a point of z = 0 if they lie on none.

    >>> from duotomo.geometry import victre
    >>> isocentre_of(victre()).round(6).tolist()
    [0.0, 0.0, 50.0]
    """
    x, y, z = acquisition.sources_mm.T
    if len(x) >= 3 and np.ptp(z) > 1e-6:
        # x^2 + (z - c)^2 = R^2 is linear in c and R^2 - c^2.
        system = np.stack([2 * z, np.ones_like(z)], axis=1)
        (height, _), *_ = np.linalg.lstsq(system, x**2 + z**2, rcond=None)
        radius = np.hypot(x, z - height)
        if np.ptp(radius) < 1e-6 * radius.max() and height < z.min():
            return np.array([0.0, y.mean(), height])
    return np.array([0.0, y.mean(), 0.0])


def _source(view: ViewAttributes, number: int, support: float) -> Floats:
    (primary,), (secondary,), (distance,) = (
        view.need(keyword, 1, _OPTION) for keyword in (*_SOURCE, "DistanceSourceToIsocenter")
    )
    if max(abs(apart_deg(primary, support)), abs(secondary)) >= 90 or distance <= 0:
        raise FileError(
            f"expected {title(_SOURCE[0])} and {title(_SOURCE[1])} below 90 degrees of the support, and "
            f"{title('DistanceSourceToIsocenter')} above zero; got {primary}, {secondary} and {distance} in "
            f"view {number}. Give {_OPTION}."
        )
    a, b = math.radians(primary), math.radians(secondary)
    # Along (tan a, tan b, 1), and beyond 90 degrees on the other side.
    towards = np.array([math.sin(a) * math.cos(b), math.cos(a) * math.sin(b), math.cos(a) * math.cos(b)])
    source: Floats = distance * towards / np.linalg.norm(towards)
    return source


def _image(
    view: ViewAttributes, number: int, shape: tuple[int, int], spacing_mm: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Return the image's middle, and where its rows and columns run, in the detector's axes.

    The image is a part of the detector, turned clockwise, and then flipped from left to right.
    """
    (secondary,) = view.need("DetectorIsocenterSecondaryAngle", 1, _OPTION)
    if abs(secondary) > 1e-9:
        raise FileError(
            f"expected {title('DetectorIsocenterSecondaryAngle')} zero, because the detector's axis of "
            f"rotation is parallel to Y; got {secondary} degrees in view {number}. Give {_OPTION}."
        )
    cosines = np.array(view.need("DetectorActiveAreaOrientation", 6, _OPTION)).reshape(2, 3)
    if not np.allclose(cosines @ cosines.T, np.eye(2), atol=1e-5) or np.abs(cosines[:, 2]).max() > 1e-5:
        raise FileError(
            f"expected {title('DetectorActiveAreaOrientation')} as two unit vectors at right angles in the "
            f"detector's plane; got {cosines.tolist()} in view {number}. Give {_OPTION}."
        )
    (rotation,) = view.numbers("FieldOfViewRotation", 1) or (0.0,)
    if rotation % 90:
        raise FileError(
            f"expected {title('FieldOfViewRotation')} 0, 90, 180 or 270; got {rotation:g} in view {number}. "
            f"Give {_OPTION}."
        )
    quarters = int(rotation // 90) % 4
    on_detector, between_mm = (shape, spacing_mm) if quarters % 2 == 0 else (shape[::-1], spacing_mm[::-1])
    along_row, along_column = cosines
    middle = np.array(view.need("DetectorActiveAreaTLHCPosition", 3, _OPTION))
    first = _field_of_view_mm(view, between_mm)
    middle = middle + (first[0] + (on_detector[0] - 1) / 2 * between_mm[0]) * along_column
    middle = middle + (first[1] + (on_detector[1] - 1) / 2 * between_mm[1]) * along_row
    for _ in range(quarters):
        along_row, along_column = -along_column, along_row
    if view.text("FieldOfViewHorizontalFlip") == "YES":
        along_row = -along_row
    return middle, along_row, along_column


def _field_of_view_mm(view: ViewAttributes, between_mm: tuple[float, float]) -> tuple[float, float]:
    """Return how far the first pixel of the image is from that of the active area, in (rows, columns)."""
    origin = view.numbers("FieldOfViewOrigin", 2) or (0.0, 0.0)
    active = view.numbers("DetectorActiveOrigin", 2) or (0.0, 0.0)
    binning = view.numbers("DetectorBinning", 2) or (1.0, 1.0)
    # Origins count the detector's own elements; the image's pixels are unions of them.
    rows, columns = (
        (o - a) * between / b for o, a, b, between in zip(origin, active, binning, between_mm, strict=True)
    )
    return rows, columns


def _turn(along_row: Floats, along_column: Floats) -> Turn:
    transpose = bool(abs(along_row[1]) > abs(along_row[0]))
    along_v, along_u = (along_row, along_column) if transpose else (along_column, along_row)
    return Turn(transpose=transpose, flip_v=bool(along_v[1] < 0), flip_u=bool(along_u[0] < 0))
