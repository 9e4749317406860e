"""What a person says about scans because their files do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from duotomo.errors import DuotomoError


class Values(Enum):
    """What the numbers of projections are.

    Examples
    --------
    >>> Values("counts")
    <Values.COUNTS: 'counts'>
    """

    LINE_INTEGRALS = "line integrals"
    COUNTS = "counts"


Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Supplied:
    """What is said of one scan because its file does not say it; None takes it from the file.

    Parameters
    ----------
    geometry : Path, optional
        A geometry JSON, as `Acquisition.to_json` writes it, or RTK's XML.
    machine : str, optional
        A name of `duotomo.geometry.MACHINES`.
    pixel_spacing_mm : tuple of float, optional
        (v, u), in mm.
    source_to_detector_mm, source_to_pivot_mm : float, optional
        In mm.
    angles_deg : tuple of float, optional
        Of the tube, one per view, in degrees.
    variable : str, optional
        The array of a `.mat` or HDF5 file that is meant.
    values : Values, optional
        What the numbers are.

    Examples
    --------
    >>> Supplied(pixel_spacing_mm=(0.14, 0.14)).machine is None
    True
    """

    geometry: Path | None = None
    machine: str | None = None
    pixel_spacing_mm: tuple[float, float] | None = None
    source_to_detector_mm: float | None = None
    source_to_pivot_mm: float | None = None
    angles_deg: tuple[float, ...] | None = None
    variable: str | None = None
    values: Values | None = None


def _at_least_0(default: Any) -> Any:
    return field(default=default, metadata={"minimum": 0})


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """What is said of the scans of a study, of how counts become line integrals, and of the grids.

    Parameters
    ----------
    geometry : tuple of Path
        A geometry JSON or RTK XML: once for all visits, or once for each.
    machine : tuple of str
        A published machine, such as ge_senoclaire: once for all visits, or once for each.
    pixel_spacing_mm : tuple of float, optional
        V,U in mm, or one number for both.
    source_to_detector_mm : float, optional
        In mm.
    source_to_pivot_mm : float, optional
        In mm.
    angles_deg : tuple of float, optional
        Of the tube, one per view, in degrees: -25,-20,...
    variable : str, optional
        The array of a .mat or HDF5 file.
    values : Values, optional
        What the numbers are.
    flat_field : float, optional
        Counts without the breast.
    estimate_flat_field : bool
        Take it from pixels that nothing covers.
    scatter_offset : float
        Counts to subtract before the logarithm.
    least_transmission : float
        Transmission is taken to be at least this.
    keep_dead : bool
        Leave dead pixels as they are.
    saturation : float, optional
        Counts from which on a pixel is dead.
    voxel_mm : tuple of float, optional
        Z,Y,X in mm, or one number for all. Unless given: 1 mm, and the size of a pixel.
    thickness_mm : tuple of float, optional
        Of the compressed breast, in mm; one for all visits, or one for each: 52,48.
    gap_mm : float
        Between detector and breast, in mm.

    Examples
    --------
    >>> options = ScanOptions(machine=("ge_senoclaire",), thickness_mm=(52.0, 48.0))
    >>> options.of_visit(2, n_visits=2).machine, options.thickness_of_visit(2, n_visits=2)
    ('ge_senoclaire', 48.0)
    """

    geometry: tuple[Path, ...] = ()
    machine: tuple[str, ...] = ()
    pixel_spacing_mm: tuple[float, float] | None = None
    source_to_detector_mm: float | None = _at_least_0(None)
    source_to_pivot_mm: float | None = _at_least_0(None)
    angles_deg: tuple[float, ...] | None = None
    variable: str | None = None
    values: Values | None = None
    flat_field: float | None = _at_least_0(None)
    estimate_flat_field: bool = False
    scatter_offset: float = _at_least_0(0.0)
    least_transmission: float = field(default=1e-5, metadata={"minimum": 0, "maximum": 1})
    keep_dead: bool = False
    saturation: float | None = _at_least_0(None)
    voxel_mm: tuple[float, float, float] | None = None
    thickness_mm: tuple[float, ...] | None = None
    gap_mm: float = _at_least_0(0.0)

    def of_visit(self, number: int, n_visits: int) -> Supplied:
        """Return what is said of the geometry and the values of one visit.

        Parameters
        ----------
        number : int
            Of the visit, from 1.
        n_visits : int
            How many there are.

        Returns
        -------
        Supplied
            For `read_scan`.

        Raises
        ------
        DuotomoError
            If something was given for some visits only.
        """
        said = {one.name: getattr(self, one.name) for one in fields(Supplied)}
        said |= {name: _of_visit(name, said[name], number, n_visits) for name in ("geometry", "machine")}
        return Supplied(**said)

    def thickness_of_visit(self, number: int, n_visits: int) -> float | None:
        """Return the thickness of the compressed breast that was given for one visit.

        Parameters
        ----------
        number, n_visits : int
            Those of `of_visit`.

        Returns
        -------
        float or None
            In mm; None takes it from the file.

        Raises
        ------
        DuotomoError
            If there is one for some visits only.
        """
        return _of_visit("thickness_mm", self.thickness_mm or (), number, n_visits)

    @property
    def given(self) -> tuple[str, ...]:
        """Names of what differs from the defaults."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != one.default)

    @property
    def has_geometry(self) -> bool:
        """Whether anything here makes an image a scan."""
        return bool(self.geometry or self.machine or self.pixel_spacing_mm or self.angles_deg)


def _of_visit(name: str, given: Sequence[Value], number: int, n_visits: int) -> Value | None:
    """Return what was given once, or once for each visit, for one of them."""
    if len(given) not in (0, 1, n_visits):
        raise DuotomoError(
            f"ScanOptions: expected `{name}` once, or once for each of {n_visits} visits; got it "
            f"{len(given)} times. Give them in the order of the visits."
        )
    if not given:
        return None
    return given[0] if len(given) == 1 else given[number - 1]
