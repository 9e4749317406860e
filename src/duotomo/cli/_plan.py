"""What `duotomo simulate` can be asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from duotomo.errors import DuotomoError

if TYPE_CHECKING:
    from duotomo.geometry import Acquisition


class Body(Enum):
    """A built-in phantom."""

    BREAST = "breast"
    TOROID = "toroid"
    SHEPP_LOGAN = "shepp-logan"


class BiRads(Enum):
    """The density of a breast."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


class Lesion(Enum):
    """Which visits have the mass."""

    NONE = "none"
    FIRST = "first"
    SECOND = "second"
    BOTH = "both"

    def at(self, visit: int) -> bool:
        """Return whether a visit, counted from 1, has it."""
        return self is Lesion.BOTH or self is {1: Lesion.FIRST, 2: Lesion.SECOND}.get(visit)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to simulate.

    density: of the breast. radii_mm: (x, y, z) at rest. gap_mm: from the detector to the body.
    thickness_mm: between the plates, of each visit; None where nothing is compressed. roll_deg, shift_mm:
    how the second visit's body is turned about y and shifted. photons: for each square millimetre and view,
    without anything in the beam. voxel_mm: of the grids that the truth is given on.
    """

    body: Body
    density: BiRads
    radii_mm: tuple[float, float, float]
    gap_mm: float
    thickness_mm: tuple[float, float] | None
    two: bool
    roll_deg: float
    shift_mm: tuple[float, float, float]
    lesion: Lesion
    lesion_radius_mm: float
    acquisition: Acquisition
    photons: float
    voxel_mm: float
    seed: int
    device: str

    def __post_init__(self) -> None:
        if self.thickness_mm is not None and self.body is not Body.BREAST:
            raise DuotomoError(
                f"duotomo simulate: expected --phantom breast with --compressed; got {self.body.value}. "
                f"Leave --compressed out."
            )
        if self.lesion is Lesion.SECOND and not self.two:
            raise DuotomoError(
                "duotomo simulate: expected --second-visit with --lesion second; got one visit. Add it, or "
                "pass --lesion first."
            )
        if not 0 < self.photons < math.inf:
            raise DuotomoError(
                f"duotomo simulate: expected --photons above 0; got {self.photons}. Give counts per mm^2."
            )
        if not all(radius_mm > 0 for radius_mm in self.radii_mm):
            raise DuotomoError(
                f"duotomo simulate: expected --radii above 0; got {self.radii_mm}. Give millimetres."
            )
