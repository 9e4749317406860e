"""One visit as a file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from duotomo.errors import DtypeError, GeometryError, NonFiniteError, ShapeError, check_tensor
from duotomo.geometry import Acquisition
from duotomo.io.scan_options import Values

if TYPE_CHECKING:
    from duotomo.io.dicom.identity import Identity


@dataclass(frozen=True, kw_only=True, eq=False)
class Scan:
    """The projections of one visit, their geometry, and what its file says of them.

    Parameters
    ----------
    projections : torch.Tensor
        (view, v, u), float32 or float64. Counts may be zero, NaN or infinite where the detector is dead; line
        integrals are finite.
    values : Values
        What the numbers are.
    acquisition : Acquisition
        Their geometry.
    flat_field : torch.Tensor, optional
        Counts without the breast: (view, v, u), (v, u), (view, 1, 1) or a scalar; only with counts.
    format : str
        The kind of file, for people.
    facts : mapping of str to str
        Laterality, kVp and the like, for people; nothing in them identifies a patient.
    thickness_mm : float, optional
        Of the compressed breast, in mm.
    gantry_deg : float, optional
        Angle of the gantry from the vertical, positive towards the patient's right, in degrees.
    warnings : tuple of str
        What a person should know before the scan is used.
    identity : Identity, optional
        Of the patient; it travels to DICOM files only.

    Raises
    ------
    ShapeError, DtypeError, NonFiniteError, GeometryError
        If the arrays do not fit the geometry or each other, or a number cannot be.

    Examples
    --------
    >>> from duotomo.geometry import paper
    >>> scan = Scan(projections=torch.zeros(paper().shape), values=Values.LINE_INTEGRALS, acquisition=paper())
    >>> scan
    Scan(projections=(11, 128, 128) torch.float32, values='line integrals', format='')
    """

    projections: torch.Tensor
    values: Values
    acquisition: Acquisition
    flat_field: torch.Tensor | None = None
    format: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    thickness_mm: float | None = None
    gantry_deg: float | None = None
    warnings: tuple[str, ...] = ()
    identity: Identity | None = None

    def __post_init__(self) -> None:
        counts = self.values is Values.COUNTS
        shape = self.acquisition.shape
        check_tensor(
            "Scan",
            "projections",
            self.projections,
            shape=shape,
            axes=("view", "v", "u"),
            batch_ok=False,
            finite=not counts,
        )
        object.__setattr__(self, "projections", self.projections.contiguous())
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        if self.flat_field is not None:
            _check_flat_field(self.flat_field, shape, counts=counts)
        if self.gantry_deg is not None and not abs(self.gantry_deg) <= 180:
            raise GeometryError(
                f"Scan: expected gantry_deg within 180 degrees; got {self.gantry_deg}. Give degrees, or "
                f"leave it out."
            )
        if self.thickness_mm is not None and not 0 < self.thickness_mm < float("inf"):
            raise GeometryError(
                f"Scan: expected thickness_mm as a positive finite number; got {self.thickness_mm}. "
                f"Give millimetres, or leave it out."
            )

    # Written out: neither a million numbers nor an identity belongs into a log.
    def __repr__(self) -> str:
        return (
            f"Scan(projections={tuple(self.projections.shape)} {self.projections.dtype}, "
            f"values={self.values.value!r}, format={self.format!r})"
        )


def _check_flat_field(flat: torch.Tensor, shape: tuple[int, int, int], *, counts: bool) -> None:
    n_views, n_v, n_u = shape
    allowed = ((n_views, n_v, n_u), (n_v, n_u), (n_views, 1, 1), ())
    if not counts:
        raise DtypeError(
            "Scan: expected flat_field only with counts; got one with line integrals. Leave it out, or say "
            "that the values are counts."
        )
    if flat.dtype not in (torch.float32, torch.float64):
        raise DtypeError(
            f"Scan: expected flat_field of torch.float32 or torch.float64; got {flat.dtype}. "
            f"Convert it with .to(torch.float32)."
        )
    if tuple(flat.shape) not in allowed:
        raise ShapeError(
            f"Scan: expected flat_field (view, v, u) = {allowed[0]}, (v, u) = {allowed[1]}, (view, 1, 1) = "
            f"{allowed[2]} or one number; got {tuple(flat.shape)}. Measure it with the same detector."
        )
    # Pixels of zero or NaN are dead and are repaired; a flat field without any other is no flat field.
    if not bool(((flat > 0) & torch.isfinite(flat)).any()):
        raise NonFiniteError(
            "Scan: expected flat_field with positive counts; got none. Measure it without the breast."
        )
