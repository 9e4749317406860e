"""The BI-RADS density of a breast."""

from __future__ import annotations

from enum import Enum


class Density(Enum):
    """The BI-RADS density of a breast, by the fibroglandular share of the volume inside the skin.

    Examples
    --------
    >>> Density.C.fibroglandular_share
    0.38
    """

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def fibroglandular_share(self) -> float:
        """Of the volume inside the skin, 0 to 1."""
        return {"A": 0.07, "B": 0.18, "C": 0.38, "D": 0.62}[self.value]
