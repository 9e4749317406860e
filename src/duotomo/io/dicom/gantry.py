"""The angle of the gantry, and how far a breast is therefore turned between two views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.header import ViewAttributes, title
from duotomo.io.dicom.orientation import towards_source
from duotomo.io.paths import FileError

UNLIKE_DEG = 40.0
"""A gantry is nearer than this to the angle that its view has in a textbook, such as 45 degrees for MLO."""

MOST_DEG = 90.0
"""Views farther apart than this are not led into each other."""

SWING_DEG = 10.0
"""The middle of a sweep lies over its detector by about this."""

ROUNDED_DEG = 1.0
"""By so much the angle of one breast support may differ between views: headers round it, to whole degrees."""

MOST_TURN_DEG = 180.0
"""No gantry turns farther than this from the vertical."""

_ANGLE, _DIRECTION = "PositionerPrimaryAngle", "PositionerPrimaryAngleDirection"
_SUPPORT = "BreastSupportIsocenterPrimaryAngle"


def gantry_deg(views: Sequence[ViewAttributes]) -> float | None:
    """Return the angle of the gantry, in degrees from the vertical, positive towards the patient's right.

    The middle of Positioner Primary Angle over the views, about which the tube swings, or the angle of the
    breast support, which is the same to the degree where it is near. None where a file says neither, or says
    what cannot be read.
    """
    try:
        angles = [view.numbers(_ANGLE, 1) for view in views]
        signs = [-1.0 if view.text(_DIRECTION) == "CC" else 1.0 for view in views]
        known = [sign * angle[0] for sign, angle in zip(signs, angles, strict=True) if angle is not None]
        middle = _middle_deg(known) if len(known) == len(views) else None
    except FileError:  # damaged: as if it were not there
        return None
    support = None
    with suppress(FileError):
        support = support_deg(views)
    # A support that stays upright in an isocentre frame that turns says nothing.
    near = support is not None and (middle is None or abs(apart_deg(support, middle)) <= SWING_DEG)
    found = support if near else middle
    return found if found is not None and abs(found) <= MOST_TURN_DEG else None


def apart_deg(one: float, other: float) -> float:
    """Return the angle from the other one to this one, on the shorter way round.

    >>> apart_deg(30.0, 50.0), apart_deg(-170.0, 175.0)
    (-20.0, 15.0)
    """
    return (one - other + 180.0) % 360.0 - 180.0


def _middle_deg(angles: Sequence[float]) -> float:
    """Return the middle of a sweep, which may pass the lowest point, where 180 follows on -180 degrees."""
    turned = [apart_deg(angle, angles[0]) for angle in angles]
    middle = angles[0] + (min(turned) + max(turned)) / 2
    return apart_deg(middle, 0.0) if max(map(abs, angles)) <= MOST_TURN_DEG else middle


def support_deg(views: Sequence[ViewAttributes]) -> float | None:
    """Return the angle by which the breast support is turned about Y, in degrees; None if no view has it.

    The middle of what the views say; one that says nothing counts as upright. Raise where they differ by
    more than rounding: one frame, that of the support, has to hold all views.
    """
    found = [view.numbers(_SUPPORT, 1) for view in views]
    if all(angle is None for angle in found):
        return None
    angles = [0.0 if angle is None else angle[0] for angle in found]
    turned = [apart_deg(angle, angles[0]) for angle in angles]
    if max(turned) - min(turned) > ROUNDED_DEG:
        low, high = (turned.index(end) for end in (min(turned), max(turned)))
        raise FileError(
            f"expected {title(_SUPPORT)} alike in all views, to {ROUNDED_DEG:g} degree; got {angles[low]:g} "
            f"in view {low} and {angles[high]:g} in view {high}. Choose the views of one scan, or give "
            f"`geometry`, or `machine`."
        )
    return _middle_deg(angles) if max(turned) > min(turned) else angles[0]


def roll_between_deg(
    reference: BreastView | None,
    moving: BreastView | None,
    *,
    names: tuple[str, str] = ("visit 1", "visit 2"),
) -> float:
    """Return by how far the breast is turned in the moving view, as `two_view_settings` takes it.

    The gantry turns by the difference of the angles; the breast is turned the other way as the machine sees
    it. Files differ in the sign of an oblique angle, so it is taken from view and side: the source stands
    medially in MLO.

    Parameters
    ----------
    reference, moving : BreastView or None
        As the files state them; None where a file does not state the view.
    names : tuple of str
        What they are called.

    Returns
    -------
    float
        In degrees; a positive one takes z towards x.

    Raises
    ------
    FileError
        If view, side or angle is missing, they contradict each other, or the views are too far apart.

    Examples
    --------
    >>> cc = BreastView(laterality="R", view="CC", gantry_deg=0.0)
    >>> mlo = BreastView(laterality="R", view="MLO", gantry_deg=50.0)
    >>> roll_between_deg(cc, mlo)
    50.0
    """
    from_deg, to_deg = (_signed_deg(*one) for one in zip((reference, moving), names, strict=True))
    roll_deg = apart_deg(from_deg, to_deg)
    if abs(roll_deg) > MOST_DEG:
        raise FileError(
            f"expected views at most {MOST_DEG:g} degrees apart; got {abs(roll_deg):g} from {names[0]} to "
            f"{names[1]}. Choose views nearer to each other."
        )
    return roll_deg


def _signed_deg(seen: BreastView | None, name: str) -> float:
    """Return the angle of a view's gantry with the sign that its view and side have."""
    stated = BreastView(view="CC") if seen is None else seen
    source = towards_source(stated.view, stated.laterality or "")
    lacking = {
        "ViewCodeSequence": seen is None,
        "ImageLaterality": seen is not None and source is None,
        _ANGLE: seen is not None and seen.gantry_deg is None,
    }
    lacks = [title(keyword) for keyword, lack in lacking.items() if lack]
    if source is None or stated.gantry_deg is None or lacks:
        raise FileError(
            f"expected the view, the side and the angle of the gantry, from which follows how far the breast "
            f"is turned between two views; got no {' and no '.join(lacks)} in {name}. Give `roll_deg=45` or "
            f"whatever it is."
        )
    # Left, posterior, head: right of the vertical is positive.
    usual = math.degrees(math.atan2(-source[0], source[2]))
    said = stated.gantry_deg
    # An upright gantry has no sign to follow from the side.
    angle = said if usual == 0 else min((said, -said), key=lambda one: abs(one - usual))
    if abs(angle - usual) > UNLIKE_DEG:
        raise FileError(
            f"expected {title(_ANGLE)} of the gantry within {UNLIKE_DEG:g} degrees of {abs(usual):g} in "
            f"{stated.view}; got {said:g} in {name}. Give `roll_deg=45` or whatever it is."
        )
    return angle
