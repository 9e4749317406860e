"""Which breast a page shows, and where its pictures lie in the patient, as far as the scans say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duotomo.io.dicom.breast_view import LATERALITIES, VIEWS
from duotomo.io.dicom.orientation import letters, source_letters, towards_source
from duotomo.io.dicom.projections import NO_ORIENTATION

Ends = dict[str, tuple[str, str]]
"""Axis x, y or z -> the letters at its low and at its high end."""


def breast_label(settings: Mapping[str, Any], visit: int) -> str:
    """Return the side and the view of a visit, counted from 1: "L CC", or what of it is known.

    >>> breast_label({"visits": [{"facts": {"laterality": "L", "view": "CC"}}]}, 1)
    'L CC'
    >>> breast_label({}, 1)
    ''
    """
    side, view = _stated(settings, visit)
    return " ".join(filter(None, (side, view)))


def breast_letters(settings: Mapping[str, Any], visit: int = 1) -> Ends | None:
    """Return where the machine's axes point in the patient at a visit; None where its scan does not say.

    >>> breast_letters({"visits": [{"facts": {"laterality": "L", "view": "CC"}}]})
    {'x': ('L', 'R'), 'y': ('P', 'A'), 'z': ('F', 'H')}
    """
    side, view = _stated(settings, visit)
    if towards_source(view, side) is None:
        return None
    warnings = _visit(settings, visit).get("warnings") or ()
    if any(str(one).startswith(NO_ORIENTATION) for one in warnings):
        return None
    return {
        "x": (letters(view, side, forward=False), letters(view, side, forward=True)),
        "y": ("P", "A"),
        "z": (source_letters(view, side, forward=False), source_letters(view, side, forward=True)),
    }


def is_right(settings: Mapping[str, Any]) -> bool:
    """Return whether the reference is a right breast, whose chest wall readers expect to the right."""
    return _stated(settings, 1)[0] == "R"


def _stated(settings: Mapping[str, Any], visit: int) -> tuple[str, str]:
    """Return the side and the view of a visit, "" for what is not known."""
    facts = _visit(settings, visit).get("facts") or {}
    side, view = str(facts.get("laterality", "")), str(facts.get("view", ""))
    return side if side in LATERALITIES else "", view if view in VIEWS else ""


def _visit(settings: Mapping[str, Any], visit: int) -> Mapping[str, Any]:
    visits = settings.get("visits")
    known: Sequence[Any] = visits if isinstance(visits, list) else ()
    found = known[visit - 1] if visit <= len(known) else None
    return found if isinstance(found, Mapping) else {}
