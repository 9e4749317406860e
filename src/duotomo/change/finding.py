"""One place where the breast changed between two visits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["new", "gone"]
"""Attenuation that the current visit has and the prior has not, or the other way round."""

Xyz = tuple[float, float, float]
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A change, where it is, and how sure that is.

    Parameters
    ----------
    number : int
        From 1, the surest first.
    kind : str
        "new" or "gone".
    template : str
        What it looks most like, such as "sphere of 8 mm".
    place_mm : tuple of float
        (x, y, z) in the frame of the current visit.
    place_deviation_mm : tuple of float
        Standard deviations of it.
    prior_place_mm : tuple of float
        The same place in the frame of the prior visit.
    size_mm : float
        Diameter.
    size_interval_mm : tuple of float
        Of 95 %.
    contrast_per_mm : float
        Change of attenuation in 1/mm; negative for what is gone.
    contrast_interval_per_mm : tuple of float
        Of 95 %.
    z : float
        Score over its standard deviation; negative for what is gone.
    p_value : float
        Probability of such a score at one place that did not change.
    false_findings : float
        How many findings as sure as this one are to be expected in a breast that did not change.
    false_discovery_rate : float
        Share of false ones to expect among the findings up to this one.
    smear_mm : float
        Length along depth that limited angles draw it out to, at half of its height.
    slice_index : int
        Of the volume of the current visit, along z, from 0.
    words : str
        Where it is, for people.
    """

    number: int
    kind: Kind
    template: str
    place_mm: Xyz
    place_deviation_mm: Xyz
    prior_place_mm: Xyz
    size_mm: float
    size_interval_mm: Interval
    contrast_per_mm: float
    contrast_interval_per_mm: Interval
    z: float
    p_value: float
    false_findings: float
    false_discovery_rate: float
    smear_mm: float
    slice_index: int
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON.

        Returns
        -------
        dict
            By the names of the fields.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Finding:
        """Return it from what `to_dict` gave, and JSON made of that.

        Parameters
        ----------
        row : dict
            By the names of the fields, with lists for tuples.

        Returns
        -------
        Finding
            The same one.
        """
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        return cls(**values)
