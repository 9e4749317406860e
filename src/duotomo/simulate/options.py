"""What simulated visits can be asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from duotomo.errors import DuotomoError
from duotomo.phantoms.density import Density

SECOND_THICKNESS = 0.92
"""Of the second visit, as a part of the first's, unless given."""

Triple = tuple[float, float, float]


class PhantomKind(Enum):
    """A built-in phantom."""

    BREAST = "breast"
    TOROID = "toroid"
    SHEPP_LOGAN = "shepp-logan"


class LesionVisits(Enum):
    """Which visits have the lesion."""

    NONE = "none"
    FIRST = "first"
    SECOND = "second"
    BOTH = "both"

    def at(self, visit: int) -> bool:
        """Return whether a visit has it.

        Parameters
        ----------
        visit : int
            Counted from 1.

        Returns
        -------
        bool
            Whether the lesion is there.
        """
        return self is LesionVisits.BOTH or self is {1: LesionVisits.FIRST, 2: LesionVisits.SECOND}.get(visit)


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """What `make_visits` simulates: a phantom, how it is compressed or moved between visits, and its scan.

    Parameters
    ----------
    phantom : PhantomKind
        What is scanned.
    density : Density
        BI-RADS density of the breast.
    radii_mm : tuple of float
        Half axes (x, y, z) of the body at rest, mm.
    chest_wall_mm : float
        From the detector's edge to the back of the breast, mm.
    gap_mm : float
        From the detector to the body, mm.
    compressed : bool
        Compress the breast between plates, by finite elements.
    thickness_mm : float
        Between the plates, mm.
    second_visit : bool
        Scan the body twice.
    second_thickness_mm : float, optional
        Between the plates at the second visit, mm. [default: 92 % of the first]
    roll_deg : float
        How far the second visit's body is turned about y, degrees.
    shift_mm : tuple of float
        How far it is shifted there, (x, y, z), mm.
    lesion : LesionVisits
        Which visits have a spiculated mass.
    lesion_radius_mm : float
        Radius of the mass, mm.
    lesion_mm : tuple of float, optional
        Centre (x, y, z) of the mass at rest, mm. [default: off the middle, in the lower half of the radii]
    machine : str
        The machine, one of `duotomo.geometry.MACHINES`.
    n_views : int, optional
        Views, evenly chosen among the machine's. [default: all of them]
    pixel_mm : float
        Pixels are united to about this size, mm.
    photons_per_mm2 : float
        Expected counts for each mm^2 and view, without the body.
    seed : int
        Of the anatomy, and of the noise.
    noise_seeds : tuple of int, optional
        Of the noise of each visit. [default: 10 seed + 1, 10 seed + 2]
    rest_oversample : int
        Points along each edge of the voxels that a breast to be compressed is sampled on.

    Examples
    --------
    >>> SimulationOptions(compressed=True, thickness_mm=50.0, second_visit=True).thicknesses_mm
    (50.0, 46.0)
    """

    phantom: PhantomKind = PhantomKind.BREAST
    density: Density = Density.C
    radii_mm: Triple = (40.0, 34.0, 30.0)
    chest_wall_mm: float = 0.0
    gap_mm: float = field(default=0.0, metadata={"minimum": 0.0})
    compressed: bool = False
    thickness_mm: float = field(default=45.0, metadata={"minimum": 1.0})
    second_visit: bool = False
    second_thickness_mm: float | None = field(default=None, metadata={"minimum": 1.0})
    roll_deg: float = 5.0
    shift_mm: Triple = (0.0, 0.0, 0.0)
    lesion: LesionVisits = LesionVisits.NONE
    lesion_radius_mm: float = field(default=4.0, metadata={"minimum": 0.1})
    lesion_mm: Triple | None = None
    machine: str = "victre"
    n_views: int | None = field(default=None, metadata={"minimum": 1})
    pixel_mm: float = field(default=0.5, metadata={"minimum": 0.01})
    photons_per_mm2: float = 270_000.0
    seed: int = field(default=0, metadata={"minimum": 0, "maximum": 2**59})
    noise_seeds: tuple[int, int] | None = None
    rest_oversample: int = 1

    def __post_init__(self) -> None:
        where = "SimulationOptions"
        if self.compressed and self.phantom is not PhantomKind.BREAST:
            raise DuotomoError(
                f"{where}: expected `phantom='breast'` with `compressed`; got {self.phantom.value}. Leave "
                f"`compressed` out."
            )
        if self.lesion is LesionVisits.SECOND and not self.second_visit:
            raise DuotomoError(
                f"{where}: expected `second_visit` with `lesion='second'`; got one visit. Add it, or pass "
                f"`lesion='first'`."
            )
        if not 0 < self.photons_per_mm2 < math.inf:
            raise DuotomoError(
                f"{where}: expected `photons_per_mm2` above 0; got {self.photons_per_mm2}. Give counts per "
                f"mm^2."
            )
        if not all(radius_mm > 0 for radius_mm in self.radii_mm):
            raise DuotomoError(
                f"{where}: expected `radii_mm` above 0; got {self.radii_mm}. Give millimetres."
            )

    @property
    def n_visits(self) -> int:
        """One or two."""
        return 2 if self.second_visit else 1

    @property
    def thicknesses_mm(self) -> tuple[float, ...] | None:
        """Between the plates, of each visit; None where nothing is compressed."""
        if not self.compressed:
            return None
        second_mm = self.second_thickness_mm or SECOND_THICKNESS * self.thickness_mm
        return (self.thickness_mm, second_mm)[: self.n_visits]

    def noise_seed(self, visit: int) -> int:
        """Return the seed of a visit's noise.

        Parameters
        ----------
        visit : int
            Its number, from 1 on.

        Returns
        -------
        int
            Of the generator.
        """
        return 10 * self.seed + visit if self.noise_seeds is None else self.noise_seeds[visit - 1]
