"""How the rows and columns of a breast image lie in the machine frame.

DICOM says where rows and columns run in the patient, and from which side the breast was seen. The machine's y
is the patient's anterior, z points to the source, and x = y x z. In a cranio-caudal view x is therefore the
patient's right, in a left medio-lateral oblique view right and feet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from duotomo.io.dicom.breast_view import VIEWS, view_of_code
from duotomo.io.dicom.header import ViewAttributes, common_text, title
from duotomo.io.paths import FileError

Floats = NDArray[np.float64]
T = TypeVar("T", int, float)

_LETTERS = {"L": (1, 0, 0), "R": (-1, 0, 0), "P": (0, 1, 0), "A": (0, -1, 0), "H": (0, 0, 1), "F": (0, 0, -1)}
_ANTERIOR = np.array(_LETTERS["A"], dtype=np.float64)
_UNSURE = 0.2

VERTICAL = ("CC", "XCC", "XCCL", "XCCM")
"""Views that the gantry takes upright."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What turns an image (row, column) so that v runs from the chest wall to the nipple, and u along x.

    transpose: rows run along x. flip_v, flip_u: stored against v and u. Applied in this order.

    >>> Turn(transpose=True, flip_v=False, flip_u=True).apply(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[4, 1], [5, 2], [6, 3]]
    """

    transpose: bool = False
    flip_v: bool = False
    flip_u: bool = False

    def apply(self, frames: NDArray[Any]) -> NDArray[Any]:
        """Return frames (..., row, column) as (..., v, u)."""
        turned = frames.swapaxes(-1, -2) if self.transpose else frames
        return np.flip(turned, self._flipped) if self._flipped else turned

    def undo(self, frames: NDArray[Any]) -> NDArray[Any]:
        """Return frames (..., v, u) as (..., row, column)."""
        flipped = np.flip(frames, self._flipped) if self._flipped else frames
        return flipped.swapaxes(-1, -2) if self.transpose else flipped

    def shape(self, rows_columns: tuple[T, T]) -> tuple[T, T]:
        """Return (v, u) of (rows, columns), or back: of pixels, or of their spacing."""
        first, second = rows_columns
        return (second, first) if self.transpose else (first, second)

    @property
    def _flipped(self) -> tuple[int, ...]:
        return tuple(axis for axis, flip in ((-2, self.flip_v), (-1, self.flip_u)) if flip)


def laterality(view: ViewAttributes) -> str:
    """Return "L", "R" or "", from Frame Laterality, Image Laterality or Laterality."""
    found = {view.text(keyword) for keyword in ("FrameLaterality", "ImageLaterality", "Laterality")} & {
        "L",
        "R",
    }
    if len(found) > 1:
        raise FileError(
            f"expected one breast; got L and R in {title('FrameLaterality')}, {title('ImageLaterality')} and "
            f"{title('Laterality')}. Correct the file."
        )
    return found.pop() if found else ""


def view_position(view: ViewAttributes) -> str:
    """Return "CC", "MLO" and the like, from View Code Sequence or View Position, or ""."""
    codes = view.dataset.get("ViewCodeSequence") or []
    value = str(codes[0].get("CodeValue", "")) if len(codes) else ""
    by_code = view_of_code(value)
    by_name = view.text("ViewPosition")
    if by_code and by_name in VIEWS and by_code != by_name:
        raise FileError(
            f"expected one view; got {by_code} in {title('ViewCodeSequence')} and {by_name} in "
            f"{title('ViewPosition')}. Correct the file."
        )
    return by_code or by_name


def towards_source(position: str, side: str) -> Floats | None:
    """Return the direction to the source, in the patient's (L, P, H), or None if the view does not tell."""
    medial = _LETTERS["R" if side == "L" else "L"]
    up, down, across = np.array(_LETTERS["H"]), np.array(_LETTERS["F"]), np.array(medial)
    if position in VERTICAL:
        return up.astype(np.float64)
    if position == "FB":
        return down.astype(np.float64)
    if not side:
        return None
    sides = {
        "MLO": up + across,
        "ML": across,
        "LM": -across,
        "LMO": down - across,
        "SIO": up - across,
        "ISO": down + across,
    }
    return sides[position].astype(np.float64) if position in sides else None


def letters(position: str, side: str, *, forward: bool) -> str:
    """Return where x, or with `forward=False` its opposite, points in the patient.

    >>> letters("CC", "", forward=True), letters("MLO", "L", forward=True), letters("MLO", "R", forward=False)
    ('R', 'FR', 'FL')
    """
    source = towards_source(position, side)
    if source is None:
        raise FileError(
            f"expected a view of {', '.join(VIEWS)} and a side, L or R; got {position!r} and {side!r}. "
            f"Set the facts 'view' and 'laterality' of the scan."
        )
    return _named(np.cross(_ANTERIOR, source) * (1 if forward else -1))


def source_letters(position: str, side: str, *, forward: bool) -> str:
    """Return where the source, or with `forward=False` the detector, is in the patient; "" if nobody says.

    >>> source_letters("CC", "", forward=True), source_letters("MLO", "L", forward=False)
    ('H', 'FL')
    """
    source = towards_source(position, side)
    return "" if source is None else _named(source * (1 if forward else -1))


def _named(direction: Floats) -> str:
    return "".join(name for name in "HFLR" if direction @ _LETTERS[name] > _UNSURE)


def patient_turn(views: Sequence[ViewAttributes], *, needed: bool = True) -> Turn | None:
    """Return the turn that Patient Orientation asks for, or None where the file has none.

    needed: raise where the view does not tell which way x runs; otherwise that is None, too.
    """
    where = title("PatientOrientation")
    orientation = common_text(views, "PatientOrientation").split()
    if not orientation:
        return None
    if len(orientation) != 2 or not set("".join(orientation)) <= set(_LETTERS):
        raise FileError(
            f"expected {where} as two directions out of {', '.join(_LETTERS)}; got "
            f"{' '.join(orientation)!r}. Correct the file."
        )
    # The first letter is the main direction.
    row, column = (
        sum(np.array(_LETTERS[name]) / (1 + order) for order, name in enumerate(text)) for text in orientation
    )
    across_row, across_column = abs(row @ _ANTERIOR), abs(column @ _ANTERIOR)
    if max(across_row, across_column) < 0.5 or abs(across_row - across_column) < _UNSURE:
        raise FileError(
            f"expected {where} with rows or columns along A or P, chest wall to nipple; got "
            f"{' '.join(orientation)!r}. Correct the file."
        )
    transpose = bool(across_row > across_column)
    along_y, along_x = (row, column) if transpose else (column, row)
    position, side = view_position(views[0]), laterality(views[0])
    source = towards_source(position, side)
    cosine = 0.0 if source is None else float(along_x @ np.cross(_ANTERIOR, source))
    if abs(cosine) < _UNSURE and not needed:
        return None
    if abs(cosine) < _UNSURE:
        raise FileError(
            f"expected to learn from {title('ViewCodeSequence')}, {title('FrameLaterality')} and {where} "
            f"which way the tube travels over the image; got view {position!r}, side {side!r} and "
            f"{' '.join(orientation)!r}. Correct the file, or write its views with a geometry to HDF5."
        )
    return Turn(transpose=transpose, flip_v=bool(along_y @ _ANTERIOR < 0), flip_u=cosine < 0)
