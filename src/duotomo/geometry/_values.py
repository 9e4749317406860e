"""Turn what a caller passed into plain Python numbers, or say why that cannot be done."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from duotomo.errors import GeometryError

Triple = tuple[float, float, float]

LEAST_MM, MOST_MM = 1e-6, 1e9
"""Of a length, and of a coordinate, in mm: beyond these a unit is wrong, and squares may overflow."""

_MOST_WORDS = 200


def counts(where: str, name: str, values: object, axes: Sequence[str]) -> tuple[int, ...]:
    """Return one positive integer per axis."""
    label = f"{where}: expected {name} as one positive integer per axis ({', '.join(axes)})"
    remedy = "Count whole voxels or pixels."
    try:
        numbers = tuple(operator.index(value) for value in values)  # type: ignore[attr-defined]
    except TypeError:
        raise GeometryError(f"{label}; got {short(values)}. {remedy}") from None
    if len(numbers) != len(axes) or min(numbers) < 1:
        raise GeometryError(f"{label}; got {numbers}. {remedy}")
    return numbers


def lengths_mm(
    where: str, name: str, values: object, axes: Sequence[str], *, positive: bool
) -> tuple[float, ...]:
    """Return one finite number of millimetres per axis."""
    kind = "positive finite" if positive else "finite"
    label = f"{where}: expected {name} as one {kind} number per axis ({', '.join(axes)})"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise GeometryError(f"{label}; got {short(values)}. Give millimetres.") from None
    if array.shape != (len(axes),) or not np.isfinite(array).all() or (positive and (array <= 0).any()):
        raise GeometryError(f"{label}; got {short(array.tolist())}. Give millimetres.")
    if (np.abs(array) > MOST_MM).any() or (positive and (array < LEAST_MM).any()):
        raise GeometryError(
            f"{label}, from {LEAST_MM:g} to {MOST_MM:g} mm; got {array.tolist()}. Check the unit."
        )
    return tuple(array.tolist())


def triples(where: str, name: str, values: object) -> tuple[Triple, ...]:
    """Return one finite xyz triple per view."""
    label = f"{where}: expected {name} as (view, xyz) = (n_views, 3) numbers"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise GeometryError(f"{label}; got {short(values)}. Give one xyz triple per view.") from None
    if array.size == 0:
        raise GeometryError(f"{label}; got zero views. Give at least one view.")
    if array.ndim != 2 or array.shape[1] != 3:
        raise GeometryError(f"{label}; got shape {array.shape}. Give one xyz triple per view.")
    for view, row in enumerate(array):
        if not np.isfinite(row).all():
            raise GeometryError(
                f"{where}: expected {name} to be finite; got {row.tolist()} in view {view}. "
                f"Correct or drop that view."
            )
        if (np.abs(row) > MOST_MM).any():
            raise GeometryError(
                f"{where}: expected {name} within {MOST_MM:g} mm; got {row.tolist()} in view {view}. "
                f"Check the unit."
            )
    # Adding zero turns -0.0 into 0.0, which prints the way it compares.
    return tuple((x, y, z) for x, y, z in (array + 0.0).tolist())


def short(value: object) -> str:
    """Return how Python writes a value, its start if that is long.

    >>> short([1.5, None])
    '[1.5, None]'
    """
    text = repr(value)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}..."


def factors(where: str, factor: object, axes: Sequence[str]) -> tuple[int, ...]:
    """Return one positive integer factor per axis; a single integer serves every axis."""
    try:
        return counts(where, "factor", (operator.index(factor),) * len(axes), axes)  # type: ignore[arg-type]
    except TypeError:
        return counts(where, "factor", factor, axes)


@dataclass(frozen=True)
class AsJson:
    """A dataclass that is written as JSON and read back."""

    def to_json(self) -> str:
        """Return it as JSON.

        Returns
        -------
        str
            What `from_json` reads.

        Examples
        --------
        >>> from duotomo.geometry import Acquisition, paper
        >>> Acquisition.from_json(paper().to_json()) == paper()
        True
        """
        return json.dumps({"kind": type(self).__name__, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote.

        Parameters
        ----------
        text : str
            As JSON.

        Returns
        -------
        Self
            Equal to the one written.

        Raises
        ------
        GeometryError
            If the text is not of this class.
        """
        return cls(**_load_json(cls.__name__, [field.name for field in fields(cls)], text))


def _load_json(kind: str, names: Sequence[str], text: str) -> dict[str, Any]:
    """Return the fields of an object of this kind from its JSON text."""
    where = f"{kind}.from_json"
    remedy = f"Pass text written by {kind}.to_json()."
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise GeometryError(f"{where}: expected JSON text; got {error}. {remedy}") from None
    if not isinstance(content, dict):
        raise GeometryError(f"{where}: expected a JSON object; got {type(content).__name__}. {remedy}")
    got = content.pop("kind", None)
    if got != kind:
        raise GeometryError(f"{where}: expected kind {kind!r}; got {short(got)}. {remedy}")
    missing = sorted(set(names) - set(content))
    unknown = sorted(set(content) - set(names))
    if missing or unknown:
        raise GeometryError(
            f"{where}: expected keys {list(names)}; missing {missing}, not known {unknown}. {remedy}"
        )
    return content
